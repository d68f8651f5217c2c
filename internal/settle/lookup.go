package settle

import (
	"sync"
	"time"
)

// absences remembers since when this process knows of lookups that found no order (R3). A wall
// clock may step, and another process's monotonic clock cannot be read: so each process believes
// an absence only after it knew of it for long enough by its own.
type absences struct {
	mu    sync.Mutex
	first map[string]absence // by token
}

// absence is a lookup, as the record names it, and when this process read of it first.
type absence struct{ named, at time.Time }

// known returns for how long this process has known of the lookup that a record names; zero = it names none.
func (a *absences) known(token string, named, now time.Time) time.Duration {
	if named.IsZero() {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if is, ok := a.first[token]; ok && is.named.Equal(named) {
		return now.Sub(is.at)
	}
	if a.first == nil {
		a.first = make(map[string]absence)
	}
	for forgotten := range a.first {
		if len(a.first) < mostWaits {
			break
		}
		delete(a.first, forgotten) // that order waits longer
	}
	a.first[token] = absence{named, now}
	return 0
}
