package feed

import (
	"context"
	"slices"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// source reads the waiting intents of one subject in their order, and remembers where it
// is.
type source struct {
	queue.Waiting
	next uint64 // the sequence to read from
	// stuck counts the intents that cannot be moved now.
	stuck int
	// again is when a source that has nothing more starts over, because intents are
	// stuck; zero if it has more. pause is how long it waits the next time.
	again time.Time
	pause time.Duration
	// upTo is the sequence up to which it may be fed, as of the last look.
	upTo uint64
}

// firstPause and longestPause bound how long blocked intents are left alone: their order
// has another intent pending. The pauses grow while none of them can be moved.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// refresh adopts a new listing.
func (s *source) refresh(w queue.Waiting, now time.Time) {
	s.Waiting = w
	switch {
	case s.ready() > 0 || w.Count == 0:
		s.again = time.Time{}
	case s.again.IsZero():
		s.pause = max(s.pause, firstPause)
		s.again = now.Add(s.pause)
	case now.After(s.again):
		s.next, s.stuck, s.again, s.pause = 0, 0, time.Time{}, min(2*s.pause, longestPause)
	}
}

// ready returns how many intents may be asked for.
func (s *source) ready() int { return max(s.Count-s.stuck, 0) }

// moved notes what became of an intent.
func (s *source) moved(m *settle.Message, end settle.Move) {
	switch end {
	case settle.Moved, settle.Withdrawn, settle.MovedBefore:
		s.Count--
		s.pause = 0
	case settle.MoveBlocked:
		s.stuck++
	default: // the reason is over soon
		s.next = min(s.next, m.Seq)
	}
}

// take reads the next n intents. They are whole while nothing before them is stuck: what
// comes before next was moved.
func (s *source) take(ctx context.Context, q *queue.Queue, n int) (g settle.WaitingGroup, err error) {
	left := 0
	for len(g.Messages) < n {
		var got []*settle.Message
		if got, left, err = q.Waiting.Page(ctx, s.Subject, s.next, n-len(g.Messages)); err != nil {
			return g, err
		}
		if len(got) == 0 {
			break
		}
		g.Messages, s.next = append(g.Messages, got...), got[len(got)-1].Seq+1
	}
	if g.Whole = s.stuck == 0; g.Whole && q.MayLag() { // a replica may lack some in between: the stream's leader counts
		n, countErr := q.Waiting.Under(ctx, s.Subject)
		g.Whole, err = n == len(g.Messages)+left, countErr
	}
	if len(g.Messages) < n { // the listing counts intents that are stuck, or that a follower lacks
		s.stuck = s.Count
	}
	return g, err
}

// sortSources puts intents whose time has come before those without a time, oldest
// first.
func sortSources(list []*source) {
	slices.SortFunc(list, func(a, b *source) int {
		if a.At.IsZero() || b.At.IsZero() {
			return b.At.Compare(a.At)
		}
		return a.At.Compare(b.At)
	})
}
