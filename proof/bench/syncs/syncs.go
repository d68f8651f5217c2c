// Package syncs counts what a process and its children force to a disk, and makes each time
// take longer, as on other machines. The kernel asks it before each fsync (seccomp user
// notification), which costs the process less than a tracer. What is in memory is neither
// counted nor slowed.
package syncs

import (
	"sync"
	"time"
)

// Watch watches one process and its children.
type Watch struct {
	// Delay is how much longer each fsync takes.
	Delay time.Duration

	mu   sync.Mutex
	made []made
	err  error
}

// made is an fsync, or a file that was opened to be written at once (O_SYNC), which counts as
// one: nats-server writes such a file once.
type made struct {
	at   time.Time
	path string
}

func (w *Watch) note(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made = append(w.made, made{time.Now(), path})
}

func (w *Watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// Between returns the path of what was synced, each time, between two moments.
func (w *Watch) Between(from, to time.Time) (paths []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.made {
		if !m.at.Before(from) && !m.at.After(to) {
			paths = append(paths, m.path)
		}
	}
	return paths, w.err
}
