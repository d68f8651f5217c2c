package settle

import (
	"context"
	"errors"
	"orderpost/internal/order"
	"slices"
	"time"
)

// Barrier names the last record of the results stream, as the stream's leader
// had it. A replica that has it has everything that was confirmed before.
type Barrier struct {
	// Token is what the record is filed under.
	Token string
	// Seq is its sequence; 0 where the leader named no record.
	Seq uint64
}

// LastWord is the record of an order_no.
type LastWord struct {
	// Entry is the record; its Record is nil where there is none.
	Entry
	// Unreadable is set (ErrUnreadable, wrapped) where there is a record that this
	// program does not understand.
	Unreadable error
}

// LastWords reads the record of each order_no, in the order of orderNos: in
// batches where those are exact, else one by one at the leader (R2).
func (q *Protocol) LastWords(ctx context.Context, orderNos []string) ([]LastWord, error) {
	tokens := make([]string, len(orderNos))
	for i, no := range orderNos {
		tokens[i] = FileToken(order.Token(no))
	}
	words, err := q.wordsOn(ctx, tokens)
	for i := range words {
		words[i].Entry = words[i].entry()
	}
	return words, err
}

func (q *Protocol) wordsOn(ctx context.Context, tokens []string) ([]LastWord, error) {
	if len(tokens) == 1 {
		return q.leaderWords(ctx, tokens)
	}
	words, err := q.lastWords(ctx, tokens)
	if err != nil && q.store.Replicated() && ctx.Err() == nil && !errors.Is(err, ErrUnreachable) {
		return q.leaderWords(ctx, tokens)
	}
	return words, err
}

// wordsAtOnce is how many records go into one batched read, the barrier aside.
const wordsAtOnce = 256

// leaderReads bounds how many single reads are under way at once.
const leaderReads = 32

// A replica that lacks the barrier is asked barrierTries times, lagPause apart.
// Replicas are mostly behind for a millisecond or two. One that is cut off
// stays behind; then the leader is asked for each record.
const (
	barrierTries = 4
	lagPause     = time.Millisecond
)

// errBehind: no replica that answered showed the barrier, or there was none.
var errBehind = errors.New("the replicas that answered are behind the leader")

// lastWords reads the last word on each token in batches (R2). It returns an
// error where an answer was not complete, or not exact.
func (q *Protocol) lastWords(ctx context.Context, tokens []string) ([]LastWord, error) {
	out := make([]LastWord, 0, len(tokens))
	for page := range slices.Chunk(tokens, wordsAtOnce) {
		words, err := q.exact(ctx, page)
		if err != nil {
			return nil, err
		}
		out = append(out, words...)
	}
	return out, nil
}

// exact reads one batch. Any replica may answer it, so with more than one it
// asks the leader for a barrier first and believes only an answer that shows it.
func (q *Protocol) exact(ctx context.Context, tokens []string) ([]LastWord, error) {
	if !q.store.Replicated() {
		return q.batch(ctx, tokens)
	}
	barrier, err := q.store.Barrier(ctx)
	if err != nil {
		return nil, err
	}
	if barrier.Seq == 0 {
		return nil, errBehind
	}
	// No subject twice: the server's search through older blocks miscounts those.
	asked, at := tokens, slices.Index(tokens, barrier.Token)
	if at < 0 {
		asked, at = append(slices.Clone(tokens), barrier.Token), len(tokens)
	}
	for try := 1; ; try++ {
		words, err := q.batch(ctx, asked)
		if err != nil {
			return nil, err
		}
		if words[at].Seq >= barrier.Seq || q.lacks(NoBarrier) {
			return words[:len(tokens)], nil
		}
		if try == barrierTries {
			return nil, errBehind
		}
		if err := q.time.Sleep(ctx, lagPause); err != nil {
			return nil, err
		}
	}
}

func (q *Protocol) batch(ctx context.Context, tokens []string) ([]LastWord, error) {
	out := make([]LastWord, len(tokens))
	err := q.store.Records(ctx, tokens, func(i int, e Entry, err error) error { return out[i].set(e, err) })
	return out, err
}

// leaderWords reads the last word on each token at the leader, one by one.
func (q *Protocol) leaderWords(ctx context.Context, tokens []string) ([]LastWord, error) {
	out := make([]LastWord, len(tokens))
	return out, q.time.Each(len(tokens), leaderReads, func(i int) error {
		return out[i].set(q.store.Record(ctx, tokens[i]))
	})
}

// set keeps an unreadable record to the order that it is about.
func (w *LastWord) set(e Entry, err error) error {
	w.Entry, w.Unreadable = e, nil
	if errors.Is(err, ErrUnreadable) {
		w.Unreadable, err = err, nil
	}
	return err
}

// entry is what a writer may go on from: the sequence of an unreadable record
// is no leave to write over it.
func (w LastWord) entry() Entry {
	if w.Unreadable != nil {
		return Entry{}
	}
	return w.Entry
}
