package powercut

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// traced are the system calls that strace records. replay.go refuses a trace in which
// one of them changes a file in a way that it does not know.
var traced = []string{
	"open", "openat", "creat", "close", "dup", "dup2", "dup3", "fcntl", "lseek", "ioctl",
	"read", "readv", "recvfrom", "write", "pwrite64", "writev", "pwritev", "sendto", "sendmsg", "sendfile", "copy_file_range", "splice",
	"truncate", "ftruncate", "fallocate", "fsync", "fdatasync", "sync_file_range", "sync", "syncfs",
	"rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat",
	"accept4", "connect", "chdir",
}

// zeroOrError are those that return nothing else.
var zeroOrError = []string{
	"close", "ftruncate", "fsync", "fdatasync", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "symlink", "symlinkat",
}

// never is the end of a system call that had not returned when its process ended.
const never = math.MaxInt

// call is one system call. Enter and Exit are the lines of the trace at which it began
// and returned: a total order of all that the process did.
type call struct {
	name        string
	args        []string
	ret         int64
	failed      string // the name of the error
	enter, exit int
}

// readCalls reads the output of strace -f. The first line gets the number first. It
// returns the calls in the order in which they took effect, and the number of lines.
func readCalls(r io.Reader, first int) (calls []call, lines int, err error) {
	open := make(map[string]call)  // by thread
	raw := make(map[string]string) // its arguments so far
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		text, readErr := in.ReadString('\n')
		if text == "" && readErr == io.EOF {
			break
		}
		if readErr != nil && readErr != io.EOF {
			return nil, 0, readErr
		}
		at := first + lines
		lines++
		thread, rest, ok := strings.Cut(strings.TrimRight(text, "\n"), " ")
		rest = strings.TrimLeft(rest, " ")
		if !ok || strings.HasPrefix(rest, "+++") || strings.HasPrefix(rest, "---") {
			continue
		}
		if begun, detached := strings.CutSuffix(rest, "<detached ...>"); detached { // strace was ended before the call returned
			if strings.HasPrefix(rest, "???(") || strings.HasPrefix(rest, "<...") { // it had not heard of the call; or the call stays open
				continue
			}
			rest = begun + "<unfinished ...>"
		}
		if begun, unfinished := strings.CutSuffix(rest, "<unfinished ...>"); unfinished && !strings.HasPrefix(rest, "<...") {
			name, args, _ := strings.Cut(begun, "(")
			open[thread], raw[thread] = call{name: name, enter: at, exit: never}, args
			continue
		}
		c := call{enter: at, exit: at}
		if resumed, ok := strings.CutPrefix(rest, "<... "); ok {
			name, tail, _ := strings.Cut(resumed, " resumed>")
			begun, known := open[thread]
			if !known || begun.name != name {
				return nil, 0, fmt.Errorf("trace line %d: %s resumed, which never began", at, name)
			}
			c.name, c.enter = name, begun.enter
			rest = name + "(" + raw[thread] + tail
			delete(open, thread)
		}
		if err := c.parse(rest); err != nil {
			return nil, 0, fmt.Errorf("trace line %d: %w", at, err)
		}
		calls = append(calls, c)
	}
	for thread, c := range open { // the process was killed meanwhile
		c.args = splitArgs(raw[thread])
		calls = append(calls, c)
	}
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Compare(a.at(), b.at()) })
	return calls, lines, nil
}

// at is the line at which a call takes effect for the descriptors of its process: when it
// returned. A descriptor is free when its close begins: another thread may get the
// same number before the close returns.
func (c *call) at() int {
	if c.name == "close" {
		return c.enter
	}
	if c.exit == never {
		return never - 1_000_000_000 + c.enter
	}
	return c.exit
}

// parse reads "name(args) = result".
func (c *call) parse(text string) error {
	name, rest, ok := strings.Cut(text, "(")
	end := strings.LastIndex(rest, " = ")
	if !ok || end < 0 {
		return fmt.Errorf("not a system call: %.80q", text)
	}
	c.name = name
	c.args = splitArgs(strings.TrimSuffix(strings.TrimRight(rest[:end], " "), ")"))
	result, after, _ := strings.Cut(rest[end+3:], " ")
	var err error
	c.ret, err = strconv.ParseInt(result, 0, 64)
	// Of a call that a kill interrupts, strace may show another thread's result.
	if result == "?" || errors.Is(err, strconv.ErrRange) || c.ret > 0 && slices.Contains(zeroOrError, name) {
		c.ret, c.exit = 0, never
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s returned %q: %w", name, result, err)
	}
	if c.ret < 0 {
		c.failed, _, _ = strings.Cut(after, " ")
	}
	return nil
}

// splitArgs splits at the commas that stand in no bracket. strace prints strings in
// hexadecimal, so they contain neither.
func splitArgs(text string) (args []string) {
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',':
			if depth == 0 {
				args = append(args, strings.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	if last := strings.TrimSpace(text[from:]); last != "" {
		args = append(args, last)
	}
	return args
}

// arg returns an argument, "" if there are fewer.
func (c *call) arg(i int) string {
	if i < len(c.args) {
		return c.args[i]
	}
	return ""
}

// fd returns an argument that is a file descriptor; atCWD for AT_FDCWD, -2 for none.
func (c *call) fd(i int) int {
	if c.arg(i) == "AT_FDCWD" {
		return atCWD
	}
	n, err := strconv.Atoi(c.arg(i))
	if err != nil {
		return -2
	}
	return n
}

const atCWD = -100

// number returns an argument that is a number.
func (c *call) number(i int) (int64, error) { return strconv.ParseInt(c.arg(i), 0, 64) }

// bytes returns the bytes that the call transferred: its ret first ones of an argument
// that is a string, or a vector of them.
func (c *call) bytes(i int) ([]byte, error) {
	text := c.arg(i)
	if strings.HasPrefix(text, "[{") {
		var all []byte
		for piece := range strings.SplitSeq(text, "iov_base=") {
			if !strings.HasPrefix(piece, `"`) {
				continue
			}
			base, _, _ := strings.Cut(piece, ",")
			b, err := unquote(base)
			if err != nil {
				return nil, err
			}
			all = append(all, b...)
		}
		return c.transferred(all), nil
	}
	b, err := unquote(text)
	if err != nil {
		return nil, err
	}
	return c.transferred(b), nil
}

func (c *call) transferred(b []byte) []byte {
	// Nobody knows how much of it if the process was killed meanwhile. strace may then show
	// the result of another thread's call.
	if c.exit == never || int(c.ret) > len(b) {
		return b
	}
	if c.ret < 0 {
		return nil
	}
	return b[:c.ret]
}

// path returns an argument that is a string.
func (c *call) path(i int) (string, error) {
	b, err := unquote(c.arg(i))
	return string(b), err
}

// unquote reads a string as strace -xx prints it.
func unquote(text string) ([]byte, error) {
	inner, ok := strings.CutPrefix(text, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	if !ok || !closed {
		return nil, fmt.Errorf("not a whole string: %.40s", text)
	}
	return hex.DecodeString(strings.ReplaceAll(inner, `\x`, ""))
}
