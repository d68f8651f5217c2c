package answer

import (
	"fmt"
	"slices"
)

// Reload reads the rules file again, and takes its rules if they changed. With an error,
// the rules stay as they are. One goroutine at a time may call it.
func (r *Rules) Reload() (changed bool, err error) {
	if r == nil || r.file == nil {
		return false, nil
	}
	return r.file.Reload(func(text []byte) error {
		next, err := ParseRules(r.name, text)
		if err != nil {
			return fmt.Errorf("ORDERPOST_RULES: %w", err)
		}
		r.newer.Store(next)
		return nil
	})
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
