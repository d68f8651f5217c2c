package submit

import (
	"context"
	"time"
)

// sending is a request on its way out. Kept with its connection it costs no
// allocation.
type sending struct {
	conn    *conn
	ctx     context.Context
	text    []byte
	timeout time.Duration // for the answer's headers
	until   time.Time     // the request's end
	wrote   bool          // the write was tried
	err     error         // of the write
	late    error         // of what came after it
	do      func(fd uintptr) bool
}

// send writes a request whole, in one call (on TLS it is one record as far as it
// fits into one, 16 KiB), and waits until something comes back. Where the write
// failed, err is its error; late is the error of the wait.
//
// The write happens inside the wait: what the poller tells from then on is new,
// so that no read has to be tried in vain, and no buffer is held, before the
// answer is there.
func (c *conn) send(ctx context.Context, text []byte, timeout time.Duration, until time.Time) (err, late error) {
	s := &c.sending
	s.conn, s.ctx, s.text, s.timeout, s.until = c, ctx, text, timeout, until
	s.wrote, s.err, s.late = false, nil, nil
	if s.do == nil {
		s.do = s.step
	}
	if late = c.await(ctx, time.Now(), timeout, until); late == nil {
		late = c.socket.waitAfter(s.do)
	}
	s.ctx, s.text = nil, nil
	switch {
	case !s.wrote:
		return late, nil
	case s.err != nil:
		return s.err, nil
	case s.late != nil:
		return nil, s.late
	default:
		return nil, late
	}
}

// step writes when it is first called, and says when it is called again that the
// wait is over.
func (s *sending) step(uintptr) (over bool) {
	if s.wrote {
		return true
	}
	s.wrote = true
	began := time.Now()
	if _, s.err = s.conn.Write(s.text); s.err != nil {
		return true
	}
	if now := time.Now(); now.Sub(began) > 10*time.Millisecond { // the header timeout begins here
		s.late = s.conn.await(s.ctx, now, s.timeout, s.until)
	}
	return s.late != nil
}
