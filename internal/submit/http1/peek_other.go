//go:build !unix

package http1

import (
	"errors"
	"os"
	"time"
)

// canPeek says that readNow does not need the connection's deadline. Here it does.
const canPeek = false

type nonblockingRead struct{}

// readNow returns the bytes that arrive within a millisecond, or errWouldBlock.
func (s *socket) readNow(p []byte) (int, error) {
	if err := s.Conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return 0, err
	}
	n, err := s.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errWouldBlock
	}
	if e := s.Conn.SetReadDeadline(time.Time{}); err == nil || err == errWouldBlock {
		if e != nil {
			err = e
		}
	}
	return n, err
}

// callWhenReadable calls do once. The next read waits instead.
func (s *socket) callWhenReadable(do func(fd uintptr) bool) error {
	do(0)
	return nil
}

// arrived returns true: callWhenReadable does not wait here.
func arrived(uintptr) bool { return true }
