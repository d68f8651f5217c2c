package submit

import (
	"sync"
	"time"
)

// pool keeps the connections that no request has. The one that was used last is
// taken first, so that the rest age and are closed.
type pool struct {
	keep time.Duration // how long

	mu     sync.Mutex
	idle   []*conn // by age, the oldest first
	closed bool
	sweep  *time.Timer // runs while connections are kept
	swept  bool        // it does not run
}

// take gives the connection that was used last; nil where there is none.
func (p *pool) take() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	return c
}

// put keeps a connection for another request.
func (p *pool) put(c *conn) {
	c.used = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.hangUp()
		return
	}
	p.idle = append(p.idle, c)
	switch {
	case p.sweep == nil:
		p.sweep = time.AfterFunc(p.keep, p.closeOld)
	case p.swept:
		p.swept = false
		p.sweep.Reset(p.keep)
	}
}

// closeOld closes what was kept for long enough, and comes again when the next
// one is due.
func (p *pool) closeOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, old := time.Now(), 0
	for old < len(p.idle) && now.Sub(p.idle[old].used) >= p.keep {
		p.idle[old].hangUp()
		old++
	}
	left := copy(p.idle, p.idle[old:])
	clear(p.idle[left:])
	p.idle = p.idle[:left]
	if p.swept = left == 0; !p.swept && !p.closed {
		p.sweep.Reset(p.keep - now.Sub(p.idle[0].used))
	}
}

// close closes all connections, and each that comes back later.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	for _, c := range p.idle {
		c.hangUp()
	}
	p.idle = nil
}
