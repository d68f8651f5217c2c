package door

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Status says how a submission came to be stored.
type Status uint8

// The statuses of a submission that is stored.
const (
	// Stored: it was stored now.
	Stored Status = iota + 1
	// Same: the same submission was stored before, and may have its outcome.
	Same
)

// String returns "stored" or "same".
func (s Status) String() string { return [...]string{"", "stored", "same"}[s] }

// Receipt names a submission. An error comes with its ID, too, and with its OrderNo if the
// body has one. Without an ID it names the order: another submission with this body has taken
// the place of this one, and was accepted.
type Receipt struct {
	OrderNo, ID string
	Status      Status
}

// Submit stores one order and returns once the broker has confirmed it. Concurrent calls
// share writes. A broker that is out of reach is waited for as the queue's
// Config.BrokerWait says, for as long as ctx lasts.
//
// Errors: *InvalidError, ErrPending, ErrIDUsed, ErrFull, ErrUnavailable, ErrClosed, and
// *UnconfirmedError, after which the order may be stored.
func (d *Door) Submit(ctx context.Context, o Order) (Receipt, error) {
	s := d.newSubmission(ctx, o)
	d.start(s)
	return d.await(ctx, s)
}

// submission is one order on its way.
type submission struct {
	ctx     context.Context
	in      settle.Intent
	hash    string // of the body
	made    bool   // Submit made the ID, so nobody stored it before
	broken  error  // the user's schema refuses it, or its time is over, unless it was stored before
	room    string // the subject under which it waits for its time, if it was stored before; "" = none
	receipt Receipt
	err     error
	done    chan struct{} // closed once receipt and err are final

	state atomic.Uint32 // unsent, sent, left
	// What follows belongs to whoever handles the submission.
	checked bool        // what is stored of its order_no was read
	maybe   bool        // a publish before was not confirmed
	freed   int         // how often it found a settled order in its place
	wait    settle.Wait // nil = it did not wait for the broker yet
}

// The states of a submission.
const (
	unsent uint32 = iota // nothing of it can be stored
	sent                 // it may be stored
	left                 // its caller went away while it was unsent
)

func (d *Door) newSubmission(ctx context.Context, o Order) *submission {
	s := &submission{ctx: ctx, done: make(chan struct{}), made: o.ID == ""}
	if s.made {
		o.ID = newID()
	}
	var parsed *order.Order
	now := time.Now()
	if s.in, parsed, s.err = o.intent(now); s.err == nil {
		s.hash, s.broken = parsed.BodyHash(), cmp.Or(broken(d.schema.Check(parsed)), o.late(now))
		if timed := s.in; !o.NotBefore.IsZero() {
			timed.NotBefore = o.NotBefore
			s.room = d.q.Producer.SubjectOf(timed)
		}
	}
	if s.made {
		s.err = cmp.Or(s.err, s.broken)
	}
	s.receipt = Receipt{OrderNo: s.in.OrderNo, ID: o.ID}
	return s
}

// start hands a submission to the publisher. Submissions are stored in the order in
// which they start, unless some of them have an ID of their own and others do not.
func (d *Door) start(s *submission) {
	if s.err != nil {
		close(s.done)
		return
	}
	d.proceed(s)
}

// proceed takes the next step of a submission: the look at what is stored of its order_no, or
// the publish.
func (d *Door) proceed(s *submission) {
	if s.made || s.checked {
		d.flusherOf(s).add(s)
	} else {
		d.checks.add(s)
	}
}

// await returns what became of a submission, or what is known when ctx ends.
func (d *Door) await(ctx context.Context, s *submission) (Receipt, error) {
	var err error
	select {
	case <-s.done:
		return s.receipt, s.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-d.ctx.Done():
		err = ErrClosed
	}
	receipt := Receipt{OrderNo: s.in.OrderNo, ID: s.in.ID}
	if s.state.CompareAndSwap(unsent, left) {
		return receipt, unstoredError(err)
	}
	return receipt, &UnconfirmedError{ID: s.in.ID, Err: err}
}

// finish ends a submission.
func (s *submission) finish(status Status, err error) {
	if status == Same && s.maybe {
		status = Stored // by the publish of which the confirmation is missing
	}
	s.receipt.Status, s.err = status, err
	s.endWait()
	close(s.done)
}

// endWait ends the wait for the broker.
func (s *submission) endWait() {
	if s.wait != nil {
		s.wait.Done()
	}
}

// fail ends a submission that is not known to be stored.
func (s *submission) fail(err error) {
	if s.maybe || queue.MayBeStored(err) && s.state.Load() == sent {
		var known *UnconfirmedError
		if !errors.As(err, &known) {
			err = &UnconfirmedError{ID: s.in.ID, Err: err}
		}
		s.finish(0, err)
		return
	}
	s.finish(0, publishError(err))
}

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
