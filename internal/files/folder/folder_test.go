package folder

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orderpost/internal/testing/smalldisk"
)

var rules = Rules{Settle: time.Second, Still: 10 * time.Second, Ignore: []string{"enqueue.flags"}}

func open(t *testing.T, dir string) *Folder {
	t.Helper()
	f, err := Open(dir, nil)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

func write(t *testing.T, path ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(path[:len(path)-1]...), []byte(path[len(path)-1]), 0o640))
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

// looks looks at a folder, after a first look, when so much time has passed.
func looks(t *testing.T, f *Folder, r Rules, after time.Duration) (names []string, found []Found, waits map[string]string) {
	t.Helper()
	now := time.Now()
	_, _, err := f.Look(now, r)
	require.NoError(t, err)
	found, waits, err = f.Look(now.Add(after), r)
	require.NoError(t, err)
	for _, one := range found {
		names = append(names, one.Name)
	}
	return names, found, waits
}

// take takes the only file.
func take(t *testing.T, f *Folder) *Job {
	t.Helper()
	_, found, _ := looks(t, f, rules, rules.Settle)
	require.Len(t, found, 1)
	j, err := f.Take(t.Context(), found[0], nil)
	require.NoError(t, err)
	return j
}

func TestWhatIsComplete(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	for _, name := range []string{".hidden.csv", "a.tmp", "b.PART", "c.csv.partial", "d.filepart", "~$book.xlsx", "enqueue.flags"} {
		write(t, dir, name, "x")
	}
	write(t, dir, "good.csv", "x")
	write(t, dir, "empty.csv", "")
	write(t, dir, "a\nb.csv", "x")
	write(t, dir, "\xff.csv", "x")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o750))
	require.NoError(t, os.Symlink("good.csv", filepath.Join(dir, "link.csv")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.csv"), 0o600))

	names, _, _ := looks(t, f, rules, rules.Settle-1)
	require.Empty(t, names)
	names, found, _ := looks(t, f, rules, rules.Settle)
	require.ElementsMatch(t, []string{"good.csv", "link.csv", "pipe.csv", "a\nb.csv", "\xff.csv"}, names, "the empty one may get its rows yet")
	for _, one := range found {
		require.Equal(t, one.Name != "good.csv", one.Why != "", one.Name)
	}
	names, _, _ = looks(t, f, rules, rules.Still)
	require.Contains(t, names, "empty.csv")

	// A file that grows begins anew.
	write(t, dir, "good.csv", "xy")
	names, _, _ = looks(t, f, rules, rules.Settle-1)
	require.NotContains(t, names, "good.csv")
}

// TestEndings: programs write files under names of their own, closed between two pieces. Only a
// known ending says that a file is complete, or a marker.
func TestEndings(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	half := []string{"a.csv.crdownload", "b.csv.6eF5b2A1", "c.csv_.gstmp", "d.csv.gstmp", "e", "f.csv.download", "g.csv.opdownload", "h.csv~", "i.csv.swp", "j.csv.partial.1", "k.csv.!ut",
		"l.csv.aria2", "m.csv.bak", "n.csv.gz.part2", "csv", "o.gz", "p.csv.gz.gz.x", "q.csvx"}
	whole := []string{"a.csv", "B.CSV", "c.csv.gz", "d.ndjson.ZST", "e.f.csv"}
	for _, name := range append(half, whole...) {
		write(t, dir, name, "x")
	}
	r := rules
	r.Endings = []string{"csv", "ndjson"}
	names, _, waits := looks(t, f, r, tellAfter)
	require.ElementsMatch(t, whole, names)
	require.Len(t, waits, len(half))
	for _, name := range half {
		require.Equal(t, "its name has none of the endings of complete files (csv, ndjson): rename it, or name its ending (--endings)", waits[name], name)
	}
	write(t, dir, "e.ok", "")
	r.Marker = ".ok"
	names, _, _ = looks(t, f, r, r.Settle)
	require.Equal(t, []string{"e"}, names, "its marker says that it is complete")
}

// A file that a program has open for writing is not complete, however long it does not change.
func TestAnOpenFileIsNotComplete(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	write(t, dir, "a.csv", "x")
	w, err := os.OpenFile(filepath.Join(dir, "a.csv"), os.O_WRONLY, 0)
	require.NoError(t, err)
	if writerOf(w) == writerUnknown {
		t.Log("NOT TRIED: this file system does not tell who writes")
	}
	names, _, waits := looks(t, f, rules, time.Hour)
	require.Empty(t, names)
	require.Equal(t, map[string]string{"a.csv": "a program has it open for writing"}, waits)
	require.NoError(t, w.Close())
	names, _, _ = looks(t, f, rules, rules.Settle)
	require.Equal(t, []string{"a.csv"}, names)
}

// as runs do on a thread that has the rights of another user for files.
func as(t *testing.T, uid int, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Log("NOT TRIED as another user, which needs root")
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with the goroutine
		_, _ = unix.SetfsuidRetUid(uid)
		none := [2]unix.CapUserData{}
		if !assert.NoError(t, unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])) {
			return
		}
		do()
	}()
	<-done
}

