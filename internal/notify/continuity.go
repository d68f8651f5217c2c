package notify

import (
	"context"
	"slices"
	"time"

	"orderpost/internal/queue"
)

// resume returns where to read on so that nothing is left out, given the place up to which
// the results were read: the same place, or an earlier one if the broker lost the end of the
// stream, restored it from a copy, or made it anew. Sequences are given out again then, and
// outcomes under the old numbers would be taken for delivered ones.
//
// A mark whose record is still stored says that nothing was lost up to there. If another record
// has its sequence, or the stream ends before it, resume goes back to the last mark of which that
// is not true: some events come twice. A mark whose record is gone says nothing, because a later
// record of its order took its place. So there are several. No times are ordered: the broker's clock may
// have been set back.
func resume(ctx context.Context, q *queue.Queue, read Position) (from Position, err error) {
	state, err := q.Results().State(ctx)
	if err != nil {
		return read, err
	}
	if read.Birth != state.Birth { // all of another stream is new
		return Position{Birth: state.Birth}, nil
	}
	marks := read.Marks
	if read.Seq > 0 {
		marks = append(slices.Clone(marks), read.mark)
	}
	seqs := make([]uint64, len(marks))
	for i, m := range marks {
		seqs[i] = m.Seq
	}
	stored, err := q.Results().Get(ctx, seqs)
	if err != nil {
		return read, err
	}
	lost := false
	for i, m := range slices.Backward(marks) {
		switch have := stored[i]; {
		case m.Seq > state.LastSeq, have != nil && !have.Time.Equal(m.At):
			lost = true
		case have != nil && lost:
			return Position{mark: m, Birth: read.Birth, Marks: marks[:i]}, nil
		case have != nil:
			return read, nil
		}
	}
	if lost {
		return Position{Birth: read.Birth}, nil
	}
	return read, nil
}

// clocksApart is how far the clock of a worker, which says when the bucket was made, may be from
// the broker's, which says when results were stored.
const clocksApart = time.Minute

// beginning returns the position of a fleet's first sender. There may have been one before: if the bucket
// is younger than the stream and what is stored there, it was lost, with that one's position. Then all that
// is kept is sent.
func (s *Sender) beginning(ctx context.Context) (p Position, err error) {
	state, err := s.queue.Results().State(ctx)
	if err != nil {
		return p, err
	}
	born, err := s.queue.Bucket().Born(ctx)
	if err != nil {
		return p, err
	}
	made := born.Add(-clocksApart)
	p = Position{Birth: state.Birth}
	switch {
	case s.oldest:
	case state.Messages > 0 && time.Unix(0, state.Birth).Before(made) && state.FirstTime.Before(made):
		s.log.Warn().Msg("the fleet's bucket was lost, and with it how far outcomes were sent: all that are kept are sent, some perhaps again")
	default:
		p.mark = mark{state.LastSeq, state.LastTime}
	}
	return p, nil
}
