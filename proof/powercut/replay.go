package powercut

import (
	"fmt"
	"path/filepath"
	"strings"
)

// kind is what an operation does.
type kind int

const (
	writeOp    kind = iota // bytes of a file
	truncateOp             // the size of a file
	namesOp                // entries of folders: create, mkdir, rename, unlink
	syncOp                 // fsync, fdatasync, or the end of a write to a file opened with O_SYNC
)

// op is one operation on the files below the root.
type op struct {
	kind        kind
	inode       int // the file; of names: of the first entry's folder
	off         int64
	data        []byte // of a write
	size        int64  // of a truncate
	entries     []entry
	enter, exit int
	// own says that the operation itself reaches the disk before it returns:
	// a write with O_SYNC, or an entry of a folder with the dirsync attribute.
	own  bool
	text string // for people
}

// entry is one change of a folder: a name gets a file, or none (0).
type entry struct {
	dir  int
	name string
	to   int
}

// root is the inode of the folder that contains everything. It exists before the trace.
const root = 1

// inode is a file or folder.
type inode struct {
	dir     bool
	mode    uint32
	dirsync bool
	path    string // the first one, for people
	// link is where a symbolic link leads: out of the disk, into memory, which a power cut
	// takes.
	link string
}

// trace is what a process did to its files, and what it told others.
type trace struct {
	dir    string // the root's path while it was recorded
	inodes map[int]*inode
	ops    []op // by exit
	// renames are the operations that rename a file, as indices into ops.
	renames []int
	lines   int
	// sessions are the lines at which the processes began.
	sessions []int
	events   []event
	posts    []post
	// batches says that results went to the broker as an atomic batch, for which it makes
	// a folder.
	batches bool
}

// handle is an open file of the traced process.
type handle struct {
	inode  int
	pos    int64
	append bool
	sync   bool
}

// replayer follows the system calls of one process.
type replayer struct {
	t     *trace
	view  *view // all names, and sizes, as the process sees them
	open  map[int]*handle
	left  map[slot]departure // what was removed or renamed
	conns map[int]*conn
	wire  *wire
	end   int    // the line after the last one of the process
	next  []call // of the process after it
}

// view is the state of names and sizes with every operation applied.
type view struct {
	entries map[int]map[string]int
	sizes   map[int]int64
	next    int
}

func newTrace(dir string) (*trace, *view) {
	t := &trace{dir: dir, inodes: map[int]*inode{root: {dir: true, mode: 0o700, path: "."}}}
	return t, &view{entries: map[int]map[string]int{root: {}}, sizes: make(map[int]int64), next: root + 1}
}

// add appends the system calls of one process, which has begun after all before it had
// ended. The page cache outlives processes: what an earlier one did not sync may still
// be lost. next are the calls of the process after it, which show what a killed one left.
func (t *trace) add(v *view, calls []call, lines int, api string, next []call) error {
	t.sessions = append(t.sessions, t.lines)
	r := &replayer{t: t, view: v, open: make(map[int]*handle), left: make(map[slot]departure), conns: make(map[int]*conn), wire: newWire(t, api), end: lines, next: next}
	for i := range calls {
		if err := r.step(&calls[i]); err != nil {
			c := calls[i]
			return fmt.Errorf("trace line %d: %s(%.120s): %w", c.enter, c.name, strings.Join(c.args, ", "), err)
		}
	}
	t.lines = max(t.lines, lines)
	return r.wire.finish()
}

func (r *replayer) emit(o op, c *call) {
	o.enter, o.exit = c.enter, c.exit
	if c.exit == never && o.kind != syncOp { // it was done when its process had ended, but it had not synced anything
		o.exit, o.own = r.end, false
	}
	if len(o.entries) > 1 && o.exit != never {
		r.t.renames = append(r.t.renames, len(r.t.ops))
	}
	r.t.ops = append(r.t.ops, o)
}

// step carries out one system call. A failed call changes nothing. One that never
// returned may have changed something; the replay takes it for done, at the end, unless
// the next process found what it would have taken away.
func (r *replayer) step(c *call) error {
	if c.failed != "" && c.name != "connect" {
		return nil
	}
	switch c.name {
	case "accept4", "connect", "read", "readv", "recvfrom", "sendto", "sendmsg":
		return r.network(c)
	case "open", "openat", "creat":
		return r.openFile(c)
	case "close":
		delete(r.open, c.fd(0))
		if conn := r.conns[c.fd(0)]; conn != nil {
			conn.closed = c.enter
			delete(r.conns, c.fd(0))
		}
		return nil
	case "dup", "dup2", "dup3", "fcntl":
		return r.duplicate(c)
	case "lseek":
		if h := r.open[c.fd(0)]; h != nil {
			h.pos = c.ret
		}
		return nil
	case "ioctl":
		return r.attributes(c)
	case "write", "writev", "pwrite64", "pwritev":
		if r.open[c.fd(0)] == nil {
			return r.network(c)
		}
		return r.write(c)
	case "ftruncate":
		return r.truncate(c)
	case "fsync", "fdatasync":
		if h := r.open[c.fd(0)]; h != nil {
			r.emit(op{kind: syncOp, inode: h.inode, text: c.name + " " + r.t.inodes[h.inode].path}, c)
		}
		return nil
	case "symlink", "symlinkat":
		return r.symlink(c)
	case "mkdir", "mkdirat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir":
		return r.changeNames(c)
	case "chdir":
		return fmt.Errorf("not modelled")
	default: // truncate, fallocate, link, sendfile, sync and their kin
		return r.refuse(c)
	}
}

