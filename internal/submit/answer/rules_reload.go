package answer

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"time"
)

// rulesAtRest is how old a rules file must be before Reload takes it: an editor may be
// writing it still.
const rulesAtRest = time.Second

// Reload reads the rules file again, and takes its rules if they changed. With an error,
// the rules stay as they are. One goroutine at a time may call it.
func (r *Rules) Reload() (changed bool, err error) {
	if r == nil || r.file == "" {
		return false, nil
	}
	info, err := os.Stat(r.file)
	if err != nil {
		r.looked = nil
		return false, fmt.Errorf("ORDERPOST_RULES: %w", err)
	}
	if had := r.looked; had != nil && os.SameFile(had, info) && had.ModTime().Equal(info.ModTime()) && had.Size() == info.Size() {
		return false, r.mistake
	}
	if age := time.Since(info.ModTime()); age >= 0 && age < rulesAtRest {
		return false, r.mistake
	}
	r.looked = info
	changed, r.mistake = r.read()
	return changed, r.mistake
}

// read reads the file, and takes its rules if they changed.
func (r *Rules) read() (changed bool, err error) {
	data, err := os.ReadFile(r.file)
	if err != nil {
		r.looked = nil
		return false, fmt.Errorf("ORDERPOST_RULES: %w", err)
	}
	if bytes.Equal(data, r.now().text) {
		return false, nil
	}
	next, err := ParseRules(r.file, data)
	if err != nil {
		return false, fmt.Errorf("ORDERPOST_RULES: %w", err)
	}
	next.text = data
	r.newer.Store(next)
	return true, nil
}

// now returns the rules that were read last.
func (r *Rules) now() *Rules {
	if r != nil {
		if n := r.newer.Load(); n != nil {
			return n
		}
	}
	return r
}

// Len returns the number of rules.
func (r *Rules) Len() int {
	if r = r.now(); r == nil {
		return 0
	}
	return len(r.list)
}

// ReadHeaders reports whether a rule that may match this status reads headers.
func (r *Rules) ReadHeaders(status int) bool {
	r = r.now()
	return r != nil && slices.ContainsFunc(r.list, func(one rule) bool { return one.headers && one.mayMatch(status) })
}
