package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
)

// Guard returns run with guarded streams. Standard input ends with ctx, so a signal
// also ends a program that waits for input. If standard output cannot be written, for
// example to a full disk, the program fails: an exit code of 0 or 3 would claim that
// the output is complete.
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

// watched keeps the first error of a writer.
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

// Fd returns the writer's file descriptor, for [IsTerminal].
func (w *watched) Fd() uintptr { return fd(w.w) }

// Interruptible returns a reader of r whose Read returns when ctx ends, also while it
// waits for a terminal or a pipe.
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
	buf   []byte // owned by the reading goroutine while it runs
	have  []byte // the part of buf that is not returned yet
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
			return 0, i.ctx.Err() // the goroutine ends with its read or with the program
		}
	}
	n := copy(p, i.have)
	if i.have = i.have[n:]; n == 0 {
		return 0, i.err
	}
	return n, nil
}

// Fd returns the reader's file descriptor, for [IsTerminal].
func (i *interruptible) Fd() uintptr { return fd(i.r) }

// SaysYes asks a person at the terminal. Any answer but yes means no.
func SaysYes(stdin io.Reader, out io.Writer, question string) bool {
	_, _ = fmt.Fprintf(out, "%s Type yes: ", question)
	answer, _ := bufio.NewReader(stdin).ReadString('\n')
	return strings.TrimSpace(answer) == "yes"
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	return term.IsTerminal(int(fd(w)))
}

// Width returns how many columns a terminal has; 0 = nobody knows.
func Width(w any) int {
	columns, _, _ := term.GetSize(int(fd(w))) // 0 with an error
	return columns
}

// fd returns a stream's file descriptor, or an invalid one.
func fd(stream any) uintptr {
	if f, ok := stream.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

// Printable escapes the characters of foreign text, such as a file name, that could
// control the terminal: control characters, and those that reorder or hide text. It
// uses JSON's escapes. Line ends and tabs stay.
func Printable(s string) string {
	if strings.IndexFunc(s, steers) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"), !steers(r):
			b.WriteString(s[i : i+size])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// steers reports whether the character affects the terminal or the text around it.
func steers(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}

// ForTerminal returns a writer that makes text [Printable] if w is a terminal.
// Otherwise it returns w.
func ForTerminal(w io.Writer) io.Writer {
	if !IsTerminal(w) {
		return w
	}
	return &printer{w: w}
}

// printer writes text as Printable. It keeps an incomplete character until the rest
// is written.
type printer struct {
	w    io.Writer
	rest []byte
}

// Write implements io.Writer.
func (p *printer) Write(text []byte) (int, error) {
	all := append(p.rest, text...)
	whole := len(all)
	for cut := 1; cut < utf8.UTFMax && cut <= len(all); cut++ {
		if at := len(all) - cut; utf8.RuneStart(all[at]) && !utf8.FullRune(all[at:]) {
			whole = at
		}
	}
	if whole == len(all) && whole > 0 && all[whole-1] == '\r' {
		whole--
	}
	_, err := io.WriteString(p.w, Printable(string(all[:whole])))
	p.rest = append([]byte(nil), all[whole:]...)
	return len(text), err
}

// Sentence makes a sentence of a text that begins in lower case, as errors do.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}
