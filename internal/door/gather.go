package door

import "sync"

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
}

func newGather[T any](d *Door, most int, do func([]T)) gather[T] {
	return gather[T]{d: d, most: most, do: do, mu: new(sync.Mutex)}
}

// add hands in calls, in their order. do gets them later, in another goroutine.
func (g *gather[T]) add(calls ...T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = append(g.next, calls...)
	if !g.busy && len(g.next) > 0 {
		g.busy = true
		g.d.run(g.serve)
	}
}

func (g *gather[T]) serve() {
	for batch := g.take(); len(batch) > 0; batch = g.take() {
		g.do(batch)
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
