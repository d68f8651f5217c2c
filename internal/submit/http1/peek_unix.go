//go:build unix

package http1

import (
	"io"
	"os"
	"syscall"
)

// canPeek says that readNow does not need the connection's deadline.
const canPeek = true

// nonblockingRead is the state of readNow. It is part of the socket to avoid
// allocations.
type nonblockingRead struct {
	p   []byte
	n   int
	err error
	do  func(fd uintptr) bool // take
}

func (t *nonblockingRead) take(fd uintptr) bool {
	for {
		t.n, _, t.err = syscall.Recvfrom(int(fd), t.p, syscall.MSG_DONTWAIT)
		if t.err != syscall.EINTR {
			return true
		}
	}
}

// readNow returns the bytes that have arrived, or errWouldBlock. It does not wait.
func (s *socket) readNow(p []byte) (int, error) {
	raw, err := s.rawConn()
	if err != nil {
		return 0, err
	}
	t := &s.pending
	if t.do == nil {
		t.do = t.take
	}
	t.p = p
	err = raw.Read(t.do)
	t.p = nil
	switch {
	case err != nil:
		return 0, err
	case isEmpty(t.err):
		return 0, errWouldBlock
	case t.err != nil:
		return 0, os.NewSyscallError("recvfrom", t.err)
	case t.n <= 0:
		return 0, io.EOF
	default:
		return t.n, nil
	}
}

// callWhenReadable calls do at once, and again whenever bytes or the connection's end
// arrived, until do returns true or the deadline passes.
func (s *socket) callWhenReadable(do func(fd uintptr) bool) error {
	raw, err := s.rawConn()
	if err != nil {
		return err
	}
	return raw.Read(do)
}

// arrived says whether a read of the socket would return at once.
func arrived(fd uintptr) bool {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return !isEmpty(err) && err != syscall.EINTR
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
