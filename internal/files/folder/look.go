package folder

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Rules say when a file of a folder is complete.
type Rules struct {
	// Marker is what stands behind the name of a file in the name of its marker, such as
	// .ok; "" = files have no markers.
	Marker string
	// Endings are the endings of files of orders, without their point and in small letters; nil =
	// any. They do not count where files have markers. Writers call a file that is not complete
	// by so many names that only known ones tell that it is.
	Endings []string
	// Settle is how long a file must not change in any case, Still how long it must not if
	// it is empty, or the system cannot tell that its writer has closed it.
	Settle, Still time.Duration
	// Ignore are names that are not orders, such as that of the flags.
	Ignore []string
}

// Found is a complete file.
type Found struct {
	Name string
	info fs.FileInfo
	// marker is the file's marker; nil = it has none.
	marker     fs.FileInfo
	markerName string
	// Why says why the file can only be refused; "" = it can be imported.
	Why string
}

// sighting is a file as Look saw it, and since when it looks so.
type sighting struct {
	size  int64
	at    time.Time
	since time.Time
}

// writer says whether a program has a file open for writing.
type writer int

const (
	writerUnknown writer = iota
	writerGone
	writerThere
)

// unfinished are the endings of files that are being written: of curl and browsers, rclone,
// WinSCP, and rsync with --partial-dir.
var unfinished = []string{".tmp", ".part", ".partial", ".filepart"}

// mayBe reports whether a name can be that of a file of orders. A name with "~$" in front
// belongs to a program that has the workbook open.
func (r *Rules) mayBe(name string) bool {
	lower := strings.ToLower(name)
	return !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "~$") &&
		!slices.ContainsFunc(unfinished, func(end string) bool { return strings.HasSuffix(lower, end) }) &&
		!slices.Contains(r.Ignore, name) && (r.Marker == "" || !strings.HasSuffix(name, r.Marker))
}

// packed are the endings that may stand behind those of Rules.Endings.
var packed = []string{".gz", ".zst"}

// ends reports whether a name has one of the endings.
func (r *Rules) ends(name string) bool {
	if r.Endings == nil || r.Marker != "" {
		return true
	}
	name = strings.ToLower(name)
	for _, end := range packed {
		name = strings.TrimSuffix(name, end)
	}
	return slices.ContainsFunc(r.Endings, func(end string) bool { return strings.HasSuffix(name, "."+end) })
}

// tellAfter is how long a file does not change before Look says what it waits for.
const tellAfter = time.Minute

// Look returns the files that are complete, the oldest first. waits says, by name, what
// files wait for that have not changed for a minute.
func (f *Folder) Look(now time.Time, r Rules) (found []Found, waits map[string]string, err error) {
	entries, err := f.list(".")
	if err != nil {
		return nil, nil, err
	}
	waits, there := make(map[string]string), make(map[string]bool)
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || !r.mayBe(name) || f.takes(name) {
			continue
		}
		info, err := f.disk.root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) { // it vanished
			continue
		} else if err != nil {
			return nil, nil, err
		}
		there[name] = true
		s := f.seen[name]
		if s == nil || s.size != info.Size() || !s.at.Equal(info.ModTime()) {
			s = &sighting{size: info.Size(), at: info.ModTime(), since: now}
			f.seen[name] = s
		}
		one := Found{Name: name, info: info}
		still := now.Sub(s.since)
		if !r.ends(name) {
			if still >= tellAfter {
				waits[name] = "its name has none of the endings of complete files (" + strings.Join(r.Endings, ", ") + "): rename it, or name its ending (--endings)"
			}
			continue
		}
		complete, why := f.complete(&one, still, r)
		if complete {
			found = append(found, one)
		} else if why != "" && still >= tellAfter {
			waits[name] = why
		}
	}
	for name := range f.seen {
		if !there[name] {
			delete(f.seen, name)
		}
	}
	slices.SortStableFunc(found, func(a, b Found) int {
		return cmp.Or(a.info.ModTime().Compare(b.info.ModTime()), cmp.Compare(a.Name, b.Name))
	})
	return found, waits, nil
}

// complete says whether a file is complete that has not changed for so long, and else what it
// waits for. It sets what it found out.
func (f *Folder) complete(one *Found, still time.Duration, r Rules) (complete bool, waits string) {
	if !one.info.Mode().IsRegular() {
		one.Why = irregular(one.info.Mode())
		return still >= r.Settle, ""
	}
	if !utf8.ValidString(one.Name) || strings.ContainsFunc(one.Name, unicode.IsControl) {
		one.Why = "its name has control characters, or is not UTF-8: give it another name"
		return still >= r.Settle, ""
	}
	if r.Marker != "" {
		one.markerName = one.Name + r.Marker
		marker, err := f.disk.root.Lstat(one.markerName)
		if err != nil || !marker.Mode().IsRegular() {
			return false, fmt.Sprintf("its marker %s is not there", one.markerName)
		}
		one.marker = marker
	} else if still < r.Settle {
		return false, ""
	}
	file, _, err := f.openRegular(one.Name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		one.Why = "it cannot be read: the user of orderpost watch has no right to. Give it that right (chmod, or a common group) and move the file back into the folder"
		return still >= r.Still, ""
	case err != nil:
		return false, err.Error()
	}
	defer func() { _ = file.Close() }()
	if one.marker != nil {
		return true, ""
	}
	switch writerOf(file) {
	case writerThere:
		return false, "a program has it open for writing"
	case writerGone:
		return one.info.Size() > 0 || still >= r.Still, ""
	}
	return still >= r.Still, ""
}

// irregular says why something that is no regular file is refused.
func irregular(mode fs.FileMode) string {
	if mode&fs.ModeSymlink != 0 {
		return "it is a link, and links are not followed: put the file itself into the folder"
	}
	return "it is no regular file (" + mode.Type().String() + "): put a file into the folder"
}
