package powercut

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// script reads a trace made by hand. Quoted strings are plain, for people; straced makes them
// what strace -xx prints. Every line belongs to thread 1 unless it begins with a number.
func script(t *testing.T, lines ...string) *trace {
	t.Helper()
	return sessions(t, lines)
}

// sessions reads the traces of processes that ran one after another.
func sessions(t *testing.T, traces ...[]string) *trace {
	t.Helper()
	tr, v := newTrace("/disk")
	processes := make([][]call, len(traces)+1)
	ends := make([]int, len(traces))
	end := 0
	for i, lines := range traces {
		text := make([]string, len(lines))
		for i, line := range lines {
			if line[0] < '0' || line[0] > '9' {
				line = "1 " + line
			}
			text[i] = straced(line)
		}
		calls, n, err := readCalls(strings.NewReader(strings.Join(text, "\n")+"\n"), end)
		require.NoError(t, err)
		end += n
		processes[i], ends[i] = calls, end
	}
	for i, end := range ends {
		require.NoError(t, tr.add(v, processes[i], end, "99", processes[i+1]))
	}
	return tr
}

func straced(line string) string {
	parts := strings.Split(line, `"`)
	for i := 1; i < len(parts); i += 2 {
		var b strings.Builder
		for _, c := range []byte(strings.ReplaceAll(parts[i], `\r\n`, "\r\n")) {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
		parts[i] = b.String()
	}
	return strings.Join(parts, `"`)
}

func TestReadCalls(t *testing.T) {
	calls, lines, err := readCalls(strings.NewReader(straced(`10 openat(AT_FDCWD, "/disk/a", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 3
10 pwrite64(3, "hello", 5, 7 <unfinished ...>
11 read(4, 0xc000, 512)      = -1 EAGAIN (Resource temporarily unavailable)
11 write(5, "lost", 4 <unfinished ...>
10 <... pwrite64 resumed>) = 4
10 writev(5, [{iov_base="ab", iov_len=2}, {iov_base="cd", iov_len=2}], 2) = 3
12 fsync(3 <unfinished ...>
12 <... fsync resumed> <unfinished ...>) = ?
12 +++ killed by SIGKILL +++
13 ???( <detached ...>
14 unlink("/disk/a" <detached ...>
`)), 100)
	require.NoError(t, err)
	require.Equal(t, 11, lines)
	var names []string
	for _, c := range calls {
		names = append(names, c.name)
	}
	slices.Sort(names[4:]) // those that never returned
	require.Equal(t, []string{"openat", "read", "pwrite64", "writev", "fsync", "unlink", "write"}, names)
	require.Equal(t, []int{101, 104}, []int{calls[2].enter, calls[2].exit}, "a call lasts from its beginning to its return")
	data, err := calls[2].bytes(1)
	require.NoError(t, err)
	require.Equal(t, "hell", string(data), "four of five bytes were written")
	require.Equal(t, "EAGAIN", calls[1].failed)
	data, err = calls[3].bytes(1)
	require.NoError(t, err)
	require.Equal(t, "abc", string(data))
	require.Equal(t, []int{never, never, never}, []int{calls[4].exit, calls[5].exit, calls[6].exit})
	data, err = calls[4].bytes(1)
	require.NoError(t, err)
	require.Equal(t, "lost", string(data), "nobody knows how much of it")
}

// strace shows the result of another thread for a call that a kill interrupts.
func TestImpossibleResultsAreNone(t *testing.T) {
	for _, text := range []string{
		`1 read(13, "/", 1024) = 18446744073709551615`,
		`1 rename("/disk/a", "/disk/b") = 32768`,
		`1 fsync(3) = 4`,
	} {
		calls, _, err := readCalls(strings.NewReader(straced(text)+"\n"), 0)
		require.NoError(t, err)
		require.Equal(t, never, calls[0].exit, text)
		require.Zero(t, calls[0].ret, text)
	}
}

func TestReadCallsRefuses(t *testing.T) {
	for _, text := range []string{"1 <... write resumed>) = 4\n", "1 nothing\n", "1 write(3) = five\n"} {
		_, _, err := readCalls(strings.NewReader(text), 0)
		require.Error(t, err, text)
	}
	c := call{name: "write", args: []string{"3", `"\x61"`}, ret: 32768}
	data, err := c.bytes(1)
	require.NoError(t, err, "the result of another thread, when the process was killed")
	require.Equal(t, "a", string(data))
	c = call{name: "write", args: []string{`"\x61"...`}, ret: 1}
	_, err = c.bytes(0)
	require.ErrorContains(t, err, "not a whole string", "strace cut it off")
}

// What the replay does not know must not look as if it had not happened.
func TestTheReplayRefusesWhatItDoesNotModel(t *testing.T) {
	for _, last := range []string{
		`fallocate(3, 0, 0, 4096) = 0`,
		`linkat(AT_FDCWD, "/disk/a", AT_FDCWD, "/disk/b", 0) = 0`,
		`rename("/elsewhere/a", "/disk/a") = 0`,
		`unlink("/disk/never") = 0`,
		`chdir("/disk") = 0`,
	} {
		tr, v := newTrace("/disk")
		text := straced("1 openat(AT_FDCWD, \"/disk/a\", O_RDWR|O_CREAT, 0600) = 3\n1 " + last + "\n")
		calls, n, err := readCalls(strings.NewReader(text), 0)
		require.NoError(t, err)
		require.Error(t, tr.add(v, calls, n, "99", nil), last)
	}
	script(t, `fallocate(3, 0, 0, 4096) = 0`, `rename("/elsewhere/a", "/elsewhere/b") = 0`) // none of our files
}

func TestDescriptors(t *testing.T) {
	tr := script(t,
		`mkdirat(AT_FDCWD, "/disk/d", 0700) = 0`,
		`openat(AT_FDCWD, "/disk/d", O_RDONLY|O_CLOEXEC) = 3`,
		`openat(3, "f", O_RDWR|O_CREAT|O_APPEND, 0600) = 4`,
		`write(4, "one", 3) = 3`,
		`fcntl(4, F_DUPFD_CLOEXEC, 0) = 5`,
		`close(4) = 0`,
		`write(5, "two", 3) = 3`,
		`ftruncate(5, 4) = 0`,
		`pwrite64(5, "!", 1, 6) = 1`,
		`close(5) = 0`,
		`openat(AT_FDCWD, "/elsewhere", O_RDWR|O_CREAT, 0600) = 5`,
		`write(5, "not ours", 8) = 8`,
		`renameat(AT_FDCWD, "/disk/d/f", AT_FDCWD, "/disk/g") = 0`,
		`unlinkat(AT_FDCWD, "/disk/d", AT_REMOVEDIR) = 0`,
	)
	require.Equal(t, map[string]string{"g": "onet\x00\x00!"}, files(tr.whole()))
}

// A thread closes a descriptor, and another one gets its number before the close returns.
func TestADescriptorIsFreeWhenItsCloseBegins(t *testing.T) {
	tr := script(t,
		`openat(AT_FDCWD, "/disk/a", O_RDWR|O_CREAT, 0600) = 3`,
		`close(3 <unfinished ...>`,
		`2 openat(AT_FDCWD, "/disk/b", O_RDWR|O_CREAT, 0600) = 3`,
		`<... close resumed>) = 0`,
		`2 write(3, "data", 4) = 4`,
	)
	require.Equal(t, map[string]string{"a": "", "b": "data"}, files(tr.whole()))
}

// A thread opens a folder, and another one has removed or renamed it before the open
// returns, as the broker does with a batch whose folder gets its attribute.
func TestAnOpenMayComeBeforeWhatItOverlaps(t *testing.T) {
	made := []string{`mkdirat(AT_FDCWD, "/disk/d", 0700) = 0`, `mkdirat(AT_FDCWD, "/disk/d/e", 0700) = 0`}
	opened := `<... openat resumed>) = 3`
	for _, path := range []string{"/disk/d/e", "/disk/d"} {
		begun := `openat(AT_FDCWD, "` + path + `", O_RDONLY|O_CLOEXEC <unfinished ...>`
		removed := []string{`2 unlinkat(AT_FDCWD, "/disk/d/e", AT_REMOVEDIR) = 0`, `2 unlinkat(AT_FDCWD, "/disk/d", AT_REMOVEDIR) = 0`}
		tr := script(t, slices.Concat(made, []string{begun}, removed, []string{opened, `fsync(3) = 0`})...)
		require.Empty(t, files(tr.whole()))
		require.Equal(t, syncOp, tr.ops[len(tr.ops)-1].kind, "the open file is the removed folder")
		script(t, slices.Concat(made, []string{begun, `2 rename("/disk/d", "/disk/.d") = 0`, opened})...)

		late, v := newTrace("/disk")
		text := "1 " + strings.Join(slices.Concat(made, []string{removed[0][2:], removed[1][2:], begun, opened}), "\n1 ") + "\n"
		calls, n, err := readCalls(strings.NewReader(straced(text)), 0)
		require.NoError(t, err)
		require.ErrorContains(t, late.add(v, calls, n, "99", nil), "does not exist in the replay", "it was gone before the open began")
	}
}

// A broker finds what a killed one wrote and did not sync. It must sync that before it
// confirms anything, because it builds on it.
func TestABrokerSyncsWhatItFinds(t *testing.T) {
	killed := []string{
		`openat(AT_FDCWD, "/disk/1.blk", O_RDWR|O_CREAT, 0600) = 3`,
		`fsync(3) = 0`,
		`openat(AT_FDCWD, "/disk", O_RDONLY) = 4`,
		`fsync(4) = 0`,
		`write(3, "found", 5) = 5`,
	}
	next := []string{`openat(AT_FDCWD, "/disk/1.blk", O_RDWR) = 3`, `fsync(3) = 0`, `write(3, "new", 3) = 3`}
	confirmed := func(tr *trace) error {
		tr.events = []event{{line: tr.lines, stream: "S", seq: 1}}
		return tr.checkStarts()
	}
	require.NoError(t, confirmed(sessions(t, killed, next)))
	require.ErrorContains(t, confirmed(sessions(t, killed, append(next[:1:1], next[2]))), "start 2 of the broker")
	require.NoError(t, confirmed(sessions(t, killed[:4], append(next[:1:1], next[2]))), "nothing was left")
}

// A write that was under way when its process was killed is done by then, and synced by
// the next process. An fsync that was under way has kept nothing.
func TestAKilledProcess(t *testing.T) {
	killed := func(last ...string) []string {
		return append([]string{`openat(AT_FDCWD, "/disk/a", O_RDWR|O_CREAT|O_SYNC, 0600) = 3`, `openat(AT_FDCWD, "/disk", O_RDONLY) = 4`, `fsync(4) = 0`}, last...)
	}
	next := []string{`openat(AT_FDCWD, "/disk/a", O_RDWR) = 3`, `fsync(3) = 0`}
	tr := sessions(t, killed(`write(3, "data", 4 <unfinished ...>`), next)
	for _, m := range models() {
		require.Equal(t, map[string]string{"a": ""}, left(tr, m, 4))
		require.Equal(t, map[string]string{"a": "data"}, left(tr, m, 5))
	}
	tr = sessions(t, killed(`fsync(3 <unfinished ...>`), nil)
	require.Equal(t, never, tr.ops[len(tr.ops)-1].exit)
}

// Whether a name came or went with the call that a kill interrupted, the next process shows:
// it opens all that it finds.
func TestTheNextProcessShowsWhatAKillLeft(t *testing.T) {
	made := []string{`mkdirat(AT_FDCWD, "/disk/d", 0700) = 0`, `openat(AT_FDCWD, "/disk/d/f", O_RDWR|O_CREAT, 0600) = 3`}
	finds := []string{`openat(AT_FDCWD, "/disk/d", O_RDONLY|O_CLOEXEC) = 3`, `openat(AT_FDCWD, "/disk/d/f", O_RDWR) = 4`, `openat(AT_FDCWD, "/disk/d/g", O_RDWR) = 5`}
	makes := []string{`mkdirat(AT_FDCWD, "/disk/d", 0700) = 0`, `openat(AT_FDCWD, "/disk/d/f", O_RDWR|O_CREAT, 0600) = 3`, finds[0], finds[1]}
	failed := []string{`openat(AT_FDCWD, "/disk/d/f", O_RDWR) = -1 ENOENT (No such file or directory)`, makes[1]}
	moved := `rename("/disk/d", "/disk/.d" <unfinished ...>`
	created := `openat(AT_FDCWD, "/disk/d/g", O_RDWR|O_CREAT, 0600 <unfinished ...>`
	unlinked := `unlinkat(AT_FDCWD, "/disk/d/f", 0 <unfinished ...>`
	for _, c := range []struct {
		last string
		next []string
		want map[string]string
	}{
		{moved, finds[:2], map[string]string{"d": "/", "d/f": ""}},
		{moved, makes, map[string]string{".d": "/", ".d/f": "", "d": "/", "d/f": ""}},
		{moved, nil, map[string]string{".d": "/", ".d/f": ""}},
		{unlinked, finds[:1], map[string]string{"d": "/"}},
		{unlinked, finds[:2], map[string]string{"d": "/", "d/f": ""}},
		{created, finds, map[string]string{"d": "/", "d/f": "", "d/g": ""}},
		{created, finds[:2], map[string]string{"d": "/", "d/f": ""}},
		{unlinked, failed, map[string]string{"d": "/", "d/f": ""}},
	} {
		tr := sessions(t, append(slices.Clone(made), c.last), c.next)
		require.Equal(t, c.want, files(tr.whole()), "%s, then %s", c.last, c.next)
	}
}

// files returns what can be reached, and folders as "/".
func files(d *disk) map[string]string {
	got := make(map[string]string)
	_ = d.each(func(path string, ino int) error {
		got[path] = string(d.files[ino])
		if d.t.inodes[ino].dir {
			got[path] = "/"
		}
		return nil
	})
	return got
}
