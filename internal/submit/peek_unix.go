//go:build unix

package submit

import "syscall"

// canPeek: an unused connection can be looked at without taking from it.
const canPeek = true

// quiet says whether nothing has come on an unused connection: neither its end
// nor bytes that would pass for the answer to the next request.
func (c *countedConn) quiet() bool {
	if c.raw == nil {
		sc, ok := c.Conn.(syscall.Conn)
		if !ok {
			return false
		}
		raw, err := sc.SyscallConn()
		if err != nil {
			return false
		}
		c.raw = raw
	}
	var nothing bool
	if c.Conn.SetReadDeadline(noDeadline) != nil {
		return false
	}
	err := c.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		nothing = n <= 0 && (err == syscall.EAGAIN || err == syscall.EWOULDBLOCK)
		return true
	})
	return err == nil && nothing
}
