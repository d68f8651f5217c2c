//go:build unix

package submit

import (
	"errors"
	"syscall"
)

// canPeek: an unused connection can be looked at without taking from it.
const canPeek = true

// quiet says whether nothing has come on an unused connection: neither its end
// nor bytes that would pass for the answer to the next request.
func (c *countedConn) quiet() bool {
	if c.Conn.SetReadDeadline(noDeadline) != nil {
		return false
	}
	var nothing bool
	err := c.peek(func(n int, err error) bool {
		nothing = n <= 0 && isEmpty(err)
		return true
	})
	return err == nil && nothing
}

// readable returns when something has come, the connection's end included, or
// with an error when the deadline has passed. Unlike Read it needs no buffer to
// wait with.
func (c *countedConn) readable() error {
	return c.peek(func(_ int, err error) bool { return !isEmpty(err) })
}

func isEmpty(err error) bool { return err == syscall.EAGAIN || err == syscall.EWOULDBLOCK }

// peek looks at the connection, and again when something comes, until enough
// says that it has seen enough.
func (c *countedConn) peek(enough func(n int, err error) bool) error {
	if c.raw == nil {
		sc, ok := c.Conn.(syscall.Conn)
		if !ok {
			return errors.ErrUnsupported
		}
		raw, err := sc.SyscallConn()
		if err != nil {
			return err
		}
		c.raw = raw
	}
	return c.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return enough(n, err)
	})
}
