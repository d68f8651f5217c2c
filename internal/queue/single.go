package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// lastMsg reads the last message of a subject at the stream's leader, because a
// follower may not have it yet (R2). It returns nil if there is none.
//
// The server says "no message found" also if it could not read its own file,
// and while it closes the stream (nats-server 2.15, jsMsgGetRequest). So
// lastMsg believes that only if the stream's index agrees.
func (rd *reader) lastMsg(ctx context.Context, stream, subject string) (*settle.Message, error) {
	for try := 1; ; try++ {
		m, err := rd.getMsg(ctx, stream, query{"last_by_subj": subject})
		if err != nil || m != nil {
			return m, err
		}
		index, err := rd.infoWith(ctx, stream, query{"subjects_filter": subject}) // the leader's, in memory
		switch {
		case err != nil:
			return nil, err
		case index.State.Subjects[subject] == 0:
			return nil, nil
		case try == 2: // the first time, the message may have come in between
			return nil, fmt.Errorf("read from stream %s: %w: subject %s; see the log and the disk of the broker", stream, settle.ErrNotLoaded, subject)
		}
	}
}

// infoWith asks a stream's leader for its state with the details that q asks for.
func (rd *reader) infoWith(ctx context.Context, stream string, q query) (apiAnswer, error) {
	return patiently(ctx, rd.conn, func(ctx context.Context) (apiAnswer, error) {
		body, err := rd.ask(ctx, stream, "STREAM.INFO", q)
		if err == nil && body.Created.IsZero() {
			err = fmt.Errorf("stream %s: the answer has neither a state nor an error", stream)
		}
		return body, err
	})
}

// apiAnswer is what the broker's API answers to a request about a stream.
type apiAnswer struct {
	Error   *jetstream.APIError `json:"error"`
	Purged  int                 `json:"purged"`
	Message *struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
	Total int `json:"total"` // of the subjects that were asked for
	jetstream.StreamInfo
}

// ask sends a request about a stream to the broker's API. An error of the API
// is a *jetstream.APIError, wrapped.
func (rd *reader) ask(ctx context.Context, stream, api string, q query) (body apiAnswer, err error) {
	ctx, cancel := rd.conn.link.bound(ctx)
	defer cancel()
	resp, err := rd.conn.nc.RequestWithContext(ctx, "$JS.API."+api+"."+stream, q.json())
	if err == nil {
		err = json.Unmarshal(resp.Data, &body)
	}
	if err == nil && body.Error != nil {
		err = body.Error
	}
	if err != nil {
		return body, fmt.Errorf("stream %s: %w", stream, err)
	}
	return body, nil
}

// msgAt reads one message by its sequence at the stream's leader. It returns
// nil if the message is gone.
func (rd *reader) msgAt(ctx context.Context, stream string, seq uint64) (*settle.Message, error) {
	return rd.getMsg(ctx, stream, query{"seq": seq})
}

// getMsg reads one message at the stream's leader, nil if there is none.
func (rd *reader) getMsg(ctx context.Context, stream string, q query) (*settle.Message, error) {
	return patiently(ctx, rd.conn, func(ctx context.Context) (*settle.Message, error) { return rd.askMsg(ctx, stream, q) })
}

func (rd *reader) askMsg(ctx context.Context, stream string, q query) (*settle.Message, error) {
	body, err := rd.ask(ctx, stream, "STREAM.MSG.GET", q)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeMessageNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := body.Message
	if m == nil {
		return nil, fmt.Errorf("read from stream %s: the answer has neither a message nor an error", stream)
	}
	raw := &settle.Message{Subject: m.Subject, Seq: m.Seq, Time: m.Time, Data: m.Data}
	if len(m.Header) > 0 {
		h, err := nats.DecodeHeadersMsg(m.Header)
		if err != nil {
			return nil, fmt.Errorf("read from stream %s, sequence %d: %w", stream, m.Seq, err)
		}
		raw.Header = settle.Header(h)
	}
	return raw, nil
}

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
	var first [][]byte
	for seq := from; seq < end; seq += step {
		first = append(first, nextFrom(seq))
	}
	seen := make(map[uint64]bool)
	whole, behind := true, uint64(0) // behind: the first message behind the span
	err = rd.askSingly(ctx, stream, first, func(m *settle.Message) (again []byte) {
		switch {
		case m == nil: // nothing more, or nothing more at a follower that lags
			whole = false
			return nil
		case seen[m.Seq]: // two parts can lead to the same message
			return nil
		case m.Seq >= end:
			if behind == 0 || m.Seq < behind {
				behind = m.Seq
			}
			return nil
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
func nextFrom(seq uint64) []byte { return fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, seq) }

// askSingly sends requests that are answered by one message each. It passes each
// answer to take, nil if there is no such message, and sends the request that take
// returns, unless that is nil.
func (rd *reader) askSingly(ctx context.Context, stream string, requests [][]byte, take func(*settle.Message) (again []byte)) error {
	open := len(requests)
	return rd.direct(ctx, stream, requests, func(msg *nats.Msg, ask asker) (over bool, err error) {
		m, err := single(msg)
		if err != nil {
			return false, err
		}
		if again := take(m); again != nil {
			return false, ask(again)
		}
		open--
		return open == 0, nil
	})
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

// JetStream's answers to the deletion of a message that is gone. The client has no
// names for them.
const (
	codeDeleteFailed     = 10057
	textNoMessage        = "no message found"
	codeSequenceNotFound = 10043
)

// deleteMsg removes a stored message. The error for a message that is gone, for
// instance because the answer to an earlier request was lost, wraps
// jetstream.ErrMsgNotFound. Another error that the broker answered is a
// *jetstream.APIError (wrapped).
//
// It sends the request itself: the client's own function asks for the stream's
// state first, and its error does not say that the message is gone.
func (rd *reader) deleteMsg(ctx context.Context, stream string, seq uint64) error {
	return rd.conn.patiently(ctx, func(ctx context.Context) error {
		_, err := rd.ask(ctx, stream, "STREAM.MSG.DELETE", query{"seq": seq, "no_erase": true})
		var refused *jetstream.APIError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused) && (refused.ErrorCode == codeSequenceNotFound ||
			refused.ErrorCode == codeDeleteFailed && strings.Contains(refused.Description, textNoMessage)):
			err = fmt.Errorf("%w: %w", jetstream.ErrMsgNotFound, err)
		}
		return fmt.Errorf("sequence %d: not removed: %w", seq, err)
	})
}

// unlessGone returns nil where a message is gone that was to be deleted.
func unlessGone(err error) error {
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	return err
}

// purge removes the messages of a subject with sequences below before, and returns how many those
// were. An empty subject means all subjects, 0 all sequences.
func (rd *reader) purge(ctx context.Context, stream, subject string, before uint64) (purged int, err error) {
	body, err := patiently(ctx, rd.conn, func(ctx context.Context) (apiAnswer, error) {
		return rd.ask(ctx, stream, "STREAM.PURGE", query{"filter": subject, "seq": before})
	})
	return body.Purged, err
}
