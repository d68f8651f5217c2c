package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/settle"
)

// retentionKey is the bucket's key that says how old the results are, and how many were forgotten.
const retentionKey = "retention"

const (
	// retentionMarks is how many marks divide a retention. A result is kept that much longer at most.
	retentionMarks = 200
	// retentionSaved is how often running time is stored at least. What a process has not stored is lost with it.
	retentionSaved = 5 * time.Minute
	// forgetAtOnce is how many results leave in one purge.
	forgetAtOnce = 4 * pageSize
	// keepAtOnce is how many writes that keep a result are under way at once.
	keepAtOnce = 64
)

// Retention forgets results that were kept for long enough (docs/protocol.md R11). It believes no
// clock: the fleet's running time says how old a result is. The leader adds up its monotonic time, and
// notes from time to time where the results end. What lies before a note of a retention ago leaves in
// groups. A wrong clock of the broker can only delay that.
type Retention struct {
	q *Queue
	// Keep is how long a result is kept at least.
	Keep time.Duration

	ticking  sync.Mutex
	at       time.Time // up to then this process's time is added
	revision uint64    // of the state that it wrote last; 0 = none
}

// retained is the state in the bucket.
type retained struct {
	// Results is the birth of the stream of results that Marks and Purge are about.
	Results int64 `json:"results"`
	// Ran is how long the fleet has run.
	Ran   time.Duration   `json:"ran_ns"`
	Marks []retentionMark `json:"marks,omitempty"`
	// Forgotten counts the intents whose outcomes are not kept any more.
	Forgotten uint64 `json:"forgotten"`
	// Purge is under way: it is stored before, so that what it takes is counted whatever happens.
	Purge *purge `json:"purge,omitempty"`
}

// retentionMark says where the results ended when the fleet had run for a time.
type retentionMark struct {
	Ran  time.Duration `json:"ran_ns"`
	Last uint64        `json:"last"`
}

// purge takes the results up to a sequence. They settled so many intents.
type purge struct {
	UpTo    uint64 `json:"up_to"`
	Intents uint64 `json:"intents"`
}

// Run adds the time since the last call to the fleet's running time, and forgets the results that are older than the
// retention. One worker of a fleet calls it every few seconds, and nobody's calls do harm: another process's
// write in between means that it counted the time. It returns how many results it forgot.
func (rt *Retention) Run(ctx context.Context) (forgot int, err error) {
	if !rt.ticking.TryLock() {
		return 0, nil
	}
	defer rt.ticking.Unlock()
	now, keep := time.Now(), rt.Keep
	step := max(keep/retentionMarks, time.Second)
	if !rt.at.IsZero() && now.Sub(rt.at) < min(step, retentionSaved) {
		return 0, nil
	}
	info, err := rt.q.reader.info(ctx, rt.q.Conn.n.results)
	if err != nil {
		return 0, err
	}
	s, revision, err := rt.read(ctx, bornAt(info).UnixNano())
	if err != nil {
		return 0, err
	}
	if !rt.at.IsZero() && revision == rt.revision {
		s.Ran += now.Sub(rt.at)
	}
	upTo := s.mark(info.State.LastSeq, step, keep)
	if err = rt.write(ctx, &s, revision); err != nil {
		return 0, err
	}
	rt.at = now
	if gaps, err := rt.q.Census.ReplicaGaps(ctx); err != nil || len(gaps) > 0 {
		return 0, err // a replica that lacks results might hide what must be kept
	}
	for {
		n, more, err := rt.forget(ctx, &s, upTo)
		if forgot += n; err != nil || !more {
			return forgot, err
		}
	}
}

