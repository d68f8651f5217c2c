package settle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
)

// writeRecord merges mine into the record under token, by the rules of
// order.Merge, starting from base, which its writer read last. It returns the
// record that the stream holds afterwards. After lost confirmations and while
// the broker is out of reach, it tries again until ctx ends. It returns
// ErrStorage at once.
func (lg *Ledger) writeRecord(ctx context.Context, token string, base Entry, mine *order.Record) (Entry, error) {
	return lg.writeUnless(ctx, token, base, mine, func(Entry) (*order.Record, error) { return nil, nil })
}

// errWritten means that somebody decided on a record that is no longer stored.
var errWritten = fmt.Errorf("another worker or a person wrote its record meanwhile: %w", order.ErrLeaseLost)

// writeOver is writeRecord that writes over base alone. It returns errWritten if
// another record is stored by then.
func (lg *Ledger) writeOver(ctx context.Context, token string, base Entry, mine *order.Record) (Entry, error) {
	return lg.writeUnless(ctx, token, base, mine, func(now Entry) (*order.Record, error) {
		if now.Seq != base.Seq {
			return nil, errWritten
		}
		return nil, nil
	})
}

// writeUnless is writeRecord that calls instead before each repetition, with the
// record that is stored. If instead returns a record, writeUnless writes that one. An
// error ends the write.
func (lg *Ledger) writeUnless(ctx context.Context, token string, base Entry, mine *order.Record, instead func(base Entry) (*order.Record, error)) (Entry, error) {
	mine.WriteID = newWriteID()
	w := lg.cfg.Patience.Wait()
	defer w.Done()
	for {
		next := order.Merge(base.Record, mine)
		if next == nil {
			return base, nil
		}
		seq, err := lg.store.PutRecord(ctx, token, next, base.Seq)
		switch {
		case err == nil:
			lg.removeUnnamed(ctx, token, base.Record, next)
			return Entry{Record: next, Seq: seq}, nil
		case errors.Is(err, ErrStorage):
			return base, err
		case ctx.Err() != nil:
			return base, err
		case !errors.Is(err, ErrStale):
			if err := w.Backoff(ctx, err); err != nil {
				return base, err
			}
		}
		before := base.Record
		if base, err = lg.rereadRecord(ctx, token); err != nil {
			return base, err
		}
		w.Answered()
		if base.Record != nil && base.Record.WriteID == mine.WriteID {
			lg.removeUnnamed(ctx, token, before, base.Record)
			return base, nil // only the confirmation was lost
		}
		other, err := instead(base)
		if err != nil {
			return base, err
		}
		if other != nil {
			other.WriteID = mine.WriteID
			mine = other
		}
	}
}

// newWriteID returns a name for one write, by which its writer recognises it
// (R1).
func newWriteID() string { return rand.Text() }

// rereadPause is the time between two tries of a read while the broker is out
// of reach.
const rereadPause = 100 * time.Millisecond

// rereadRecord reads the record under token at the leader. It repeats the read
// until the leader answers or ctx ends.
func (lg *Ledger) rereadRecord(ctx context.Context, token string) (Entry, error) {
	for {
		stored, err := lg.store.Record(ctx, token)
		if err == nil || errors.Is(err, ErrUnreadable) || errors.Is(err, ErrUnreachable) {
			return stored, err
		}
		if lg.time.Sleep(ctx, rereadPause) != nil {
			return stored, fmt.Errorf("results could not be read: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// Lookup reads the record of an order_no at the leader. Entry.Record is nil if
// there is none.
func (lg *Ledger) Lookup(ctx context.Context, orderNo string) (Entry, error) {
	return lg.store.Record(ctx, FileToken(order.Token(orderNo)))
}

// updateRecord writes the record that decide returns for the current one, by
// R1. The write is conditional on the record that decide saw. If another write
// came between, updateRecord reads the record again and calls decide again.
// decide returns nil if the record needs no change. An error of decide ends the
// update, and nothing is written. After a lost confirmation updateRecord tries
// again until ctx ends.
func (lg *Ledger) updateRecord(ctx context.Context, token string, decide func(cur Entry) (*order.Record, error)) (Entry, error) {
	id := newWriteID()
	w := lg.cfg.Patience.Wait()
	defer w.Done()
	for {
		cur, err := lg.rereadRecord(ctx, token)
		if err != nil || cur.Record != nil && cur.Record.WriteID == id {
			return cur, err
		}
		w.Answered()
		next, err := decide(cur)
		if err != nil || next == nil {
			return cur, err
		}
		next.WriteID = id
		seq, err := lg.store.PutRecord(ctx, token, next, cur.Seq)
		switch {
		case err == nil:
			lg.removeUnnamed(ctx, token, cur.Record, next)
			return Entry{Record: next, Seq: seq}, nil
		case errors.Is(err, ErrStorage), ctx.Err() != nil:
			return cur, err
		case !errors.Is(err, ErrStale):
			if err := w.Backoff(ctx, err); err != nil {
				return cur, err
			}
		}
	}
}

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

// StreamSeq is a sequence of one stream. A stream that is made again counts from 1 again, under another
// birth (order.Position.Birth), so a sequence alone does not say which message it means. As a text it is
// SEQ@BIRTH, with the birth to the base 36.
type StreamSeq struct {
	Seq   uint64
	Birth int64
}

// Covers reports whether q is a message of the same stream, and not stored after s.
func (s StreamSeq) Covers(q StreamSeq) bool {
	return s.Birth == q.Birth && 0 < q.Seq && q.Seq <= s.Seq
}

func (s StreamSeq) String() string {
	return strconv.FormatUint(s.Seq, 10) + "@" + strconv.FormatInt(s.Birth, 36)
}

// MarshalText implements encoding.TextMarshaler.
func (s StreamSeq) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *StreamSeq) UnmarshalText(text []byte) (err error) {
	seq, birth, _ := strings.Cut(string(text), "@")
	var out StreamSeq
	if out.Seq, err = strconv.ParseUint(seq, 10, 64); err == nil {
		out.Birth, err = strconv.ParseInt(birth, 36, 64)
	}
	if err != nil {
		return fmt.Errorf("%q is not SEQ@BIRTH: %w", text, err)
	}
	*s = out
	return nil
}
