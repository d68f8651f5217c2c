package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"orderpost/internal/settle"
)

// A batched read also says how many messages are left behind it. Where a stream
// keeps one message for each subject and has holes, the broker looks at every
// subject to count them (nats-server 2.15, fileStore.NumPending). With a million
// subjects that takes 100 milliseconds for each page, and a page has 256 messages.
// So a large stream with holes is read by many requests at once, for one message
// each, which the broker answers without counting.

const (
	// fewMessages is how many messages the broker counts in a millisecond.
	fewMessages = 10_000
	// stateEvery is after how many pages a walk looks again whether the stream has
	// holes.
	stateEvery = 32
	// readsAtOnce is how many requests for one message are under way. The answers
	// together stay below what the broker lets a client lag behind, 64 MiB.
	readsAtOnce = 32
	// maxSpan bounds the messages that one span may turn out to have.
	maxSpan = 8 * pageSize
)

// nextSpan returns how large the next span is to be for a page of messages, if the
// last one had n.
func nextSpan(size uint64, n int) uint64 {
	switch {
	case n > pageSize:
		return pageSize
	case n < pageSize/4:
		return min(2*size, maxSpan)
	default:
		return size
	}
}

// span reads the messages with the sequences from to end-1, and returns the sequence to go on
// from, end or a later one; 0 = the page may lack some. Another replica may answer for each
// part, and one that lags has none for the end of its part.
func (rd *reader) span(ctx context.Context, stream, filter string, from, end uint64) (page []*settle.Message, next uint64, err error) {
	err = rd.conn.patiently(ctx, func(ctx context.Context) error {
		page, next, err = rd.askSpan(ctx, stream, filter, from, end)
		return err
	})
	return page, next, err
}

// askSpan divides the span into parts and asks for the first message of each part
// and, when that has come, for the one that follows it.
func (rd *reader) askSpan(ctx context.Context, stream, filter string, from, end uint64) (page []*settle.Message, next uint64, err error) {
	step := (end - from + readsAtOnce - 1) / readsAtOnce
	var first []string
	for seq := from; seq < end; seq += step {
		first = append(first, nextFrom(seq))
	}
	seen := make(map[uint64]bool)
	whole, behind := true, uint64(0) // behind: the first message behind the span
	err = rd.askSingly(ctx, stream, first, func(m *settle.Message) (again string) {
		switch {
		case m == nil: // nothing more, or nothing more at a follower that lags
			whole = false
			return ""
		case seen[m.Seq]: // two parts can lead to the same message
			return ""
		case m.Seq >= end:
			if behind == 0 || m.Seq < behind {
				behind = m.Seq
			}
			return ""
		}
		seen[m.Seq] = true
		if matches(filter, m.Subject) {
			page = append(page, m)
		}
		if following := m.Seq + 1; following < end && (following-from)%step != 0 {
			again = nextFrom(following)
		}
		return again
	})
	slices.SortFunc(page, func(a, b *settle.Message) int { return cmp.Compare(a.Seq, b.Seq) })
	if whole {
		next = max(behind, end)
	}
	return page, next, err
}

// nextFrom asks for the first message at or after a sequence.
func nextFrom(seq uint64) string { return fmt.Sprintf(`{"seq":%d,"next_by_subj":">"}`, seq) }

// askSingly sends requests that are answered by one message each. It passes each
// answer to take, nil if there is no such message, and sends the request that take
// returns, unless that is empty.
func (rd *reader) askSingly(ctx context.Context, stream string, requests []string, take func(*settle.Message) (again string)) error {
	ctx, cancel := rd.conn.link.bound(ctx)
	defer cancel()
	in, err := rd.inboxes.take()
	if err != nil {
		return fmt.Errorf("read from stream %s: %w", stream, err)
	}
	over := false
	defer func() { rd.inboxes.put(in, over) }()
	ask := func(request string) error {
		return rd.conn.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, in.subject, []byte(request))
	}
	for _, r := range requests {
		if err := ask(r); err != nil {
			return fmt.Errorf("read from stream %s: %w", stream, err)
		}
	}
	for open := len(requests); open > 0; open-- {
		select {
		case msg := <-in.answers:
			m, err := single(msg)
			if err == nil {
				if again := take(m); again != "" {
					open++
					err = ask(again)
				}
			}
			if err != nil {
				return fmt.Errorf("read from stream %s: %w", stream, err)
			}
		case <-ctx.Done():
			return fmt.Errorf("read from stream %s: %w: %w", stream, errIncomplete, ctx.Err())
		}
	}
	over = true
	return nil
}

// single reads the answer to a request for one message, nil if there is none.
func single(msg *nats.Msg) (*settle.Message, error) {
	switch status := directStatus(msg); status {
	case "":
		return directMsg(msg)
	case "404":
		return nil, nil
	case "503":
		return nil, nats.ErrNoResponders
	default:
		return nil, fmt.Errorf("%w: status %s %s", errIncomplete, status, msg.Header.Get("Description"))
	}
}
