package gateway

import (
	"runtime/debug"
	"sync"
	"time"
)

const (
	// crowdOf is how many waits hold for a moment so much more than they need later that it
	// is worth a collection.
	crowdOf = 1000
	// calmAfter is how long after the last of them that is.
	calmAfter = 2 * time.Second
)

// crowds gives back to the system what crowds of new waits took. Until a wait is parked, it
// has net/http's goroutines and buffers. The runtime would keep their memory, because it lets
// the heap grow to twice of what is in use.
type crowds struct {
	mu    sync.Mutex
	waits int // that were parked since memory was given back
	calm  *time.Timer
}

// parked is called for each wait that is parked.
func (c *crowds) parked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits++; c.waits < crowdOf {
		return
	}
	if c.calm == nil {
		c.calm = time.AfterFunc(calmAfter, c.giveBack)
	}
}

func (c *crowds) giveBack() {
	c.mu.Lock()
	c.waits, c.calm = 0, nil
	c.mu.Unlock()
	debug.FreeOSMemory()
}
