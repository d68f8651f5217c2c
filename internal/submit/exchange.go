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

// exchange is one request and what came of it.
type exchange struct {
	answer answer.Answer
	phase  Phase
	err    error     // why there is no answer, or only a part of one
	sent   time.Time // when the request was begun
	ended  time.Time // when the answer, or the failure, was there
	reused bool
}

// longAgo ends what waits on a connection.
var longAgo = time.Unix(1, 0)

// exchange sends the request and reads the answer. It says whether the
// connection can be used again.
func (c *client) exchange(ctx context.Context, conn *conn, r *request, until time.Time, x *exchange) (keep bool) {
	conn.requests++
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = conn.Conn.SetDeadline(longAgo) })
	}
	defer func() {
		if !stop() { // it has been, or is being, broken off
			keep = false
		}
		if x.err != nil {
			x.err = named(ctx, x.err)
		}
	}()
	written, came := conn.socket.written, conn.socket.read
	began := time.Now()
	if x.err = conn.await(ctx, began, c.cfg.HeaderTimeout, until); x.err == nil {
		x.err = c.write(conn, r)
	}
	if x.err != nil {
		x.phase = PhaseSend
		if conn.socket.written != written {
			x.phase = PhaseSent
		}
		return false
	}
	if now := time.Now(); now.Sub(began) > 10*time.Millisecond { // the header timeout begins here
		if x.err = conn.await(ctx, now, c.cfg.HeaderTimeout, until); x.err != nil {
			x.phase = PhaseSent
			return false
		}
	}
	return c.read(ctx, conn, came, until, x)
}

// named gives an error the form that the reasons are read from.
func named(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, fasthttp.ErrTimeout)):
		return ctx.Err()
	case errors.Is(err, fasthttp.ErrTimeout):
		return fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
	default:
		return err
	}
}
