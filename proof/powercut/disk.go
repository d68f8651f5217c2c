package powercut

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// model says what a file system keeps for certain when the power is cut.
type model string

const (
	// strict is what POSIX promises and no more: fsync of a file keeps its data and its
	// size, fsync of a folder keeps its entries. Until then any subset of the entries
	// may be there, in any state that they ever had.
	strict model = "strict"
	// journal is what ext4 and XFS do: they log all changes of names and sizes in one
	// order, and every fsync, of whatever file, writes the log up to itself. So names
	// survive in order, up to some point, and at least up to the last fsync.
	journal model = "journal"
)

func models() []model { return []model{strict, journal} }

// sector is the unit that a disk writes as a whole.
const sector = 512

// pending returns the operations that had begun at a line of the trace and that a power
// cut at that line may undo, as indices into ops. kept tells of each operation before
// the cut whether it is certain.
func (t *trace) pending(m model, cut int) (open []int, kept []bool) {
	synced := make(map[int]int) // by file: what returned before this line is on the disk
	all := -1                   // of the log
	for i := range t.ops {
		o := &t.ops[i]
		if o.exit > cut || o.kind != syncOp && !o.own {
			continue
		}
		synced[o.inode] = max(synced[o.inode], o.enter)
		all = max(all, o.enter)
	}
	kept = make([]bool, len(t.ops))
	for i := range t.ops {
		o := &t.ops[i]
		if o.enter > cut || o.kind == syncOp {
			continue
		}
		switch logged := m == journal && o.kind != writeOp; {
		case o.own && o.exit <= cut:
			kept[i] = true
		case logged:
			kept[i] = o.exit < all
		case o.kind == namesOp:
			kept[i] = !slices.ContainsFunc(o.entries, func(e entry) bool { return o.exit >= synced[e.dir] })
		default:
			kept[i] = o.exit < synced[o.inode]
		}
		if !kept[i] {
			open = append(open, i)
		}
	}
	return open, kept
}

// fate is what becomes of an operation that was not synced.
type fate struct {
	kept bool
	// torn keeps only some sectors of a write: bit i, of the i-th that it touches
	// (the last bit stands for all that follow).
	torn    bool
	sectors uint64
	// extended: the file got its new size, and zeros where sectors are missing.
	extended bool
}

func (f fate) String() string {
	switch {
	case f.torn && f.extended:
		return "torn, with zeros"
	case f.torn:
		return "torn"
	case f.kept:
		return "kept"
	}
	return "dropped"
}

// state is what is on the disk when the power returns.
type state struct {
	model model
	cut   int
	open  []int // see pending
	fates []fate
}

// disk is the content of a state.
type disk struct {
	t       *trace
	entries map[int]map[string]int
	files   map[int][]byte
}

// build applies to an empty disk what is certain, and what the state keeps of the rest.
func (t *trace) build(s *state) *disk {
	d := &disk{t: t, entries: make(map[int]map[string]int), files: make(map[int][]byte)}
	_, kept := t.pending(s.model, s.cut)
	next := 0
	for i := range t.ops {
		if t.ops[i].enter > s.cut {
			continue
		}
		f := fate{kept: kept[i]}
		if next < len(s.open) && s.open[next] == i {
			f = s.fates[next]
			next++
		}
		if f.kept || f.torn {
			d.apply(&t.ops[i], f)
		}
	}
	return d
}

// whole returns the disk with every operation applied.
func (t *trace) whole() *disk {
	d := &disk{t: t, entries: make(map[int]map[string]int), files: make(map[int][]byte)}
	for i := range t.ops {
		d.apply(&t.ops[i], fate{kept: true})
	}
	return d
}

func (d *disk) apply(o *op, f fate) {
	switch o.kind {
	case namesOp:
		for _, e := range o.entries {
			if d.entries[e.dir] == nil {
				d.entries[e.dir] = make(map[string]int)
			}
			if e.to == 0 {
				delete(d.entries[e.dir], e.name)
			} else {
				d.entries[e.dir][e.name] = e.to
			}
		}
	case truncateOp:
		d.resize(o.inode, o.size)
	case writeOp:
		d.write(o, f)
	}
}

