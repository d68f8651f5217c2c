package http1

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	reused bool      // on a connection that another request had used
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
