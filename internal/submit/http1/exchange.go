package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"orderpost/internal/submit/answer"
)

// Exchange is one request and its result.
type Exchange struct {
	Answer answer.Answer
	Phase  Phase
	Err    error     // why there is no complete answer
	Sent   time.Time // when the request began
	Ended  time.Time // when the answer was complete, or the request failed
	Reused bool      // the request went out on a connection that an earlier one had used
}

// Phase says how far a request got.
type Phase uint8

// The phases of a request, in their order.
const (
	// PhaseConnect: there was no connection (name, proxy, TCP or TLS). Nothing was sent.
	PhaseConnect Phase = iota
	// PhaseSend: there was a connection, but no byte of the request was sent.
	PhaseSend
	// PhaseSent: part of the request may have been sent. No answer arrived.
	PhaseSent
	// PhaseCut: the answer's headers arrived, but not the whole body, or the body is
	// longer than 256 KiB or has an unknown encoding.
	PhaseCut
	// PhaseDone: the answer was read to its end.
	PhaseDone
)

// MaySent reports whether part of the request may have been sent.
func (p Phase) MaySent() bool { return p != PhaseConnect && p != PhaseSend }

// normalizeError turns timeouts into os.ErrDeadlineExceeded or ctx's error, which
// causeReason knows.
func normalizeError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, fasthttp.ErrTimeout)):
		return ctx.Err()
	case errors.Is(err, fasthttp.ErrTimeout):
		return fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
	default:
		return err
	}
}

// dialError says why there is no connection: the fault of a proxy, or of a TLS handshake.
type dialError struct {
	reason string // as Reason
	with   string // whom
	detail string // what a person needs to act on it
	err    error  // the cause; may be nil
}

// Error implements error.
func (e *dialError) Error() string { return e.with + e.detail }

// Unwrap returns the cause.
func (e *dialError) Unwrap() error { return e.err }

// Reason returns the phrase for a request without an answer. It holds no
// variable parts, so equal failures can be counted.
func (x *Exchange) Reason() string {
	var dial *dialError
	var dns *net.DNSError
	switch {
	case x.Phase == PhaseSend:
		return "nothing was sent: " + causeReason(x.Err)
	case x.Phase != PhaseConnect:
		return "no answer: " + causeReason(x.Err)
	case errors.As(x.Err, &dial):
		return dial.reason
	case errors.As(x.Err, &dns):
		return "name not resolved"
	default:
		return "no connection: " + causeReason(x.Err)
	}
}

func causeReason(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the address"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "no file descriptor left"
	default:
		return "connection lost"
	}
}

// Detail returns what a person needs beyond the reason to act on the error, after a
// colon; "" if the reason is enough.
func (x *Exchange) Detail() string {
	err := x.Err
	var dial *dialError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dial):
		return ": " + dial.detail
	case errors.As(err, &dns):
		return ": " + dns.Name
	case err != nil && strings.Contains(err.Error(), "remote error: tls: "): // a TLS alert; crypto/tls has no type for it
		return ": " + alertWords(err.Error())
	default:
		return ""
	}
}
