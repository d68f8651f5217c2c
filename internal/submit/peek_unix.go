//go:build unix

package submit

import (
	"io"
	"os"
	"syscall"
)

// canPeek: reads need not wait, and leave the deadline alone.
const canPeek = true

// taken is what readNow took. Kept with the socket it costs no allocation.
type taken struct {
	p   []byte
	n   int
	err error
	do  func(fd uintptr) bool // take
}

func (t *taken) take(fd uintptr) bool {
	for {
		t.n, _, t.err = syscall.Recvfrom(int(fd), t.p, syscall.MSG_DONTWAIT)
		if t.err != syscall.EINTR {
			return true
		}
	}
}

// readNow reads what is there, or returns errNothing.
func (s *socket) readNow(p []byte) (int, error) {
	raw, err := s.rawConn()
	if err != nil {
		return 0, err
	}
	t := &s.taken
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
		return 0, errNothing
	case t.err != nil:
		return 0, os.NewSyscallError("recvfrom", t.err)
	case t.n <= 0:
		return 0, io.EOF
	default:
		return t.n, nil
	}
}

// waitAfter calls do, and again each time when something has come, the
// connection's end included, until it returns true or the deadline passes.
func (s *socket) waitAfter(do func(fd uintptr) bool) error {
	raw, err := s.rawConn()
	if err != nil {
		return err
	}
	return raw.Read(do)
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
