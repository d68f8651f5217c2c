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

// Reason returns the phrase for a request without an answer. It holds no
// variable parts, so equal failures can be counted.
func (x *Exchange) Reason() string {
	switch x.Phase {
	case PhaseConnect:
		return connectReason(x.Err)
	case PhaseSend:
		return "nothing was sent: " + causeReason(x.Err)
	default:
		return "no answer: " + causeReason(x.Err)
	}
}

func connectReason(err error) string {
	var dns *net.DNSError
	var handshake *handshakeError
	var proxy *proxyError
	switch {
	case errors.As(err, &proxy):
		return "proxy not reached"
	case errors.As(err, &dns):
		return "name not resolved"
	case errors.As(err, &handshake) && handshake.distrust:
		return "certificate not trusted"
	case errors.As(err, &handshake):
		return "TLS handshake failed"
	default:
		return "no connection: " + causeReason(err)
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
	var dns *net.DNSError
	var handshake *handshakeError
	var proxy *proxyError
	switch {
	case errors.As(err, &proxy):
		return ": " + proxy.proxy + ": " + proxy.words
	case errors.As(err, &dns):
		return ": " + dns.Name
	case errors.As(err, &handshake):
		return ": " + handshake.words
	case err != nil && strings.Contains(err.Error(), "remote error: tls: "): // a TLS alert; crypto/tls has no type for it
		return ": " + alertWords(err.Error())
	default:
		return ""
	}
}
