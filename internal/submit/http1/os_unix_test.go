//go:build unix

package http1

import (
	"errors"
	"syscall"
)

// readable returns when something lies in the socket.
func (s *socket) readable() error {
	return s.callWhenReadable(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return err == nil || !errors.Is(err, syscall.EAGAIN)
	})
}
