package settle

import (
	"context"
	"errors"
	"slices"
	"time"

	"orderpost/internal/order"
)

// LastWord is the record of an order_no.
type LastWord struct {
	// Entry is the record. Its Record is nil if there is none.
	Entry
	// Unreadable is set (ErrUnreadable, wrapped) if this program does not
	// understand the record.
	Unreadable error
}

// LastWords reads the record of each order_no, in the order of orderNos (R2).
func (lg *Ledger) LastWords(ctx context.Context, orderNos []string) ([]LastWord, error) {
	tokens := make([]string, len(orderNos))
	for i, no := range orderNos {
		tokens[i] = FileToken(order.Token(no))
	}
	words, err := lg.readLastWords(ctx, tokens)
	for i := range words {
		words[i].Entry = words[i].entry()
	}
	return words, err
}

// readLastWords is LastWords for tokens. It reads in batches, or one by one at
// the leader if a batch fails or is not exact.
func (lg *Ledger) readLastWords(ctx context.Context, tokens []string) ([]LastWord, error) {
	words, err := lg.lastWords(ctx, tokens)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrUnreachable) {
		return lg.leaderWords(ctx, tokens)
	}
	return words, err
}

// ReadBatch is how many records one batched read asks for, besides the barrier. The server
// answers for at most 1,024 subjects.
const ReadBatch = 1000

// LeaderReads bounds how many single reads run at once.
const LeaderReads = 32

// A replica that lacks the barrier is asked barrierTries times, with lagPause
// in between. Most replicas lag for a millisecond or two. One that is cut off
// keeps lagging. Then the leader is asked for each record.
const (
	barrierTries = 4
	lagPause     = time.Millisecond
)

// errBehind means that no replica that answered had the barrier, or that there
// was no barrier.
var errBehind = errors.New("the replicas that answered are behind the leader")

// lastWords reads the record under each token in batches (R2). It returns an
// error if an answer was not complete or not exact.
func (lg *Ledger) lastWords(ctx context.Context, tokens []string) ([]LastWord, error) {
	out := make([]LastWord, 0, len(tokens))
	for page := range slices.Chunk(tokens, ReadBatch) {
		words, err := lg.readExact(ctx, page)
		if err != nil {
			return nil, err
		}
		out = append(out, words...)
	}
	return out, nil
}

// readExact reads one batch. Any replica may answer it. With more than one,
// readExact first asks the leader for a barrier and believes only an answer
// that contains it.
func (lg *Ledger) readExact(ctx context.Context, tokens []string) ([]LastWord, error) {
	if !lg.store.Replicated() {
		return lg.readBatch(ctx, tokens)
	}
	barrier, err := lg.store.Barrier(ctx)
	if err != nil {
		return nil, err
	}
	if barrier.Seq == 0 {
		return nil, errBehind
	}
	// Ask for no subject twice: the server's search through older blocks miscounts them.
	asked, at := tokens, slices.Index(tokens, barrier.Token)
	if at < 0 {
		asked, at = append(slices.Clone(tokens), barrier.Token), len(tokens)
	}
	for try := 1; ; try++ {
		words, err := lg.readBatch(ctx, asked)
		if err != nil {
			return nil, err
		}
		if words[at].Seq >= barrier.Seq {
			return words[:len(tokens)], nil
		}
		if try == barrierTries {
			return nil, errBehind
		}
		if err := lg.time.Sleep(ctx, lagPause); err != nil {
			return nil, err
		}
	}
}

// readBatch reads one batch from whichever replica answers.
func (lg *Ledger) readBatch(ctx context.Context, tokens []string) ([]LastWord, error) {
	out := make([]LastWord, len(tokens))
	err := lg.store.Records(ctx, tokens, func(i int, e Entry, err error) error { return out[i].set(e, err) })
	return out, err
}

// leaderWords reads the record under each token at the leader, one by one.
func (lg *Ledger) leaderWords(ctx context.Context, tokens []string) ([]LastWord, error) {
	out := make([]LastWord, len(tokens))
	return out, lg.time.Each(len(tokens), LeaderReads, func(i int) error {
		return out[i].set(lg.store.Record(ctx, tokens[i]))
	})
}

// set stores what a read returned. An unreadable record is no error of the
// read, nor is one that the broker cannot load: it concerns its own order only.
func (w *LastWord) set(e Entry, err error) error {
	w.Entry, w.Unreadable = e, nil
	if errors.Is(err, ErrUnreadable) || errors.Is(err, ErrNotLoaded) {
		w.Unreadable, err = err, nil
	}
	return err
}

// entry returns what a writer may start from. For an unreadable record that is
// nothing: its sequence would allow a writer to overwrite it.
func (w LastWord) entry() Entry {
	if w.Unreadable != nil {
		return Entry{}
	}
	return w.Entry
}
