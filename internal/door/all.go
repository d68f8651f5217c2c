package door

import (
	"context"
	"iter"
)

// mostAhead is how many orders SubmitAll has under way.
const mostAhead = 1024

// SubmitAll submits many orders and yields a receipt, or an error of Submit, for each, in
// their order, as soon as it is there. An order that fails stops no other. It has up to
// 1,024 orders under way.
//
// orders runs in a goroutine of its own. It is asked for no more orders when ctx has ended
// or the loop was left; a call that is under way then is not waited for.
func (d *Door) SubmitAll(ctx context.Context, orders iter.Seq[Order]) iter.Seq2[Receipt, error] {
	return func(yield func(Receipt, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ahead := make(chan *submission, mostAhead)
		go func() {
			defer close(ahead)
			for o := range orders {
				s := d.newSubmission(ctx, o)
				select {
				case ahead <- s:
					d.start(s)
				case <-ctx.Done():
					return
				}
			}
		}()
		for s := range ahead {
			if r, err := d.await(ctx, s); !yield(r, err) {
				return
			}
		}
	}
}
