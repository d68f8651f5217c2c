package queue

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/settle"
)

// Stream reads many messages of one stream, for listings and audits (package
// books). [Queue.Store] reads single messages.
type Stream struct {
	reader       *reader
	name, prefix string // prefix of its subjects, including the last dot
	heads        bool   // Peek omits the bodies
	wildcard     string // what its subjects have after the prefix: * one token, > at least one
}

// StreamState is the extent of a stream at one moment.
type StreamState struct {
	Messages          uint64
	FirstSeq, LastSeq uint64
	// Deleted counts the sequences between FirstSeq and LastSeq that are gone.
	Deleted int
	// FirstTime and LastTime are when the messages FirstSeq and LastSeq were stored.
	FirstTime, LastTime time.Time
	// Created is when the broker created the stream. Birth names it, in nanoseconds since 1970,
	// also after it was restored from a backup (order.Position).
	Created time.Time
	Birth   int64
}

// End returns the last sequence.
func (st StreamState) End() settle.StreamSeq {
	return settle.StreamSeq{Seq: st.LastSeq, Birth: st.Birth}
}

// State reads the stream's extent.
func (s Stream) State(ctx context.Context) (StreamState, error) {
	info, err := s.reader.info(ctx, s.name)
	if err != nil {
		return StreamState{}, err
	}
	return stateOf(info), nil
}

func stateOf(info *jetstream.StreamInfo) StreamState {
	return StreamState{Messages: info.State.Msgs, FirstSeq: info.State.FirstSeq, LastSeq: info.State.LastSeq,
		Deleted: info.State.NumDeleted, FirstTime: info.State.FirstTime, LastTime: info.State.LastTime, Created: info.Created, Birth: bornAt(info).UnixNano()}
}

// Token returns the last token of the message's subject, under which it is
// filed.
func (s Stream) Token(m *settle.Message) string { return strings.TrimPrefix(m.Subject, s.prefix) }

// ToTheEnd is the last sequence of a Walk to the end of the stream.
const ToTheEnd = math.MaxUint64

