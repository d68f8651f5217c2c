//go:build unix

package submit

import (
	"io"
	"os"
	"syscall"
)

// canPeek: reads need not wait, and leave the deadline alone.
const canPeek = true

// readNow reads what is there, or returns errNothing.
func (s *socket) readNow(p []byte) (n int, err error) {
	raw, err := s.rawConn()
	if err != nil {
		return 0, err
	}
	var got error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, _, got = syscall.Recvfrom(int(fd), p, syscall.MSG_DONTWAIT)
			if got != syscall.EINTR {
				return true
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case isEmpty(got):
		return 0, errNothing
	case got != nil:
		return 0, os.NewSyscallError("recvfrom", got)
	case n <= 0:
		return 0, io.EOF
	default:
		return n, nil
	}
}

// readable returns when something has come, the connection's end included, or
// with an error when the deadline has passed. Unlike Read it needs no buffer to
// wait with.
func (s *socket) readable() error {
	raw, err := s.rawConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return !isEmpty(err)
	})
}

func isEmpty(err error) bool { return err == syscall.EAGAIN || err == syscall.EWOULDBLOCK }

func (s *socket) rawConn() (_ syscall.RawConn, err error) {
	if s.raw == nil {
		sc, ok := s.Conn.(syscall.Conn)
		if !ok {
			return nil, syscall.ENOTSUP
		}
		s.raw, err = sc.SyscallConn()
	}
	return s.raw, err
}
