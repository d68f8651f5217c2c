package powercut

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// left returns what is on the disk if nothing survives that is not certain.
func left(tr *trace, m model, cut int) map[string]string {
	return files(tr.build(tr.bare(m, cut)))
}

// open names what a power cut may undo.
func open(tr *trace, m model, cut int) (names []string) {
	ops, _ := tr.pending(m, cut)
	for _, o := range ops {
		names = append(names, tr.ops[o].text)
	}
	return names
}

// A new file is written and synced. POSIX does not promise its name; ext4 and XFS log it
// before the sync returns.
func TestFsyncOfANewFile(t *testing.T) {
	tr := script(t,
		`openat(AT_FDCWD, "/disk/a", O_RDWR|O_CREAT, 0600) = 3`, // 0
		`pwrite64(3, "data", 4, 0) = 4`,                         // 1
		`fsync(3) = 0`,                                          // 2
		`openat(AT_FDCWD, "/disk", O_RDONLY) = 4`,               // 3
		`fsync(4) = 0`,                                          // 4
	)
	require.Equal(t, []string{"create a", "write a, 4 bytes at 0"}, open(tr, strict, 1))
	require.Equal(t, []string{"create a"}, open(tr, strict, 2))
	require.Empty(t, left(tr, strict, 3), "the name is not promised")
	require.Equal(t, map[string]string{"a": "data"}, left(tr, journal, 2))
	require.Empty(t, open(tr, journal, 2))
	require.Equal(t, map[string]string{"a": "data"}, left(tr, strict, 4))
}

// A file that is opened with O_SYNC is synced when the write returns; its name is not.
// A rename is kept by a sync of the folder.
func TestRenameBeforeItsData(t *testing.T) {
	tr := script(t,
		`openat(AT_FDCWD, "/disk/f", O_WRONLY|O_CREAT|O_SYNC, 0600) = 3`, // 0
		`write(3, "old", 3) = 3`,                  // 1
		`openat(AT_FDCWD, "/disk", O_RDONLY) = 5`, // 2
		`fsync(5) = 0`,                            // 3
		`openat(AT_FDCWD, "/disk/f.tmp", O_WRONLY|O_CREAT|O_TRUNC, 0600) = 4`, // 4
		`write(4, "new", 3) = 3`,                                     // 5
		`renameat(AT_FDCWD, "/disk/f.tmp", AT_FDCWD, "/disk/f") = 0`, // 6
		`fsync(5) = 0`, // 7
	)
	require.Equal(t, map[string]string{"f": "old"}, left(tr, strict, 6))
	require.Equal(t, []string{"create f.tmp", "write f.tmp, 3 bytes at 0", "rename f.tmp to f"}, open(tr, strict, 6))
	require.Equal(t, map[string]string{"f": ""}, left(tr, strict, 7), "the folder was synced and the file was not")
	require.Equal(t, map[string]string{"f": ""}, left(tr, journal, 7))
}

// A removal may be undone until its folder is synced; a sync of another file keeps it
// where names are logged.
func TestAnUndoneRemoval(t *testing.T) {
	tr := script(t,
		`openat(AT_FDCWD, "/disk/a", O_RDWR|O_CREAT, 0600) = 3`, // 0
		`openat(AT_FDCWD, "/disk/b", O_RDWR|O_CREAT, 0600) = 4`, // 1
		`openat(AT_FDCWD, "/disk", O_RDONLY) = 5`,               // 2
		`fsync(5) = 0`,                         // 3
		`unlinkat(AT_FDCWD, "/disk/a", 0) = 0`, // 4
		`pwrite64(4, "b", 1, 0) = 1`,           // 5
		`fdatasync(4) = 0`,                     // 6
	)
	require.Equal(t, map[string]string{"a": "", "b": "b"}, left(tr, strict, 6))
	require.Equal(t, map[string]string{"b": "b"}, left(tr, journal, 6))
}

// A folder with dirsync writes each change of its names before the call returns. New
// folders in it inherit that.
func TestDirsync(t *testing.T) {
	tr := script(t,
		`mkdirat(AT_FDCWD, "/disk/d", 0700) = 0`,  // 0
		`openat(AT_FDCWD, "/disk", O_RDONLY) = 5`, // 1
		`fsync(5) = 0`, // 2
		`openat(AT_FDCWD, "/disk/d", O_RDONLY) = 6`,                           // 3
		`ioctl(6, FS_IOC_SETFLAGS, [FS_DIRSYNC_FL|FS_EXTENT_FL]) = 0`,         // 4
		`openat(AT_FDCWD, "/disk/d/a", O_RDWR|O_CREAT, 0600 <unfinished ...>`, // 5
		`<... openat resumed>) = 7`,                                           // 6
		`mkdirat(AT_FDCWD, "/disk/d/e", 0700) = 0`,                            // 7
		`openat(AT_FDCWD, "/disk/d/e/b", O_RDWR|O_CREAT, 0600) = 8`,           // 8
	)
	require.Equal(t, map[string]string{"d": "/"}, left(tr, strict, 5), "the call has not returned")
	require.Equal(t, map[string]string{"d": "/", "d/a": ""}, left(tr, strict, 6))
	require.Equal(t, map[string]string{"d": "/", "d/a": "", "d/e": "/", "d/e/b": ""}, left(tr, strict, 8))
}

