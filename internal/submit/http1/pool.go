package http1

import (
	"sync"
	"time"
)

// pool holds the idle connections. It takes the most recently used one first, so
// connections that are not needed age and are closed.
type pool struct {
	keep time.Duration // how long a connection may be idle
	age  time.Duration // how long a connection is used

	mu     sync.Mutex
	idle   []*conn // the longest idle first
	closed bool
	sweep  *time.Timer // runs closeOld; nil until the first put
	swept  bool        // sweep does not run, because idle is empty
}

// take returns the most recently used connection, or nil.
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

// longestUse is how long a connection is used. A new one asks for the API's address
// again and looks at its certificate, however busy the worker is.
const longestUse = time.Minute

// put makes a connection idle. After close it closes the connection, and also one that
// was used for p.age.
func (p *pool) put(c *conn) {
	c.used = time.Now()
	if c.used.Sub(c.born) >= p.age {
		c.hangUp()
		return
	}
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

// closeOld closes the connections that were idle for too long, and runs again when
// the next one is due.
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

// close closes the idle connections, and every connection put later.
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