// mark notes where the results end, if the last note is a step old, and returns up to where they are
// older than the retention.
func (s *retained) mark(last uint64, step, keep time.Duration) (upTo uint64) {
	if n := len(s.Marks); n == 0 || s.Ran-s.Marks[n-1].Ran >= step {
		s.Marks = append(s.Marks, retentionMark{s.Ran, last})
	}
	old := 0
	for old < len(s.Marks) && s.Ran-s.Marks[old].Ran >= keep {
		old++
	}
	if old == 0 {
		return 0
	}
	s.Marks = slices.Delete(s.Marks, 0, old-1)
	return s.Marks[0].Last
}

// read reads the state. Of a stream that was made again it keeps what does not depend on sequences.
func (rt *Retention) read(ctx context.Context, birth int64) (s retained, revision uint64, err error) {
	entries, err := rt.q.bucket.Last(ctx, retentionKey) // a lagging replica's answer makes the next write fail
	for _, e := range entries {
		if revision = e.Revision; err == nil {
			err = json.Unmarshal(e.Value, &s)
		}
	}
	if err != nil {
		return s, 0, fmt.Errorf("the bucket's key %s: %w", retentionKey, err)
	}
	if s.Results != birth {
		s = retained{Results: birth, Ran: s.Ran, Forgotten: s.Forgotten}
	}
	return s, revision, nil
}

// write stores the state. Error: settle.ErrStale if another process did meanwhile.
func (rt *Retention) write(ctx context.Context, s *retained, revision uint64) error {
	written, err := rt.q.bucket.Swap(ctx, retentionKey, s, revision)
	if rt.revision = written; errors.Is(err, settle.ErrStale) {
		rt.at, rt.revision = time.Time{}, 0
	}
	return err
}

// forget removes the first of the results up to a sequence, in one purge. What must stay
// it writes again first, at the end of the stream. It returns how many it removed, and whether there may be more.
func (rt *Retention) forget(ctx context.Context, s *retained, upTo uint64) (n int, more bool, err error) {
	if s.Purge != nil { // a process ended in between
		if _, err = rt.purge(ctx, s); err != nil {
			return 0, false, err
		}
	}
	info, err := rt.q.reader.info(ctx, rt.q.Conn.n.results)
	if err != nil {
		return 0, false, err
	}
	upTo = min(upTo, max(info.State.LastSeq, 1)-1) // a purge of the whole stream is another thing, see PurgeIntents
	if upTo == 0 || info.State.FirstSeq > upTo {
		return 0, false, nil
	}
	first, err := rt.first(ctx, info.State.FirstSeq, upTo, info.TimeStamp)
	if err != nil || len(first) == 0 {
		return 0, false, err
	}
	gone, err := rt.keepNeeded(ctx, first)
	if err != nil {
		return 0, false, err
	}
	s.Purge = &purge{UpTo: first[len(first)-1].Seq, Intents: intentsOf(gone)}
	if err = rt.write(ctx, s, rt.revision); err != nil {
		return 0, false, err
	}
	if n, err = rt.purgeExactly(ctx, s, gone); err != nil {
		return n, false, err
	}
	return n, len(first) >= forgetAtOnce, nil
}

