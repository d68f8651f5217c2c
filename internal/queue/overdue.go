package queue

import (
	"context"
	"time"
)

// mostSubjects is how many subjects the broker lists in one answer, in their order.
// That of times is the order of the times.
const mostSubjects = 100_000

// Overdue passes what waits for a time before now to visit, until visit returns
// false: the oldest first, and what has a time that is none. If there are too many
// seconds for one answer of the broker, it looks at the oldest ones and at one more
// part, which begins at the subject number from. It returns where the next call
// should go on; 0 = at the beginning. No program has to remember times, however many
// there are.
func (wr *WaitingRoom) Overdue(ctx context.Context, now time.Time, from int, visit func(Waiting) bool) (next int, err error) {
	oldest, err := wr.list(ctx, wr.conn.n.waitPre+"at.>", 0)
	if err != nil {
		return 0, err
	}
	list := oldest.list
	if oldest.subjects > mostSubjects {
		next = max(from, mostSubjects)
		more, err := wr.list(ctx, wr.conn.n.waitPre+"at.>", next)
		if err != nil {
			return 0, err
		}
		list = append(list, more.list...)
		if next += mostSubjects; next >= more.subjects {
			next = 0
		}
	}
	for _, w := range list {
		if w.At.IsZero() {
			continue // a lane that is called "at"
		}
		if w.At.Before(now) && !visit(w) {
			break
		}
	}
	return next, nil
}