// The file of another user: the system does not tell who writes it, so it must not change for
// longer. One that cannot be read is refused.
func TestAFileOfAnotherUser(t *testing.T) {
	dir, closed := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	f := open(t, dir)
	write(t, dir, "theirs.csv", "x")
	require.NoError(t, os.Chmod(filepath.Join(dir, "theirs.csv"), 0o644))
	write(t, dir, "secret.csv", "x")
	require.NoError(t, os.Chmod(filepath.Join(dir, "secret.csv"), 0o600))
	as(t, 65534, func() {
		names, _, _ := looks(t, f, rules, rules.Still-1)
		require.Empty(t, names)
		names, found, _ := looks(t, f, rules, rules.Still)
		require.ElementsMatch(t, []string{"theirs.csv", "secret.csv"}, names)
		for _, one := range found {
			require.Equal(t, one.Name == "secret.csv", strings.Contains(one.Why, "it cannot be read: the user of orderpost watch has no right to"), one.Why)
		}
		_, err := Open(closed, nil)
		require.ErrorIs(t, err, fs.ErrPermission)
	})
}

func TestAMarkerMakesAFileComplete(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	r := rules
	r.Marker = ".ok"
	write(t, dir, "a.csv", "x")
	write(t, dir, "b.csv.ok", "")
	names, _, waits := looks(t, f, r, time.Hour)
	require.Empty(t, names)
	require.Equal(t, map[string]string{"a.csv": "its marker a.csv.ok is not there"}, waits)
	write(t, dir, "a.csv.ok", "")
	_, found, _ := looks(t, f, r, 0)
	require.Len(t, found, 1)
	j, err := f.Take(t.Context(), found[0], nil)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, "a.csv.ok"), "it would make the next file of this name complete")

	// The marker of the next version, which came while a killed process had not removed the first.
	write(t, dir, "a.csv.ok", "")
	require.NoError(t, os.Chtimes(filepath.Join(dir, "a.csv.ok"), time.Now(), time.Now().Add(time.Minute)))
	require.NoError(t, j.unmark())
	require.FileExists(t, filepath.Join(dir, "a.csv.ok"))
}

// What happens to a file between the looks, the copy and the move.
func TestAFileThatChanges(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	path := filepath.Join(dir, "a.csv")
	write(t, path, "one")
	_, found, _ := looks(t, f, rules, rules.Settle)

	write(t, path, "one, grown")
	_, err := f.Take(t.Context(), found[0], nil)
	require.ErrorIs(t, err, ErrChanged, "it grew before the copy")
	require.NoError(t, os.Remove(path))
	_, err = f.Take(t.Context(), found[0], nil)
	require.ErrorIs(t, err, ErrChanged, "it vanished before the copy")
	require.Empty(t, f.Open())

	// It vanishes after the copy: the copy moves.
	write(t, path, "two")
	j := take(t, f)
	require.NoError(t, os.Remove(path))
	require.NoError(t, j.Store("batch"))
	require.NoError(t, j.Place())
	require.Equal(t, "two", read(t, dir, "done", "a.csv"))
	require.NoError(t, j.End())

	// Another one comes under its name after the copy: the copy moves, and the other one stays.
	write(t, path, "three")
	j = take(t, f)
	write(t, path, "four, of the same name")
	names, _, _ := looks(t, f, rules, time.Hour)
	require.Empty(t, names, "one after the other")
	require.NoError(t, j.Store("batch"))
	require.NoError(t, j.Place())
	require.Equal(t, "three", read(t, dir, "done", "a.2.csv"))
	require.NoError(t, j.End())
	j = take(t, f)
	require.NoError(t, j.Refuse("why"))
	require.NoError(t, j.Place())
	require.Equal(t, "four, of the same name", read(t, dir, "refused", "a.csv"))
	require.Equal(t, "why\n", read(t, dir, "refused", "a.csv.why.txt"))
	require.NoError(t, j.End())

	// A program writes to it in the moment in which it moves: it goes back.
	write(t, path, "five")
	j = take(t, f)
	require.NoError(t, j.Store("batch"))
	f.disk.step = func(step string) {
		if strings.HasPrefix(step, "before rename a.csv") {
			write(t, path, "five, grown")
		}
	}
	require.NoError(t, j.Place())
	f.disk.step = nil
	require.Equal(t, "five", read(t, dir, "done", "a.3.csv"))
	require.Equal(t, "five, grown", read(t, path))
	require.NoError(t, os.Remove(path))
	require.NoError(t, j.End())

	// It changes in done/: the one who ends the job is told.
	write(t, path, "six")
	j = take(t, f)
	require.NoError(t, j.Store("batch"))
	require.NoError(t, j.Place())
	write(t, dir, j.Target, "six, grown")
	changed, err := j.Finish("results.csv", func(w io.Writer) error { _, err := io.WriteString(w, "r"); return err })
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "r", read(t, dir, "done", "a.4.csv.results.csv"))
	require.Empty(t, f.Placed())
}