// first reads the first results, up to a sequence and as far as the broker's clock agrees that they are older than
// the retention. A time that is still to come says only that a clock was wrong.
func (rt *Retention) first(ctx context.Context, from, upTo uint64, now time.Time) (first []*settle.Message, err error) {
	enough := errors.New("enough")
	err = rt.q.Results().Walk(ctx, from, upTo, func(page []*settle.Message) error {
		for _, m := range page {
			if age := now.Sub(m.Time); age >= 0 && age < rt.Keep || len(first) == forgetAtOnce {
				return enough
			}
			first = append(first, m)
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return first, err
}

// keepNeeded writes those results again that something still needs, and returns the others. A write on the condition that
// nothing was written since says the same again, under the same write id.
func (rt *Retention) keepNeeded(ctx context.Context, first []*settle.Message) (gone []*settle.Message, err error) {
	results, intents := rt.q.Results(), rt.q.Intents()
	var all errgroup.Group
	all.SetLimit(keepAtOnce)
	for part := range slices.Chunk(first, pageSize) {
		tokens := make([]string, len(part))
		for i, m := range part {
			tokens[i] = results.Token(m)
		}
		stored, err := intents.Peek(ctx, tokens)
		if err != nil {
			return nil, errors.Join(err, all.Wait())
		}
		for i, m := range part {
			if e, err := DecodeRecord(m); err == nil && mayForget(e.Record) && stored[i] == nil {
				gone = append(gone, m)
				continue
			}
			all.Go(func() error {
				again := nats.NewMsg(m.Subject)
				again.Data = m.Data
				again.Header.Set(settle.HeaderOutcome, m.Header.Get(settle.HeaderOutcome)) // the others are of the write
				again.Header.Set(keptHeader, "1")
				_, err := rt.q.results.put(ctx, again, m.Seq)
				if errors.Is(err, settle.ErrStale) {
					err = nil // somebody wrote it since
				}
				return err
			})
		}
	}
	return gone, all.Wait()
}

// keptHeader marks a result that was written again to be kept: it tells nothing new.
const keptHeader = "Orderpost-Kept"

// Kept reports whether a message of the results stream only repeats one that was stored a retention ago.
func Kept(m *settle.Message) bool { return m.Header.Get(keptHeader) != "" }

// intentsOf returns how many intents results settled.
func intentsOf(results []*settle.Message) (n uint64) {
	for _, m := range results {
		if e, err := DecodeRecord(m); err == nil {
			n += uint64(e.Record.Settled)
		}
	}
	return n
}

// purgeExactly carries out a purge that should take these results. Between their reading and the purge a
// later outcome of the same order may have taken the place of one of them, with its count.
func (rt *Retention) purgeExactly(ctx context.Context, s *retained, gone []*settle.Message) (n int, err error) {
	taken, err := rt.purge(ctx, s)
	if err != nil || taken == len(gone) {
		return taken, err
	}
	if taken > len(gone) {
		rt.q.Conn.log.Error().Int("results", taken-len(gone)).Msg("results were forgotten that a read of the stream had left out; see After a broker was killed in docs/operations.md")
		return taken, nil
	}
	results, missing := rt.q.Results(), len(gone)-taken
	var replaced uint64
	for part := range slices.Chunk(gone, pageSize) {
		tokens := make([]string, len(part))
		for i, m := range part {
			tokens[i] = results.Token(m)
		}
		present, err := results.Peek(ctx, tokens)
		if err != nil {
			return taken, err
		}
		for i, m := range present {
			if m == nil || missing == 0 {
				continue
			}
			was := intentsOf(part[i : i+1])
			if is := intentsOf(present[i : i+1]); is >= was { // it carries the count on
				replaced += was
				missing--
			}
		}
	}
	s.Forgotten -= min(s.Forgotten, replaced)
	return taken, rt.write(ctx, s, rt.revision)
}

// purge carries out the purge that is stored, and notes that it is done. A purge that was done before takes nothing.
func (rt *Retention) purge(ctx context.Context, s *retained) (taken int, err error) {
	if taken, err = rt.q.reader.purge(ctx, rt.q.Conn.n.results, "", s.Purge.UpTo+1); err != nil {
		return 0, fmt.Errorf("the results up to sequence %d are not forgotten yet: %w", s.Purge.UpTo, err)
	}
	s.Forgotten += s.Purge.Intents
	s.Purge = nil
	return taken, rt.write(ctx, s, rt.revision)
}

// Forgotten returns of how many intents the outcomes are not kept any more.
func (rt *Retention) Forgotten(ctx context.Context) (uint64, error) {
	info, err := rt.q.reader.info(ctx, rt.q.Conn.n.results)
	if err != nil {
		return 0, err
	}
	s, _, err := rt.read(ctx, bornAt(info).UnixNano())
	if err == nil && s.Purge != nil && info.State.FirstSeq > s.Purge.UpTo {
		s.Forgotten += s.Purge.Intents
	}
	return s.Forgotten, err
}
