package gateway

import (
	"runtime/debug"
	"sync"
	"time"
)

const (
	// crowdOf is how many new waits make a crowd: together they hold some MB more for a moment
	// than they need later.
	crowdOf = 250
	// calmAfter is how long a crowd may gather. It is parked by then, and at most one
	// collection is made in so long.
	calmAfter = 2 * time.Second
)

// crowds gives back to the system what crowds of new waits took. Until a wait is parked, it
// has net/http's goroutines and buffers. The runtime would keep their memory, because it lets
// the heap grow to twice of what is in use.
type crowds struct {
	mu    sync.Mutex
	waits int // that were parked since memory was given back
}

// parked is called for each wait that is parked.
func (c *crowds) parked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits++; c.waits == crowdOf {
		time.AfterFunc(calmAfter, c.giveBack)
	}
}

func (c *crowds) giveBack() {
	c.mu.Lock()
	c.waits = 0
	c.mu.Unlock()
	debug.FreeOSMemory()
}
