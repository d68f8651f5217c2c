package submit

import (
	"context"
	"time"
)

// sending is the state of send. It is part of the connection to avoid allocations.
type sending struct {
	conn    *conn
	ctx     context.Context
	text    []byte
	timeout time.Duration // for the answer's headers
	until   time.Time     // the request's end
	wrote   bool          // the write was tried
	err     error         // of the write
	late    error         // of the wait for the answer
	do      func(fd uintptr) bool
}

// send writes the request in one call and waits until the connection is readable. On
// TLS a request of up to 16 KiB is one record. err is the error of the write, late
// that of the wait.
//
// The write happens inside callWhenReadable, so no read is tried in vain, and no read
// buffer is held before the answer arrives. The poller reports only what is new when
// the wait begins. What the server sent between checkIdle and that moment, such as an
// alert, would not wake it, so step looks for it after the write.
func (c *conn) send(ctx context.Context, text []byte, timeout time.Duration, until time.Time) (err, late error) {
	s := &c.sending
	s.conn, s.ctx, s.text, s.timeout, s.until = c, ctx, text, timeout, until
	s.wrote, s.err, s.late = false, nil, nil
	if s.do == nil {
		s.do = s.step
	}
	if late = c.await(ctx, time.Now(), timeout, until); late == nil {
		late = c.socket.callWhenReadable(s.do)
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

// step writes the request at the first call and returns true if something has arrived
// already. The second call means that the answer arrived: step returns true.
func (s *sending) step(fd uintptr) (over bool) {
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
	return s.late != nil || arrived(fd)
}