func (d *disk) resize(inode int, size int64) {
	b := d.files[inode]
	if int64(len(b)) >= size {
		d.files[inode] = b[:size]
		clear(b[size:]) // a later extension shows zeros
		return
	}
	d.files[inode] = append(b, make([]byte, size-int64(len(b)))...)
}

func (d *disk) write(o *op, f fate) {
	end := o.off + int64(len(o.data))
	if f.extended && int64(len(d.files[o.inode])) < end {
		d.resize(o.inode, end)
	}
	for off, i := o.off, 0; off < end; i++ {
		next := min((off/sector+1)*sector, end)
		if !f.torn || f.sectors>>min(i, 63)&1 == 1 {
			if int64(len(d.files[o.inode])) < next {
				d.resize(o.inode, next)
			}
			copy(d.files[o.inode][off:next], o.data[off-o.off:next-o.off])
		}
		off = next
	}
}

// each visits the files and folders that can be reached from the root, sorted.
func (d *disk) each(visit func(path string, ino int) error) error {
	var walk func(dir int, path string, depth int) error
	walk = func(dir int, path string, depth int) error {
		sorted := make([]string, 0, len(d.entries[dir]))
		for name := range d.entries[dir] {
			sorted = append(sorted, name)
		}
		slices.Sort(sorted)
		for _, name := range sorted {
			ino := d.entries[dir][name]
			if err := visit(filepath.Join(path, name), ino); err != nil {
				return err
			}
			if d.t.inodes[ino].dir && depth < 32 {
				if err := walk(ino, filepath.Join(path, name), depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return walk(root, "", 0)
}

// save writes the state into a folder.
func (d *disk) save(dir string) error {
	return d.each(func(path string, ino int) error {
		to, n := filepath.Join(dir, path), d.t.inodes[ino]
		switch {
		case n.dir:
			return os.Mkdir(to, 0o700)
		case n.link != "":
			return os.Symlink(n.link+"-lost", to) // memory is gone; the recorded worker may have left its folder here
		}
		return os.WriteFile(to, d.files[ino], os.FileMode(n.mode&0o777))
	})
}

var hashSeed = maphash.MakeSeed()

// sum tells different disks apart, within this process.
func (d *disk) sum() uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	_ = d.each(func(path string, ino int) error {
		fmt.Fprintf(&h, "%s\x00%t\x00%s\x00%d\x00", path, d.t.inodes[ino].dir, d.t.inodes[ino].link, len(d.files[ino]))
		_, err := h.Write(d.files[ino])
		return err
	})
	return h.Sum64()
}

// compare returns an error unless a folder holds what the trace says: the replay of a
// trace that does not explain the disk proves nothing.
func (d *disk) compare(dir string) error {
	var errs []error
	seen := make(map[string]bool)
	err := d.each(func(path string, ino int) error {
		seen[path] = true
		info, err := os.Lstat(filepath.Join(dir, path))
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		if link := d.t.inodes[ino].link; link != "" {
			if to, err := os.Readlink(filepath.Join(dir, path)); to != link {
				errs = append(errs, err, fmt.Errorf("%s leads to %q, in the replay to %q", path, to, link))
			}
			return nil
		}
		if info.IsDir() {
			return nil
		}
		b, err := os.ReadFile(filepath.Join(dir, path))
		if err == nil && string(b) != string(d.files[ino]) {
			err = fmt.Errorf("%s has %d bytes, the replay %d, and they differ", path, len(b), len(d.files[ino]))
		}
		errs = append(errs, err)
		return nil
	})
	errs = append(errs, err, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if rel := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/"); rel != "" && !seen[rel] {
			errs = append(errs, fmt.Errorf("%s is not in the replay", rel))
		}
		return err
	}))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the replay of the trace differs from the disk: %w", err)
	}
	return nil
}
