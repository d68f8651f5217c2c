package program

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// Guard makes a program notice what becomes of its streams. Its standard input
// ends with ctx: a signal ends a program that waits for input. A standard
// output that cannot be written to, a full disk's say, makes it fail: an exit
// code of 0 or 3 would tell the reader that the output is complete.
func Guard(name string, run RunFunc) RunFunc {
	return func(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
		out := &watched{w: stdout}
		code := run(ctx, args, environ, Interruptible(ctx, stdin), out, stderr)
		err := out.failure()
		if err == nil || code != ExitDone && code != ExitPartial {
			return code
		}
		_, _ = fmt.Fprintf(stderr, "%s: the output is not complete: standard output could not be written: %v\n", name, err)
		return ExitFailed
	}
}

// watched remembers the first failure of a writer.
type watched struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (w *watched) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err == nil {
			w.err = err
		}
	}
	return n, err
}

func (w *watched) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Fd is that of the writer, for [IsTerminal].
func (w *watched) Fd() uintptr { return fd(w.w) }

// Interruptible reads from r until ctx ends, and no longer: a read that waits
// for a person or a pipe returns then, too.
func Interruptible(ctx context.Context, r io.Reader) io.Reader {
	if r == nil {
		return nil
	}
	return &interruptible{ctx: ctx, r: r, reads: make(chan readResult, 1)}
}

type interruptible struct {
	ctx   context.Context
	r     io.Reader
	reads chan readResult
	buf   []byte // belongs to the reading goroutine while there is one
	have  []byte // of buf, to be handed out
	err   error
}

type readResult struct {
	n   int
	err error
}

// Read implements io.Reader.
func (i *interruptible) Read(p []byte) (int, error) {
	if len(i.have) == 0 {
		switch {
		case i.ctx.Err() != nil:
			return 0, i.ctx.Err()
		case i.err != nil:
			return 0, i.err
		}
		if i.buf == nil {
			i.buf = make([]byte, 64<<10)
		}
		go func() {
			n, err := i.r.Read(i.buf)
			i.reads <- readResult{n, err}
		}()
		select {
		case got := <-i.reads:
			i.have, i.err = i.buf[:got.n], got.err
		case <-i.ctx.Done():
			return 0, i.ctx.Err() // the goroutine ends with its read, or the program
		}
	}
	n := copy(p, i.have)
	if i.have = i.have[n:]; n == 0 {
		return 0, i.err
	}
	return n, nil
}

// Fd is that of the reader, for [IsTerminal].
func (i *interruptible) Fd() uintptr { return fd(i.r) }

// fd is a stream's file descriptor, or one that no file has.
func fd(stream any) uintptr {
	if f, ok := stream.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}
