package powercut

import (
	"fmt"
	"path/filepath"
	"strings"
)

// find resolves a path to a folder below the root and a name in it. inside is false for
// every other path. The root itself is the name ".".
func (r *replayer) find(at int, path string) (dir int, name string, inside bool) {
	return r.findSince(never, at, path)
}

// findSince is find for a call that began at a line: of two calls that overlap, nobody
// knows which one took effect first, so it also finds what went away since then.
func (r *replayer) findSince(since, at int, path string) (dir int, name string, inside bool) {
	from := root
	switch {
	case filepath.IsAbs(path):
		rel, err := filepath.Rel(r.t.dir, filepath.Clean(path))
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			return 0, "", false
		}
		path = rel
	case at == atCWD:
		return 0, "", false // the worker's own folder is not below the root
	default:
		h := r.open[at]
		if h == nil {
			return 0, "", false
		}
		from = h.inode
	}
	parts := strings.Split(filepath.Clean(path), "/")
	for _, part := range parts[:len(parts)-1] {
		if from = r.lookupSince(since, from, part); from == 0 {
			return 0, "", true // the call failed, or the replay is wrong and says so
		}
		if r.t.inodes[from].link != "" {
			return 0, "", false
		}
	}
	return from, parts[len(parts)-1], true
}

func (r *replayer) lookup(dir int, name string) int { return r.lookupSince(never, dir, name) }

func (r *replayer) lookupSince(since, dir int, name string) int {
	if name == "." {
		return dir
	}
	if ino := r.view.entries[dir][name]; ino != 0 {
		return ino
	}
	if left := r.left[slot{dir, name}]; left.line > since {
		return left.inode
	}
	return 0
}

// slot is a name in a folder.
type slot struct {
	dir  int
	name string
}

// departure says which file had a name last, and at which line it lost it.
type departure struct{ inode, line int }

// leave takes a name away, and reports whether it did: a call that a kill interrupted did not
// if the next process found the name.
func (r *replayer) leave(c *call, dir int, name string) bool {
	if c.exit == never && r.found(dir, name) {
		return false
	}
	r.left[slot{dir, name}] = departure{r.view.entries[dir][name], c.exit}
	delete(r.view.entries[dir], name)
	return true
}

// found reports whether the next process, which looks at all that is there when it begins,
// opened a name before anything made it again.
func (r *replayer) found(dir int, name string) bool {
	for i := range r.next {
		c := &r.next[i]
		pathArg, opens := 0, c.name == "open"
		switch {
		case c.failed != "" || c.exit == never:
			continue
		case c.name == "openat" && c.fd(0) == atCWD:
			pathArg, opens = 1, true
		case c.name == "mkdirat" && c.fd(0) == atCWD:
			pathArg = 1
		case !opens && c.name != "creat" && c.name != "mkdir":
			continue
		}
		path, err := c.path(pathArg)
		if err != nil {
			continue
		}
		if d, n, inside := r.find(atCWD, path); inside && d == dir && n == name {
			return opens && !strings.Contains(c.arg(pathArg+1), "O_CREAT")
		}
	}
	return false
}

// changeNames carries out a call that changes the entries of folders.
func (r *replayer) changeNames(c *call) error {
	at, i := atCWD, 0
	if strings.Contains(c.name, "at") {
		at, i = c.fd(0), 1
	}
	path, err := c.path(i)
	if err != nil {
		return err
	}
	if strings.HasPrefix(c.name, "mkdir") && strings.HasSuffix(filepath.Dir(path), "/ORDERS_RESULTS/batches") {
		r.t.batches = true
	}
	dir, name, inside := r.find(at, path)
	if strings.HasPrefix(c.name, "rename") {
		return r.rename(c, dir, name, inside)
	}
	if !inside {
		return nil
	}
	var change entry
	text := "remove "
	if strings.HasPrefix(c.name, "mkdir") {
		mode, err := c.number(i + 1)
		if err != nil {
			return err
		}
		text = "mkdir "
		change = entry{dir, name, r.create(dir, name, true, uint32(mode))}
	} else {
		change = entry{dir, name, 0}
		if r.lookup(dir, name) == 0 {
			return fmt.Errorf("%s does not exist in the replay", path)
		}
		if !r.leave(c, dir, name) {
			return nil
		}
	}
	r.emit(op{kind: namesOp, inode: dir, entries: []entry{change}, own: r.t.inodes[dir].dirsync,
		text: text + filepath.Join(r.t.inodes[dir].path, name)}, c)
	return nil
}

// symlink makes a link that leads out of the disk.
func (r *replayer) symlink(c *call) error {
	at, i := atCWD, 1
	if c.name == "symlinkat" {
		at, i = c.fd(1), 2
	}
	target, err := c.path(0)
	if err != nil {
		return err
	}
	path, err := c.path(i)
	if err != nil {
		return err
	}
	dir, name, inside := r.find(at, path)
	if !inside {
		return nil
	}
	if _, _, within := r.find(atCWD, target); within || !filepath.IsAbs(target) {
		return fmt.Errorf("not modelled: a link that stays on the disk")
	}
	ino := r.create(dir, name, false, 0o777)
	r.t.inodes[ino].link = target
	r.emit(op{kind: namesOp, inode: dir, entries: []entry{{dir, name, ino}}, own: r.t.inodes[dir].dirsync, text: "link " + r.t.inodes[ino].path}, c)
	return nil
}

func (r *replayer) rename(c *call, dir int, name string, inside bool) error {
	at, i := atCWD, 1
	if c.name != "rename" {
		at, i = c.fd(2), 3
	}
	path, err := c.path(i)
	if err != nil {
		return err
	}
	toDir, toName, toInside := r.find(at, path)
	if !inside && !toInside {
		return nil
	}
	ino := 0
	if inside && toInside {
		ino = r.lookup(dir, name)
	}
	if ino == 0 {
		return fmt.Errorf("renamed what does not exist in the replay")
	}
	if !r.leave(c, dir, name) {
		return nil
	}
	r.view.entries[toDir][toName] = ino
	from, to := filepath.Join(r.t.inodes[dir].path, name), filepath.Join(r.t.inodes[toDir].path, toName)
	r.emit(op{kind: namesOp, inode: toDir, entries: []entry{{dir, name, 0}, {toDir, toName, ino}},
		own: r.t.inodes[dir].dirsync && r.t.inodes[toDir].dirsync, text: "rename " + from + " to " + toName}, c)
	r.t.inodes[ino].path = to
	return nil
}