// A sync covers what had returned when it began, and counts when it returns.
func TestASyncCoversWhatHadReturned(t *testing.T) {
	tr := script(t,
		`openat(AT_FDCWD, "/disk/a", O_RDWR|O_CREAT, 0600) = 3`, // 0
		`pwrite64(3, "1", 1, 0) = 1`,                            // 1
		`2 pwrite64(3, "2", 1, 1 <unfinished ...>`,              // 2
		`fsync(3 <unfinished ...>`,                              // 3
		`2 <... pwrite64 resumed>) = 1`,                         // 4
		`<... fsync resumed>) = 0`,                              // 5
	)
	require.Equal(t, map[string]string{}, left(tr, journal, 4))
	require.Equal(t, map[string]string{"a": "1"}, left(tr, journal, 5))
}

// A write that is under way may be on the disk, or parts of it: sectors of 512 bytes,
// and the new size with zeros.
func TestTornWrites(t *testing.T) {
	old, data := strings.Repeat("o", 700), strings.Repeat("n", 1500)
	tr := script(t,
		`openat(AT_FDCWD, "/disk/a", O_RDWR|O_CREAT|O_SYNC, 0600) = 3`,
		`pwrite64(3, "`+old+`", 700, 0) = 700`,
		`openat(AT_FDCWD, "/disk/a", O_RDWR) = 4`,
		`pwrite64(4, "`+data+`", 1500, 600) = 1500`,
	)
	ops, _ := tr.pending(journal, 3)
	require.Len(t, ops, 1)
	build := func(f fate) string {
		return files(tr.build(&state{model: journal, cut: 3, open: ops, fates: []fate{f}}))["a"]
	}
	require.Equal(t, old, build(fate{}))
	require.Equal(t, old[:600]+data, build(fate{kept: true}))
	// The write touches the sectors that begin at 512, 1024, 1536 and 2048.
	require.Equal(t, old[:600]+data[:424], build(fate{torn: true, sectors: 0b0001}))
	require.Equal(t, old+strings.Repeat("\x00", 324)+data[:512], build(fate{torn: true, sectors: 0b0010}))
	require.Equal(t, old+strings.Repeat("\x00", 1400), build(fate{torn: true, extended: true}), "the size without the data")
	require.Equal(t, old+strings.Repeat("\x00", 324)+data[:512]+strings.Repeat("\x00", 564), build(fate{torn: true, sectors: 0b0010, extended: true}))
}

func TestTruncateMayBeUndone(t *testing.T) {
	tr := script(t,
		`openat(AT_FDCWD, "/disk/a", O_RDWR|O_CREAT|O_SYNC, 0600) = 3`, // 0
		`write(3, "long", 4) = 4`,                                      // 1
		`openat(AT_FDCWD, "/disk/a", O_RDWR|O_TRUNC) = 4`,              // 2
		`write(4, "s", 1) = 1`,                                         // 3
	)
	require.Equal(t, []string{"truncate a to 0", "write a, 1 bytes at 0"}, open(tr, journal, 3))
	ops, _ := tr.pending(journal, 3)
	build := func(truncated, written bool) string {
		return files(tr.build(&state{model: journal, cut: 3, open: ops, fates: []fate{{kept: truncated}, {kept: written}}}))["a"]
	}
	require.Equal(t, []string{"long", "song", "", "s"}, []string{build(false, false), build(false, true), build(true, false), build(true, true)})
}

// The same seed draws the same state, and a log has no gaps in any of them.
func TestStatesAreDrawnBySeed(t *testing.T) {
	lines := []string{`openat(AT_FDCWD, "/disk", O_RDONLY) = 3`}
	for _, name := range strings.Split("abcdefgh", "") {
		lines = append(lines, `openat(AT_FDCWD, "/disk/`+name+`", O_RDWR|O_CREAT, 0600) = 4`, `write(4, "`+name+`", 1) = 1`)
	}
	tr := script(t, lines...)
	different := make(map[uint64]bool)
	for i := range uint64(300) {
		for _, m := range models() {
			var sums []uint64
			for range 2 {
				draw := rand.New(rand.NewPCG(1, i))
				s := tr.drawState(m, tr.drawCut(draw), draw)
				require.True(t, s.possible(tr), "state %d: the log has a gap", i)
				sums = append(sums, tr.build(s).sum())
			}
			require.Equal(t, sums[0], sums[1])
			if m == strict {
				different[sums[0]] = true
			}
		}
	}
	require.Greater(t, len(different), 50)
}