// No file in done/ or refused/ is replaced, whatever files are called.
func TestNamesThatAreTaken(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	free := func(name string) string {
		got, err := f.free(Done, name)
		require.NoError(t, err)
		return got
	}
	for _, name := range []string{"a.csv", "b.csv.results.xlsx", "c", "c.2"} {
		write(t, dir, Done, name, "x")
	}
	long := strings.Repeat("ä", 110)
	for name, want := range map[string]string{"a.csv": "a.2.csv", "b.csv": "b.2.csv", "c": "c.3", "d.csv.gz": "d.csv.gz", "e.csv.results.csv": "e.csv.results.2.csv",
		"f.csv.rejects.csv": "f.csv.rejects.2.csv", "g.csv.why.txt": "g.csv.why.2.txt", long + ".csv": long[:196] + ".csv", "x." + strings.Repeat("y", 220): "x." + strings.Repeat("y", 198)} {
		require.Equal(t, want, free(name), name)
	}
	back, err := f.free(".", "e.csv.results.csv")
	require.NoError(t, err)
	require.Equal(t, "e.csv.results.csv", back)
}

func TestOnlyOneProcess(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	_, err := Open(dir, nil)
	require.ErrorIs(t, err, ErrInUse)
	f.Close()
	open(t, dir)
}

// Links lead nowhere: not done/, not the flags, not a file that becomes one after it was seen.
func TestLinksLeadNowhere(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, other, "secret", "order_no")
	require.NoError(t, os.Symlink(other, filepath.Join(dir, Done)))
	_, err := Open(dir, nil)
	require.ErrorContains(t, err, "done is no folder; move it away, or make it one (for another file system, mount it there: a link is not followed)")
	require.NoError(t, os.Remove(filepath.Join(dir, Done)))
	f := open(t, dir)
	require.NoError(t, os.Symlink(filepath.Join(other, "secret"), filepath.Join(dir, "enqueue.flags")))
	for _, name := range []string{"enqueue.flags", filepath.Join("..", filepath.Base(other), "secret"), filepath.Join(other, "secret")} {
		_, err = f.ReadFile(name)
		require.Error(t, err, name)
	}
	write(t, dir, "a.csv", "x")
	_, found, _ := looks(t, f, rules, rules.Settle)
	require.NoError(t, os.Remove(filepath.Join(dir, "a.csv")))
	require.NoError(t, os.Symlink(filepath.Join(other, "secret"), filepath.Join(dir, "a.csv")))
	_, err = f.Take(t.Context(), found[0], nil)
	require.ErrorIs(t, err, ErrChanged)
}

// A disk that is full: nothing is taken, and the file is taken when there is room.
func TestAFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk, err := smalldisk.Mount(dir, 1<<20)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		t.Log("NOT TRIED: a full disk, which needs the right to mount")
		return
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, disk.Unmount()) })
	f := open(t, dir)
	write(t, dir, "a.csv", strings.Repeat("x", 700<<10))
	_, found, _ := looks(t, f, rules, rules.Settle)
	_, err = f.Take(t.Context(), found[0], nil)
	require.ErrorIs(t, err, syscall.ENOSPC)
	entries, err := os.ReadDir(filepath.Join(dir, state))
	require.NoError(t, err)
	require.Len(t, entries, 1, "the lock alone: half a copy takes no room")
	require.NoError(t, disk.Resize(4<<20))
	j := take(t, f)
	require.NoError(t, j.Store("batch"))
	require.NoError(t, j.Place())
	require.FileExists(t, filepath.Join(dir, Done, "a.csv"))
}