// refuse fails for a system call that is not modelled if it touches the root.
func (r *replayer) refuse(c *call) error {
	for i := range c.args {
		if h := r.open[c.fd(i)]; h != nil {
			return fmt.Errorf("not modelled")
		}
		if path, err := c.path(i); err == nil {
			if _, _, inside := r.find(atCWD, path); inside {
				return fmt.Errorf("not modelled")
			}
		}
	}
	return nil
}

func (r *replayer) openFile(c *call) error {
	at, pathArg := c.fd(0), 1
	if c.name != "openat" {
		at, pathArg = atCWD, 0
	}
	path, err := c.path(pathArg)
	if err != nil {
		return err
	}
	flags := c.arg(pathArg + 1)
	if c.name == "creat" {
		flags = "O_CREAT|O_WRONLY|O_TRUNC"
	}
	delete(r.conns, int(c.ret))
	delete(r.open, int(c.ret))
	is := func(flag string) bool { return strings.Contains("|"+flags+"|", "|"+flag+"|") }
	since := c.enter
	if is("O_CREAT") {
		since = never // it makes a new file where another one went away
	}
	dir, name, inside := r.findSince(since, at, path)
	if !inside {
		return nil
	}
	ino := r.lookupSince(since, dir, name)
	if c.exit == never && (ino != 0 || !is("O_CREAT") || !r.found(dir, name)) {
		return nil // nothing was written to it
	}
	switch {
	case ino != 0 && r.t.inodes[ino].link != "":
		return nil // it opened what the link leads to
	case ino == 0 && !is("O_CREAT"):
		return fmt.Errorf("opened %s, which does not exist in the replay", path)
	case ino == 0:
		mode, err := c.number(pathArg + 2)
		if err != nil {
			return err
		}
		ino = r.create(dir, name, false, uint32(mode))
		r.emit(op{kind: namesOp, inode: dir, entries: []entry{{dir, name, ino}}, own: r.t.inodes[dir].dirsync, text: "create " + r.t.inodes[ino].path}, c)
	case is("O_TRUNC") && r.view.sizes[ino] > 0:
		r.view.sizes[ino] = 0
		r.emit(op{kind: truncateOp, inode: ino, text: "truncate " + r.t.inodes[ino].path + " to 0"}, c)
	}
	if c.exit == never { // it is no descriptor yet
		return nil
	}
	r.open[int(c.ret)] = &handle{inode: ino, append: is("O_APPEND"), sync: is("O_SYNC") || is("O_DSYNC")}
	return nil
}

// create makes a file or folder in the view.
func (r *replayer) create(dir int, name string, isDir bool, mode uint32) int {
	ino := r.view.next
	r.view.next++
	parent := r.t.inodes[dir]
	r.t.inodes[ino] = &inode{dir: isDir, mode: mode &^ 0o022, path: filepath.Join(parent.path, name),
		dirsync: isDir && parent.dirsync} // as ext4 does
	if isDir {
		r.view.entries[ino] = make(map[string]int)
	}
	r.view.entries[dir][name] = ino
	return ino
}

func (r *replayer) duplicate(c *call) error {
	if c.name == "fcntl" && !strings.HasPrefix(c.arg(1), "F_DUPFD") {
		return nil
	}
	if h := r.open[c.fd(0)]; h != nil {
		r.open[int(c.ret)] = h
	}
	if conn := r.conns[c.fd(0)]; conn != nil {
		r.conns[int(c.ret)] = conn
	}
	return nil
}

func (r *replayer) write(c *call) error {
	h := r.open[c.fd(0)]
	data, err := c.bytes(1)
	if err != nil || len(data) == 0 {
		return err
	}
	off := h.pos
	switch {
	case c.name == "pwrite64" || c.name == "pwritev":
		if off, err = c.number(3); err != nil {
			return err
		}
	case h.append:
		off = r.view.sizes[h.inode]
		fallthrough
	default:
		h.pos = off + int64(len(data))
	}
	r.view.sizes[h.inode] = max(r.view.sizes[h.inode], off+int64(len(data)))
	r.emit(op{kind: writeOp, inode: h.inode, off: off, data: data, own: h.sync,
		text: fmt.Sprintf("write %s, %d bytes at %d", r.t.inodes[h.inode].path, len(data), off)}, c)
	if h.sync {
		r.emit(op{kind: syncOp, inode: h.inode, text: "O_SYNC " + r.t.inodes[h.inode].path}, c)
	}
	return nil
}

func (r *replayer) truncate(c *call) error {
	h := r.open[c.fd(0)]
	if h == nil {
		return nil
	}
	size, err := c.number(1)
	if err != nil {
		return err
	}
	r.view.sizes[h.inode] = size
	r.emit(op{kind: truncateOp, inode: h.inode, size: size, text: fmt.Sprintf("truncate %s to %d", r.t.inodes[h.inode].path, size)}, c)
	return nil
}

// attributes notes the attribute dirsync of a folder.
func (r *replayer) attributes(c *call) error {
	if h := r.open[c.fd(0)]; h != nil && c.arg(1) == "FS_IOC_SETFLAGS" {
		r.t.inodes[h.inode].dirsync = strings.Contains(c.arg(2), "FS_DIRSYNC_FL")
	}
	return nil
}
