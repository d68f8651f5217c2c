package uploads

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
)

// sink writes a file of the store. What it writes counts towards the store's limit.
type sink struct {
	s *Store
	f *os.File
	n int64
}

// create makes a file that only the console's user can read.
func (s *Store) create(path string) (*sink, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, s.full(err)
	}
	return &sink{s: s, f: f}, nil
}

// Write implements io.Writer.
func (k *sink) Write(p []byte) (int, error) {
	if used := k.s.used.Add(int64(len(p))); used > k.s.cfg.MaxTotal {
		k.s.used.Add(-int64(len(p)))
		return 0, refuse(NoRoom, "the uploads take %s already, which is as much as they may; remove some that are done, then upload the file again", inBytes(k.s.cfg.MaxTotal))
	}
	n, err := k.f.Write(p)
	k.s.used.Add(int64(n - len(p)))
	k.n += int64(n)
	return n, k.s.full(err)
}

// close makes the file durable.
func (k *sink) close() error { return k.s.full(errors.Join(k.s.syncFile(k.f), k.f.Close())) }

// full gives a full disk its sentence.
func (s *Store) full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return refuse(NoRoom, "the disk of the data folder is full, and nothing was kept; make room there, or remove uploads that are done, then try again").because(err)
	}
	return err
}

// arriving is an upload as it arrives. It notes a connection that breaks off.
type arriving struct {
	ctx  context.Context
	r    io.Reader
	n    int64
	max  int64
	fail error
}

// Read implements io.Reader.
func (a *arriving) Read(p []byte) (int, error) {
	if a.fail == nil {
		a.fail = a.ctx.Err()
	}
	if a.fail != nil {
		return 0, a.fail
	}
	n, err := a.r.Read(p)
	a.n += int64(n)
	switch {
	case a.n > a.max:
		a.fail = tooLarge(a.max)
		return 0, a.fail
	case err != nil && err != io.EOF: //nolint:errorlint // io.Reader returns io.EOF itself
		a.fail = refuse(BrokenOff, "the upload broke off after %s, and nothing was kept; upload the file again", inBytes(a.n)).because(err)
		return n, a.fail
	}
	return n, err
}

// tooLarge refuses a file above the limit.
func tooLarge(limit int64) *Refusal {
	return refuse(TooLarge, "the file is larger than %s, and nothing was kept; split it, or import it with enqueue, which takes files of any size", inBytes(limit))
}

// maxRatio is how many times larger text may be than its packed form. Orders differ in
// their numbers: real files stay far below.
const (
	maxRatio   = 500
	ratioSlack = 16 << 20
)

// bounded counts what is unpacked and stops a bomb.
type bounded struct {
	w      io.Writer // nil = only count
	packed func() int64
	slack  int64 // how much may unpack whatever the ratio
	max    int64
	n      int64
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.n += int64(len(p))
	switch {
	case b.n > b.slack && b.n > maxRatio*b.packed():
		return 0, refuse(Unusable, "the file unpacks to more than %d times its size, which no file of orders does (a zip bomb?), and nothing was kept", maxRatio)
	case b.n > b.max:
		return 0, refuse(TooLarge, "the file unpacks to more than %s, and nothing was kept; split it, or import it with enqueue, which takes files of any size", inBytes(b.max))
	case b.w == nil:
		return len(p), nil
	}
	return b.w.Write(p)
}