// What a killed process left is found, in the order in which it was taken. A record that nobody
// can read costs no other file.
func TestRecover(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	for _, name := range []string{"b.csv", "a.csv"} {
		write(t, dir, name, name)
		take(t, f)
	}
	write(t, dir, Done, temporary+"left", "half")
	require.NoError(t, os.Mkdir(filepath.Join(dir, state, "0123"+part), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, state, "4567"), 0o700))
	write(t, dir, state, "4567", recordFile, "{")
	f.Close()
	f = open(t, dir)
	names := make([]string, 0, 2)
	for _, j := range f.Open() {
		names = append(names, j.Name)
	}
	require.Equal(t, []string{"b.csv", "a.csv"}, names)
	require.Len(t, f.Unreadable(), 1)
	require.ErrorContains(t, f.Unreadable()[0], "4567 cannot be read and is left alone")
	require.NoFileExists(t, filepath.Join(dir, Done, temporary+"left"))
	require.NoDirExists(t, filepath.Join(dir, state, "0123"+part))
	require.False(t, slices.ContainsFunc(f.Open(), func(j *Job) bool { return j.Placed }))
	names, _, _ = looks(t, f, rules, time.Hour)
	require.Empty(t, names, "they are taken already")
}

// TestARefusalAfterwards: a file in done/ moves to refused/, whatever step a kill comes at, and
// one that somebody changed there stays.
func TestARefusalAfterwards(t *testing.T) {
	type killed struct{}
	steps := 0
	for at := 1; ; at++ {
		dir := t.TempDir()
		var left int
		f, err := Open(dir, func(name string) {
			if left > 0 && !strings.HasPrefix(name, "after ") {
				if left--; left == 0 {
					panic(killed{})
				}
			}
		})
		require.NoError(t, err)
		write(t, dir, "a.csv", "x\n")
		changed := at%2 == 0
		j := take(t, f)
		require.NoError(t, j.Beside(RejectsEnding+"csv", func(w io.Writer) error { _, err := io.WriteString(w, "bad\n"); return err }))
		require.NoError(t, j.Store("march"))
		require.NoError(t, j.Place())
		require.Len(t, f.Placed(), 1)
		if changed {
			write(t, dir, "done", "a.csv", "mine\n")
		}
		whole := func() (died bool) {
			defer func() {
				if r := recover(); r != nil {
					require.Equal(t, killed{}, r)
					died = true
				}
			}()
			require.NoError(t, j.Beside(ResultsEnding+"csv", func(w io.Writer) error { _, err := io.WriteString(w, "cancelled\n"); return err }))
			require.NoError(t, j.Recall("bob refused it"))
			require.NoError(t, j.Place())
			require.NoError(t, j.End())
			return false
		}
		left = at
		write(t, dir, "a.csv", "another one\n") // with the same name, for the next look
		died := whole()
		f.Close()
		f = open(t, dir)
		for _, j := range f.Placed() { // it was not recalled yet
			require.NoError(t, j.Beside(ResultsEnding+"csv", func(w io.Writer) error { _, err := io.WriteString(w, "cancelled\n"); return err }))
			require.NoError(t, j.Recall("bob refused it"))
		}
		for _, j := range f.Open() {
			if !j.Placed {
				require.NoError(t, j.Place())
			}
			require.NoError(t, j.End())
		}
		require.Empty(t, append(f.Open(), f.Placed()...))
		require.Equal(t, "another one\n", read(t, dir, "a.csv"))
		for name, text := range map[string]string{"a.csv": "x\n", "a.csv.why.txt": "bob refused it\n", "a.csv.results.csv": "cancelled\n", "a.csv.rejects.csv": "bad\n"} {
			require.Equal(t, text, read(t, dir, "refused", name), "killed before step %d", at)
		}
		if changed {
			require.Equal(t, "mine\n", read(t, dir, "done", "a.csv"))
		} else {
			require.NoFileExists(t, filepath.Join(dir, "done", "a.csv"))
		}
		entries, err := os.ReadDir(filepath.Join(dir, "refused"))
		require.NoError(t, err)
		require.Len(t, entries, 4)
		f.Close()
		if steps++; !died && !changed {
			break
		}
	}
	require.Greater(t, steps, 15)
}
