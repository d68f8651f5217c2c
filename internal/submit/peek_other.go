//go:build !unix

package submit

import (
	"errors"
	"os"
	"time"
)

// canPeek: reads wait a little, by the connection's deadline.
const canPeek = false

type taken struct{}

// readNow reads what comes within a millisecond, or returns errNothing.
func (s *socket) readNow(p []byte) (int, error) {
	if err := s.Conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return 0, err
	}
	n, err := s.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errNothing
	}
	if e := s.Conn.SetReadDeadline(time.Time{}); err == nil || err == errNothing {
		if e != nil {
			err = e
		}
	}
	return n, err
}

// waitAfter leaves the waiting to whoever reads.
func (s *socket) waitAfter(do func(fd uintptr) bool) error {
	do(0)
	return nil
}
