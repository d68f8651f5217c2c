package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/rs/zerolog"

	"orderpost/internal/gateway/door"
	"orderpost/internal/queue"
)

// Client is a connection to the broker of a fleet. It is safe for concurrent use. It
// reconnects by itself.
type Client struct {
	queue *queue.Queue
	door  *door.Door
	name  string
}

// Connect connects to the NATS servers at url, separated by commas, such as
// "nats://127.0.0.1:4222" or "tls://nats.example:4222". It waits up to ten seconds for one
// that answers. With [DataDir], url is empty.
//
// Errors: ErrUnavailable if no broker answers, or if no worker has worked with it yet, so
// that it has no streams. Others say which option is wrong, or that the broker refuses the
// credentials.
func Connect(ctx context.Context, url string, options ...Option) (*Client, error) {
	s := newSettings(url)
	for _, o := range options {
		o(s)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	schema, err := s.schema.Load(zerolog.Nop())
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	q, err := queue.Open(ctx, s.queue, zerolog.Nop())
	if missing := new(queue.MissingError); errors.Is(err, queue.ErrUnreachable) || errors.As(err, &missing) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Client{queue: q, door: door.New(q, schema), name: s.queue.Name}, nil
}

// Close ends what is under way and the connection. Submissions that the broker has not
// confirmed end with an UnconfirmedError, waits with ErrClosed.
func (c *Client) Close() {
	c.door.Close()
	c.queue.Close()
}

// Submit stores one order and returns once the broker has confirmed it. Without an ID, it
// makes one, which is in the receipt and in an UnconfirmedError.
//
// Errors: *InvalidError, ErrPending, ErrIDUsed, ErrFull, ErrClosed, ErrUnavailable,
// *UnconfirmedError. If ctx ends first, the error is one of the last two and also wraps
// ctx's.
func (c *Client) Submit(ctx context.Context, o Order) (Receipt, error) {
	r, err := c.door.Submit(ctx, door.Order(o))
	return receiptOf(r), errorOf(err)
}

// SubmitAll submits many orders and yields a receipt, or an error of Submit, for each, in
// their order, as soon as it is there. The receipt has the ID also beside an error. An
// order that fails stops no other. Up to 1,024 orders are under way.
//
// orders runs in a goroutine of its own. When ctx ends or the loop is left, it is asked
// for no more orders, and a call of it that is under way is not waited for.
func (c *Client) SubmitAll(ctx context.Context, orders iter.Seq[Order]) iter.Seq2[Receipt, error] {
	inner := func(yield func(door.Order) bool) {
		for o := range orders {
			if !yield(door.Order(o)) {
				return
			}
		}
	}
	return func(yield func(Receipt, error) bool) {
		for r, err := range c.door.SubmitAll(ctx, inner) {
			if !yield(receiptOf(r), errorOf(err)) {
				return
			}
		}
	}
}

// Outcome returns what became of a submission by now. It is Pending if there is no outcome
// yet. A Receipt of OrderNo and ID alone will do; without an ID it means the last word on
// the order_no, whosever it is.
//
// Errors: ErrUnknownOrder, ErrUnavailable, ErrClosed, ctx's.
func (c *Client) Outcome(ctx context.Context, r Receipt) (Outcome, error) {
	o, err := c.door.Outcome(ctx, r.OrderNo, r.ID)
	return outcomeOf(o), errorOf(err)
}

// Wait returns the outcome of a submission once it has one. If ctx ends first, it returns
// ctx's error and an Outcome that is Pending. A wait outlasts an outage of the broker. It
// costs some kilobytes of memory and no request while nothing happens.
//
// Errors: those of Outcome, but for ErrUnavailable.
func (c *Client) Wait(ctx context.Context, r Receipt) (Outcome, error) {
	o, err := c.door.Wait(ctx, r.OrderNo, r.ID)
	return outcomeOf(o), errorOf(err)
}

// From says where Outcomes begins.
type From func(*uint64)

// After begins behind a position: the Outcome.Position that was handled last. 0 is the
// beginning of what is kept.
func After(position uint64) From { return func(after *uint64) { *after = position } }

// Outcomes yields the outcome of every submission to the fleet, oldest first, and then
// each as it is stored, until ctx ends or the loop is left. It begins with the oldest
// outcome that is kept, or where from says.
//
// Each outcome comes at least once to a reader that keeps Outcome.Position and goes on
// after it. An outcome that a later submission of its order_no replaces before it is read
// does not come. Outcomes waits out an outage of the broker. An error is the last value:
// ErrPosition, ErrClosed, or the broker's refusal.
func (c *Client) Outcomes(ctx context.Context, from ...From) iter.Seq2[Outcome, error] {
	var after uint64
	for _, f := range from {
		f(&after)
	}
	return func(yield func(Outcome, error) bool) {
		for o, err := range c.door.Outcomes(ctx, after) {
			if !yield(outcomeOf(o), errorOf(err)) {
				return
			}
		}
	}
}

// Cancel withdraws a submission and returns what became of it: "cancelled", another
// outcome, or Pending if it is left to its worker, because an attempt may have created the
// order, or if no worker has come to it within ten seconds. The journal names the client
// (see Name). The NATS user needs the rights of the
// role gateway or operator.
//
// Errors: those of Outcome, and ErrPending if another submission of the order_no is
// stored, which would be withdrawn with it.
func (c *Client) Cancel(ctx context.Context, r Receipt) (Outcome, error) {
	o, err := c.door.Cancel(ctx, r.OrderNo, r.ID, c.name)
	return outcomeOf(o), errorOf(err)
}
