package client

import (
	"errors"

	"orderpost/internal/gateway/door"
)

// InvalidError says what is wrong with an order. Nothing was stored. Correct the order, and
// submit it with a new ID.
type InvalidError struct {
	// Where is the path in the body, such as items[0].price, or the name of a field of
	// Order in lower case; "" = the body as a whole.
	Where string
	// Seen says what is wrong there, and Do what to do about it.
	Seen, Do string
	// Code is the broken rule in one word, such as wrong_type.
	Code string
}

// Error returns place, problem and advice in one line.
func (e *InvalidError) Error() string { return (*door.InvalidError)(e).Error() }

// UnconfirmedError says that the broker did not answer: the order may be stored. Submit it
// again with this ID, which stores it at most once.
type UnconfirmedError struct {
	ID  string
	Err error
}

// Error says what to do.
func (e *UnconfirmedError) Error() string { return (*door.UnconfirmedError)(e).Error() }

// Unwrap returns why the answer is missing.
func (e *UnconfirmedError) Unwrap() error { return e.Err }

// Errors, each with what to do about it. They come wrapped: use errors.Is.
var (
	// ErrPending: another submission of the order_no is pending, and nothing was stored.
	// Wait for its outcome.
	ErrPending = door.ErrPending
	// ErrIDUsed: the ID names another order, or this one with another body. Nothing was
	// stored. Submit with a new ID.
	ErrIDUsed = door.ErrIDUsed
	// ErrFull: nothing was stored, because stream or disk is full. Submit later.
	ErrFull = door.ErrFull
	// ErrUnavailable: the broker is out of reach or refuses the request. Of a submission nothing
	// was stored: submit later, with the same ID. It tells nothing of what was stored before.
	ErrUnavailable = door.ErrUnavailable
	// ErrUnknownOrder: nothing is pending, and no result names the submission. Results
	// expire, and a later submission of the order_no replaces an outcome.
	ErrUnknownOrder = door.ErrUnknownOrder
	// ErrPosition: the position is beyond the end of the results, which were made anew or
	// restored since. Read them from the beginning.
	ErrPosition = door.ErrPosition
	// ErrClosed: the client was closed.
	ErrClosed = door.ErrClosed
)

// errorOf replaces the door's types by ours.
func errorOf(err error) error {
	var invalid *door.InvalidError
	var unconfirmed *door.UnconfirmedError
	switch {
	case errors.As(err, &invalid):
		return (*InvalidError)(invalid)
	case errors.As(err, &unconfirmed):
		return (*UnconfirmedError)(unconfirmed)
	default:
		return err
	}
}
