package folder

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"time"
)

// disk makes every change below a folder. No other file of this package changes anything, so
// the steps that it tells are all there are: a test kills the process before and after each.
type disk struct {
	root *os.Root
	// step is told of each step, before and after it. It may be nil.
	step func(step string)
}

// temporary begins the names of files that are being written.
const temporary = ".orderpost-"

// do takes one step.
func (d *disk) do(step string, change func() error) error {
	d.tell("before " + step)
	err := change()
	d.tell("after " + step)
	return err
}

func (d *disk) tell(step string) {
	if d.step != nil {
		d.step(step)
	}
}

// mkdir makes a folder, whose name lasts. It is no error if there is one.
func (d *disk) mkdir(name string, mode fs.FileMode) error {
	err := d.do("mkdir "+name, func() error { return d.root.Mkdir(name, mode) })
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, d.sync(path.Dir(name)))
}

// sync makes the names in a folder last. Windows has no such call.
func (d *disk) sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return d.do("sync "+dir, func() error {
		f, err := d.root.Open(dir)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// rename moves a file or a folder, and makes both names last.
func (d *disk) rename(from, to string) error {
	if err := d.do("rename "+from+" to "+to, func() error { return d.root.Rename(from, to) }); err != nil {
		return err
	}
	err := d.sync(path.Dir(to))
	if path.Dir(from) != path.Dir(to) {
		err = errors.Join(err, d.sync(path.Dir(from)))
	}
	return err
}

// remove removes a file. It is no error if there is none.
func (d *disk) remove(name string) error {
	err := d.do("remove "+name, func() error { return d.root.Remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, d.sync(path.Dir(name)))
}

// removeAll removes a folder of ours.
func (d *disk) removeAll(name string) error {
	return d.do("remove all "+name, func() error { return d.root.RemoveAll(name) })
}

// write makes or replaces a file, completely or not at all. at is its time of change; zero =
// now. If fill returns an error, there is no file.
func (d *disk) write(name string, mode fs.FileMode, at time.Time, fill func(io.Writer) error) error {
	tmp := path.Join(path.Dir(name), temporary+newID())
	var f *os.File
	err := d.do("create "+name, func() (err error) {
		f, err = d.root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	err = d.do("write "+name, func() error {
		err := fill(f)
		if err == nil {
			err = f.Chmod(mode.Perm())
		}
		if err == nil {
			err = f.Sync() // a power cut must not leave an empty file under the name
		}
		return errors.Join(err, f.Close())
	})
	if err == nil && !at.IsZero() {
		err = d.root.Chtimes(tmp, at, at)
	}
	if err == nil {
		err = d.rename(tmp, name)
	}
	if err != nil {
		_ = d.root.Remove(tmp)
	}
	return err
}
