package submit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"orderpost/internal/submit/answer"
)

// exchange is one request and its result.
type exchange struct {
	answer answer.Answer
	phase  Phase
	err    error     // why there is no complete answer
	sent   time.Time // when the request began
	ended  time.Time // when the answer was complete, or the request failed
	reused bool
}

// pastDeadline is a deadline that ends every wait on a connection.
var pastDeadline = time.Unix(1, 0)

// exchange sends the request and reads the answer. It reports whether the connection
// can be used again.
func (c *client) exchange(ctx context.Context, conn *conn, r *request, until time.Time, x *exchange) (keep bool) {
	conn.requests++
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = conn.Conn.SetDeadline(pastDeadline) })
	}
	defer func() {
		if !stop() { // the request was canceled, or is being canceled
			keep = false
		}
		if x.err != nil {
			x.err = normalizeError(ctx, x.err)
		}
	}()
	written, came := conn.socket.written, conn.socket.read
	err, late := c.send(ctx, conn, r, until)
	switch {
	case err != nil && conn.socket.written == written:
		x.phase, x.err = PhaseSend, err
		return false
	case err != nil:
		x.phase, x.err = PhaseSent, err
		return false
	case late != nil:
		x.phase, x.err = PhaseSent, late
		return false
	}
	return c.read(ctx, conn, came, until, x)
}

func (c *client) send(ctx context.Context, conn *conn, r *request, until time.Time) (err, late error) {
	buf := requestBuffers.Get().(*[]byte)
	text, err := c.heads.append((*buf)[:0], r)
	if err == nil {
		err, late = conn.send(ctx, text, c.cfg.headerTimeout(), until)
	}
	if cap(text) <= maxKeptBuffer {
		*buf = text
		requestBuffers.Put(buf)
	}
	return err, late
}

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