// Walk passes the messages with the sequences first to last to visit, oldest
// first, at most 256 at a time, in constant memory. It goes no further than the
// stream does when it begins. With several replicas any of them may answer. One
// that lags hides nothing: the leader says where the stream ends.
func (s Stream) Walk(ctx context.Context, first, last uint64, visit func(page []*settle.Message) error) error {
	state, err := s.State(ctx)
	if err != nil {
		return err
	}
	last = min(last, state.LastSeq)
	size := uint64(pageSize)
	for pages, next, over := 1, max(first, state.FirstSeq), false; next <= last && !over; pages++ {
		if pages%stateEvery == 0 {
			if state, err = s.State(ctx); err != nil {
				return err
			}
		}
		var page []*settle.Message
		behind := uint64(0)
		if state.holey() {
			page, behind, err = s.reader.span(ctx, s.name, s.prefix+s.wildcard, next, min(next+size, last+1))
			size = nextSpan(size, len(page))
		}
		if behind > 0 {
			next = behind
		} else if err == nil {
			page, next, over, err = s.page(ctx, next, last)
		}
		if err != nil {
			return err
		}
		for len(page) > 0 && page[len(page)-1].Seq > last {
			page = page[:len(page)-1]
		}
		for part := range slices.Chunk(page, pageSize) {
			if err := visit(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// page makes one batched read, and returns the sequence to go on from. over says that the
// stream has nothing from there on up to last.
func (s Stream) page(ctx context.Context, from, last uint64) (page []*settle.Message, next uint64, over bool, err error) {
	page, next, left, err := s.reader.page(ctx, s.name, s.prefix+s.wildcard, from, pageSize)
	if next = max(next, from); err != nil || left > 0 || next > last {
		return page, next, false, err
	}
	if over, err = s.ended(ctx, next); err == nil && !over { // a follower that lags has answered
		err = settle.Sleep(ctx, lagPause)
	}
	return page, next, over, err
}

// lagPause is the time between two reads while a follower lags.
const lagPause = 5 * time.Millisecond

// ended asks the leader whether the stream has nothing at or behind a sequence.
func (s Stream) ended(ctx context.Context, from uint64) (bool, error) {
	state, err := s.State(ctx)
	switch {
	case err != nil || from > state.LastSeq || state.Messages == 0:
		return true, err
	case state.Deleted == 0: // so the last message is there; who reads the journal may ask no more than that
		return false, nil
	}
	m, err := s.reader.getMsg(ctx, s.name, query{"seq": from, "next_by_subj": ">"})
	return m == nil, err
}

// Matching passes the messages up to a sequence whose subjects match a pattern
// after the prefix to visit, oldest first. The server finds them by its index of subjects. It
// counts the matches for each page, so use it for patterns with few matches.
func (s Stream) Matching(ctx context.Context, pattern string, last uint64, visit func(page []*settle.Message) error) error {
	for page, err := range pages(ctx, s.reader.matching, s.name, s.prefix+pattern, 1) {
		if err != nil {
			return err
		}
		whole := len(page)
		for len(page) > 0 && page[len(page)-1].Seq > last {
			page = page[:len(page)-1]
		}
		if len(page) > 0 {
			err = visit(page)
		}
		if err != nil || len(page) < whole {
			return err
		}
	}
	return nil
}

// Last passes the last message of each token to found, with the token's index
// in tokens. The answer is exact (R2): a token without a call of found has no
// message. Last calls found for one message at a time, in no order, and
// possibly twice for the same message.
func (s Stream) Last(ctx context.Context, tokens []string, found func(i int, m *settle.Message)) error {
	for start := 0; start < len(tokens); start += settle.ReadBatch {
		page := tokens[start:min(start+settle.ReadBatch, len(tokens))]
		places := make(map[string][]int, len(page)) // by subject; a token may be asked for twice
		subjects := make([]string, 0, len(page))
		for i, token := range page {
			subject := s.prefix + token
			if places[subject] == nil {
				subjects = append(subjects, subject)
			}
			places[subject] = append(places[subject], start+i)
		}
		err := s.reader.lastExact(ctx, s.name, subjects, func(m *settle.Message) {
			for _, i := range places[m.Subject] {
				found(i, m)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Peek reads the last message of each of at most 1,024 tokens in one request,
// nil if there is none. With several replicas, a follower that lags may answer.
// Intents and letters come without their bodies, which together may take
// hundreds of megabytes.
func (s Stream) Peek(ctx context.Context, tokens []string) ([]*settle.Message, error) {
	if len(tokens) == 0 {
		return nil, nil // the broker refuses a request without subjects
	}
	subjects, found := make([]string, len(tokens)), make(map[string]*settle.Message)
	for i, token := range tokens {
		subjects[i] = s.prefix + token
	}
	err := s.reader.lastInBatches(ctx, s.name, subjects, func(m *settle.Message) {
		if s.heads {
			m.Data = nil
		}
		found[m.Subject] = m
	})
	if err != nil {
		return nil, err
	}
	out := make([]*settle.Message, len(tokens))
	for i, subject := range subjects {
		out[i] = found[subject]
	}
	return out, nil
}

// lastExact reads in batches if that is exact, otherwise one by one at the
// leader (R2). It passes each message that exists to take, one at a time.
func (rd *reader) lastExact(ctx context.Context, stream string, subjects []string, take func(*settle.Message)) error {
	if !rd.replicated() {
		return rd.lastInBatches(ctx, stream, subjects, take)
	}
	var all errgroup.Group
	var mu sync.Mutex
	all.SetLimit(settle.LeaderReads)
	for _, s := range subjects {
		all.Go(func() error {
			raw, err := rd.lastMsg(ctx, stream, s)
			if raw != nil {
				mu.Lock()
				defer mu.Unlock()
				take(raw)
			}
			return err
		})
	}
	return all.Wait()
}

// Get reads the messages with the given sequences, nil where one is gone. With
// several replicas, a follower that lags may answer.
func (s Stream) Get(ctx context.Context, seqs []uint64) ([]*settle.Message, error) {
	found := make(map[uint64]*settle.Message, len(seqs))
	requests := make([][]byte, len(seqs))
	for i, seq := range seqs {
		requests[i] = fmt.Appendf(nil, `{"seq":%d}`, seq)
	}
	for part := range slices.Chunk(requests, readsAtOnce) {
		err := s.reader.conn.patiently(ctx, func(ctx context.Context) error {
			return s.reader.askSingly(ctx, s.name, part, func(m *settle.Message) []byte {
				if m != nil {
					found[m.Seq] = m
				}
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	out := make([]*settle.Message, len(seqs))
	for i, seq := range seqs {
		out[i] = found[seq]
	}
	return out, nil
}

// holey reports whether batched reads of the stream are slow.
func (st StreamState) holey() bool {
	return st.Messages > fewMessages && st.LastSeq-st.FirstSeq+1 > st.Messages
}

// At returns the sequence of the first message that was stored at or after t, or
// 0 if there is none.
func (s Stream) At(ctx context.Context, t time.Time) (first uint64, err error) {
	req := query{"start_time": t.UTC(), "next_by_subj": ">"}.json()
	err = s.reader.conn.patiently(ctx, func(ctx context.Context) error {
		first = 0
		return s.reader.askSingly(ctx, s.name, [][]byte{req}, func(m *settle.Message) []byte {
			if m != nil {
				first = m.Seq
			}
			return nil
		})
	})
	return first, err
}

// Gaps returns the sequences between FirstSeq and LastSeq that are gone, oldest
// first, and the state of the stream at the same moment. The broker lists each of
// them, so ask only if State has told that they are not too many.
func (s Stream) Gaps(ctx context.Context) (gone []uint64, state StreamState, err error) {
	body, err := s.reader.infoWith(ctx, s.name, query{"deleted_details": true})
	if err != nil {
		return nil, state, err
	}
	return body.State.Deleted, stateOf(&body.StreamInfo), nil
}