// A trace that does not explain the disk proves nothing.
func TestTheReplayIsComparedWithTheDisk(t *testing.T) {
	dir := t.TempDir()
	tr := script(t, `openat(AT_FDCWD, "/disk/a", O_RDWR|O_CREAT, 0600) = 3`, `write(3, "data", 4) = 4`)
	require.NoError(t, tr.whole().save(dir))
	require.NoError(t, tr.whole().compare(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), nil, 0o600))
	require.ErrorContains(t, tr.whole().compare(dir), "b is not in the replay")
	require.NoError(t, os.Remove(filepath.Join(dir, "b")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("date"), 0o600))
	require.ErrorContains(t, tr.whole().compare(dir), "they differ")
	require.NoError(t, os.Remove(filepath.Join(dir, "a")))
	require.Error(t, tr.whole().compare(dir))
}

// Whatever was confirmed before a sync returns must be there without that sync, and
// whatever the broker is asked to remove, until then.
func TestMoments(t *testing.T) {
	tr := script(t,
		`openat(AT_FDCWD, "/disk/a", O_RDWR|O_CREAT, 0600) = 3`, // 0
		`pwrite64(3, "1", 1, 0) = 1`,                            // 1
		`fsync(3 <unfinished ...>`,                              // 2
		`2 pwrite64(3, "2", 1, 1) = 1`,                          // 3
		`<... fsync resumed>) = 0`,                              // 4
		`pwrite64(3, "3", 1, 2) = 1`,                            // 5
		`fsync(3 <unfinished ...>`,                              // 6: it never returns
		`2 pwrite64(3, "4", 1, 3) = 1`,                          // 7
	)
	tr.events = []event{{line: 5, stream: "S", subject: "s", seq: 1}, {line: 7, stream: "S", seq: 1, removed: true}}
	require.Equal(t, []int{3, 6, tr.lines}, tr.moments())
	require.Equal(t, map[string]string{}, left(tr, strict, 3))
}

// A recording without a batch of results shows nothing about batches.
func TestARecordingHasBatches(t *testing.T) {
	lines := []string{`mkdirat(AT_FDCWD, "/disk/s", 0700) = 0`, `mkdirat(AT_FDCWD, "/disk/s/ORDERS_RESULTS", 0700) = 0`, `mkdirat(AT_FDCWD, "/disk/s/ORDERS_RESULTS/batches", 0700) = 0`}
	require.ErrorContains(t, script(t, lines...).checkBatches(), "no batch")
	require.NoError(t, script(t, append(lines, `mkdirat(AT_FDCWD, "/disk/s/ORDERS_RESULTS/batches/x", 0700) = 0`)...).checkBatches())
}

// What is below a link to a folder in memory is not on the disk, and a power cut leaves a link
// that leads nowhere.
func TestALinkLeadsOutOfTheDisk(t *testing.T) {
	tr := script(t,
		`mkdirat(AT_FDCWD, "/disk/ORDERS_RESULTS", 0700) = 0`,
		`symlinkat("/memory/results", AT_FDCWD, "/disk/ORDERS_RESULTS/batches") = 0`,
		`mkdirat(AT_FDCWD, "/disk/ORDERS_RESULTS/batches/x", 0700) = 0`,
		`openat(AT_FDCWD, "/disk/ORDERS_RESULTS/batches/x/1.blk", O_RDWR|O_CREAT, 0600) = 3`,
		`pwrite64(3, "1", 1, 0) = 1`,
		`fsync(3) = 0`,
		`openat(AT_FDCWD, "/disk/ORDERS_RESULTS/batches", O_RDONLY) = 4`,
		`openat(4, "x", O_RDONLY) = 5`,
		`renameat(AT_FDCWD, "/disk/ORDERS_RESULTS/batches/x", AT_FDCWD, "/disk/ORDERS_RESULTS/batches/.x") = 0`,
	)
	require.NoError(t, tr.checkBatches())
	require.Len(t, tr.ops, 2)
	dir := t.TempDir()
	require.NoError(t, tr.whole().save(dir))
	link := filepath.Join(dir, "ORDERS_RESULTS", "batches")
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Contains(t, to, "/memory/results")
	_, err = os.Stat(link)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, tr.whole().compare(dir), `"/memory/results"`)

	calls, n, err := readCalls(strings.NewReader(straced(`1 symlink("a", "/disk/b") = 0`)+"\n"), 0)
	require.NoError(t, err)
	within, v := newTrace("/disk")
	require.ErrorContains(t, within.add(v, calls, n, "", nil), "not modelled")
}
