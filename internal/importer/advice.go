package importer

import "errors"

// advised is an error with advice for the command line.
type advised struct{ what, flags string }

// Error returns the error with the advice.
func (e *advised) Error() string { return e.what + e.flags }

// Advice returns the part of an error's message that is about flags of enqueue; "" if
// there is none. A page leaves it out, because it has fields for that.
func Advice(err error) string {
	if a, ok := errors.AsType[*advised](err); ok {
		return a.flags
	}
	return ""
}
