package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// straced is how strace counts a process's fsyncs and slows them down, those of its
// children included.
type straced struct {
	out   string // strace's lines
	delay fsyncDelay
}

// wrap returns the command that runs a command under strace.
func (s straced) wrap(command ...string) []string {
	// -D: the program stays our own child, strace is its grandchild.
	prefix := []string{"strace", "-D", "-f", "--seccomp-bpf", "-q", "-ttt", "-y", "-e", "signal=none", "-e", "trace=fsync,fdatasync", "-o", s.out}
	if s.delay > 0 {
		prefix = append(prefix, "-e", fmt.Sprintf("inject=fsync,fdatasync:delay_exit=%d", time.Duration(s.delay).Microseconds()))
	}
	return append(prefix, command...)
}

// syncLine is the beginning of an fsync, and not the rest of one that another thread's
// line interrupted.
var syncLine = regexp.MustCompile(`(?m)^\d+ +(\d+\.\d+) f(?:data)?sync\(\d+<([^>]*)>`)

// count returns the fsyncs between two moments, by what was synced below root. It waits
// until strace has written its last line, about the end of the process pid.
func (s straced) count(pid int, from, to time.Time, root string) (map[string]float64, error) {
	var text []byte
	last := regexp.MustCompile(fmt.Sprintf(`(?m)^%d .*\+\+\+ (exited|killed)`, pid))
	for end := time.Now().Add(stopTimeout); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if text, err = os.ReadFile(s.out); err != nil {
			return nil, err
		}
		if last.Match(text[max(0, len(text)-10_000):]) {
			break
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("strace did not end within %s", stopTimeout)
		}
	}
	counts := make(map[string]float64)
	for _, m := range syncLine.FindAllSubmatch(text, -1) {
		at, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return nil, err
		}
		if at >= seconds(from) && at <= seconds(to) {
			counts[syncedPart(string(m[2]), root)]++
		}
	}
	return counts, nil
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// syncedPart names a stream, or the file or folder in root that a path lies in.
func syncedPart(path, root string) string {
	rest := strings.TrimPrefix(path, root+string(filepath.Separator))
	if _, stream, ok := strings.Cut(path, "/streams/"); ok {
		rest = stream
	}
	if path == root {
		return "folder"
	}
	part, _, _ := strings.Cut(rest, "/")
	return part
}

// checkStrace says what is missing if strace cannot trace a process here.
func checkStrace(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=none", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("strace does not work here: install it (apt-get install strace) and allow ptrace: %w%s", err, bytes.TrimSpace(out))
	}
	return nil
}
