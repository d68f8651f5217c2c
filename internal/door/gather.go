package door

import (
	"sync"
	"time"
)

// gather lets concurrent calls share one request: while one is under way, what comes in
// gathers, and is the next one. A call that comes alone goes at once. Without calls no
// goroutine runs.
type gather[T any] struct {
	d    *Door
	most int       // calls in one request
	do   func([]T) // makes the request, and answers each call

	mu   *sync.Mutex // guards what follows
	next []T
	busy bool
	want int           // how many are waited for; 0 = none are
	full chan struct{} // closed when they are there
}

func newGather[T any](d *Door, most int, do func([]T)) gather[T] {
	return gather[T]{d: d, most: most, do: do, mu: new(sync.Mutex)}
}

// add hands in a call. do gets it later, in another goroutine.
func (g *gather[T]) add(call T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = append(g.next, call)
	if g.want > 0 && len(g.next) >= g.want {
		g.want = 0
		close(g.full)
	}
	if !g.busy {
		g.busy = true
		g.d.run(g.serve)
	}
}

func (g *gather[T]) serve() {
	for batch := g.take(); len(batch) > 0; batch = g.take() {
		began := time.Now()
		g.do(batch)
		g.linger(len(batch), time.Since(began))
	}
}

// take returns the next calls. Without any, the next add starts serve again.
func (g *gather[T]) take() (batch []T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.next), g.most)
	batch = g.next[:n:n]
	if g.next = g.next[n:]; len(g.next) == 0 {
		g.next = nil
	}
	g.busy = n > 0
	return batch
}

const (
	// slowRequest is the time from which a request is worth a wait for more calls.
	slowRequest = 2 * time.Millisecond
	// lingerPart is the part of a request's time that the next one waits for them.
	lingerPart = 8
)

// linger waits a moment for the callers that a slow request has just answered: they come
// back with the next call at once. Otherwise two halves of them would take turns, and
// twice as many requests. A caller that is alone is not waited for.
func (g *gather[T]) linger(answered int, took time.Duration) {
	if answered < 2 || took < slowRequest {
		return
	}
	g.mu.Lock()
	full := make(chan struct{})
	g.want, g.full = min(len(g.next)+answered, g.most), full
	there := len(g.next) >= g.want
	g.mu.Unlock()
	timer := time.NewTimer(took / lingerPart)
	defer timer.Stop()
	if !there {
		select {
		case <-full:
		case <-timer.C:
		case <-g.d.ctx.Done():
		}
	}
	g.mu.Lock()
	g.want = 0
	g.mu.Unlock()
}
