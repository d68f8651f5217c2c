package door

import (
	"errors"
	"fmt"

	"orderpost/internal/order"
	"orderpost/internal/order/schema"
	"orderpost/internal/settle"
)

// InvalidError says what is wrong with an order, which can never be sent like this.
// Nothing was stored. Correct it, and submit it with a new ID.
type InvalidError struct {
	// Where is the path in the body, such as items[0].price, or the name of a field of
	// Order in lower case; "" = the body as a whole.
	Where string
	// Seen says what is wrong there.
	Seen string
	// Do is what to do about it.
	Do string
	// Code is the broken rule in one word, such as wrong_type.
	Code string
}

// Error returns place, problem and advice in one line.
func (e *InvalidError) Error() string { return Sentence(e.Where, e.Seen, e.Do) }

// Sentence joins place, problem and advice, each of which may be empty: "timeout: is missing; add it".
func Sentence(where, seen, do string) string {
	text := where
	if seen != "" && text != "" {
		text += ": "
	}
	if text += seen; do != "" && text != "" {
		text += "; "
	}
	return text + do
}

// Errors, each with what a caller does about it. They come wrapped, with the details.
var (
	// ErrPending: another submission of the order_no is pending, and nothing was
	// stored. Wait for its outcome, or for the order_no to be free.
	ErrPending = errors.New("another submission of this order_no is pending")
	// ErrIDUsed: the ID names another submission, with another order or another body.
	// Nothing was stored. Submit with a new ID.
	ErrIDUsed = errors.New("the id names another submission")
	// ErrFull: nothing was stored, because the stream or the disk is full. Submit
	// later, with the same ID.
	ErrFull = errors.New("no room left, nothing was stored")
	// ErrUnavailable: the broker is out of reach or refuses the request. Of a submission
	// nothing was stored: submit later, with the same ID. Ask later.
	ErrUnavailable = errors.New("the broker is not available")
	// ErrUnknownOrder: nothing is known about this submission.
	ErrUnknownOrder = errors.New("nothing is known about this submission")
	// ErrPosition: the position is beyond the end of the results, which were made anew
	// or restored since. Follow them from 0.
	ErrPosition = errors.New("the position is beyond the end of the results")
	// ErrClosed: the door was closed.
	ErrClosed = errors.New("closed")
	// ErrConfig: a changed setting can fix it.
	ErrConfig = errors.New("configuration")
)

// UnconfirmedError says that the broker did not answer: the order may be stored. Submit
// it again with the same ID, which stores it at most once.
type UnconfirmedError struct {
	ID  string
	Err error
}

// Error says what to do.
func (e *UnconfirmedError) Error() string {
	return fmt.Sprintf("not confirmed, the order may be stored: submit it again with the id %q: %v", e.ID, e.Err)
}

// Unwrap returns why the answer is missing.
func (e *UnconfirmedError) Unwrap() error { return e.Err }

// invalidBody converts an error of order.Parse.
func invalidBody(err error) error {
	var bad *order.Error
	if !errors.As(err, &bad) {
		return err
	}
	said := *bad
	said.Path, said.Advice = "", ""
	return &InvalidError{Where: bad.Path, Seen: said.Error(), Do: bad.Advice, Code: string(bad.Code)}
}

// broken converts what is wrong with an order by the user's schema.
func broken(bad *schema.Violation) error {
	if bad == nil {
		return nil
	}
	return &InvalidError{Where: bad.Path, Seen: bad.Says(), Do: "correct the order", Code: schema.Code}
}

// publishError converts an error of a publish that stored nothing.
func publishError(err error) error {
	var own *InvalidError
	switch {
	case errors.Is(err, settle.ErrFull):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, settle.ErrTooLarge):
		return &InvalidError{Seen: err.Error(), Do: "send less", Code: string(order.CodeTooLarge)}
	case errors.Is(err, ErrPending), errors.Is(err, ErrIDUsed), errors.As(err, &own):
		return err
	default:
		return unstoredError(err)
	}
}

// unstoredError is ErrUnavailable, or ErrClosed, of a submission.
func unstoredError(err error) error {
	if errors.Is(err, ErrClosed) {
		return fmt.Errorf("%w, nothing was stored", ErrClosed)
	}
	return fmt.Errorf("%w, nothing was stored: %w", ErrUnavailable, err)
}

// readError converts an error of a read.
func (d *Door) readError(err error) error {
	if err == nil || d.ctx.Err() == nil && !d.q.Conn.OutOfReach(err) {
		return err
	}
	if d.ctx.Err() != nil {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
