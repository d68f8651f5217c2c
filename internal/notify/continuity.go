package notify

import (
	"context"
	"time"

	"orderpost/internal/queue"
)

// resume returns where to read on so that nothing is left out, given the place up to which
// the results were read: the same place, or an earlier one if the broker lost the end of the
// stream, restored it from a copy, or made it anew. Sequences are given out again then, and
// outcomes under the old numbers would be taken for delivered ones.
//
// The broker's times tell. What was stored after the record at the place must have a higher
// sequence. If it has not, resume goes back to the first of those: some events come twice.
func resume(ctx context.Context, q *queue.Queue, read Position) (from Position, err error) {
	state, err := q.Results().State(ctx)
	if err != nil {
		return read, err
	}
	from = read
	from.Created = state.Created
	if !read.At.IsZero() {
		first, err := q.Results().At(ctx, read.At.Add(time.Nanosecond))
		if err != nil {
			return read, err
		}
		if another := !state.Created.Equal(read.Created); first > 0 && (another || first <= read.Seq) {
			from.Seq = first - 1
		}
	} else if !state.Created.Equal(read.Created) {
		from.Seq = 0
	}
	from.Seq = min(from.Seq, state.LastSeq)
	return from, nil
}

// clocksApart is how far the clock of a worker, which says when the bucket was made, may be from
// the broker's, which says when results were stored.
const clocksApart = time.Minute

// beginning returns the position of a fleet's first sender. lost says that there may have been
// one before: the bucket is younger than the results, so it was lost, with that one's position.
// Then all that is kept is sent.
func beginning(ctx context.Context, q *queue.Queue, oldest bool) (p Position, lost bool, err error) {
	state, err := q.Results().State(ctx)
	if err != nil {
		return p, false, err
	}
	born, err := q.Bucket().Born(ctx)
	if err != nil {
		return p, false, err
	}
	p, lost = Position{Created: state.Created}, state.Messages > 0 && state.FirstTime.Before(born.Add(-clocksApart))
	if !oldest && !lost {
		p.Seq, p.At = state.LastSeq, state.LastTime
	}
	return p, lost, nil
}
