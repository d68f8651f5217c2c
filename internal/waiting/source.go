package waiting

import (
	"context"
	"errors"
	"slices"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// source takes out the waiting intents of one subject in their order. It pulls them
// from a consumer, or reads them and remembers where it is.
type source struct {
	queue.Waiting
	// pulled says that the source is pulled. gaveAt is when it gave something last, or
	// began to be pulled.
	pulled bool
	gaveAt time.Time
	// readUntil is until when a source is read that is pulled otherwise.
	readUntil time.Time
	next      uint64 // the sequence to read from
	// stuck counts the intents that cannot be moved now.
	stuck int
	// again is when a source that has nothing more starts over, because intents are
	// stuck; zero if it has more.
	again time.Time
}

const (
	// againPause is how long blocked intents are left alone: their order has another
	// intent pending.
	againPause = time.Second
	// strayAfter is how long a consumer may give nothing of a subject that has intents.
	// Then they are read for a while: a cluster may forget to remove what was
	// acknowledged, and somebody else's consumer may be in the way.
	strayAfter = 30 * time.Second
	readFor    = time.Minute
)

// refresh adopts a new listing.
func (s *source) refresh(w queue.Waiting, now time.Time) {
	s.Waiting = w
	switch {
	case s.ready() > 0 || w.Count == 0:
		s.again = time.Time{}
	case s.again.IsZero():
		s.again = now.Add(againPause)
	case now.After(s.again):
		s.next, s.stuck, s.again = 0, 0, time.Time{}
	}
}

// ready returns how many intents may be asked for.
func (s *source) ready() int { return max(s.Count-s.stuck, 0) }

// moved notes what became of an intent.
func (s *source) moved(m settle.Arrival, end settle.Move) {
	switch {
	case end == settle.Moved || end == settle.MovedBefore:
		s.Count--
	case m.Answer != nil: // the broker hands it out again
	case end == settle.MoveBlocked:
		s.stuck++
	default: // the reason is over soon
		s.next = min(s.next, m.Seq)
	}
}

// take returns the next n intents.
func (s *source) take(ctx context.Context, q *queue.Queue, n int) (page []settle.Arrival, err error) {
	for len(page) < n {
		var got []settle.Arrival
		if s.pulled {
			got, err = q.PullWaiting(ctx, s.Subject, n-len(page))
		} else {
			got, err = s.read(ctx, q, n-len(page))
		}
		page = append(page, got...)
		switch {
		case errors.Is(err, queue.ErrNoPulls):
			s.readNow()
			return page, err
		case err != nil:
			return page, err
		case len(got) == 0:
			s.empty()
			return page, nil
		}
		s.gaveAt = time.Now()
	}
	return page, nil
}

// empty notes that the source has nothing more for the moment: the listing counts
// intents that are stuck, or that a follower lacks.
func (s *source) empty() {
	s.stuck = s.Count
	if s.pulled && time.Since(s.gaveAt) > strayAfter {
		s.readNow()
	}
}

func (s *source) readNow() {
	s.pulled, s.readUntil, s.next, s.stuck = false, time.Now().Add(readFor), 0, 0
}

// read reads the next n intents.
func (s *source) read(ctx context.Context, q *queue.Queue, n int) (page []settle.Arrival, err error) {
	got, err := q.WaitingPage(ctx, s.Subject, s.next, n)
	for _, m := range got {
		page, s.next = append(page, settle.Arrival{Message: m}), m.Seq+1
	}
	return page, err
}

// sortSources puts intents whose time has come before those without a time, oldest
// first.
func sortSources(list []*source) {
	slices.SortFunc(list, func(a, b *source) int {
		switch {
		case a.At.IsZero() != b.At.IsZero() && a.At.IsZero():
			return 1
		case a.At.IsZero() != b.At.IsZero():
			return -1
		default:
			return a.At.Compare(b.At)
		}
	})
}
