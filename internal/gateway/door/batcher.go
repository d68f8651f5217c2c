package door

import (
	"sync"
	"time"
)

// batcher lets concurrent calls share one request: while one is under way, what comes in
// gathers, and is the next one. A call that comes alone goes at once. Without calls no
// goroutine runs.
type batcher[T any] struct {
	d    *Door
	most int       // calls in one request
	do   func([]T) // makes the request, and answers each call

	mu   *sync.Mutex // guards what follows
	next []T
	busy bool
	want int           // how many are waited for; 0 = none are
	full chan struct{} // closed when they are there
}

func newBatcher[T any](d *Door, most int, do func([]T)) batcher[T] {
	return batcher[T]{d: d, most: most, do: do, mu: new(sync.Mutex)}
}

// add hands in a call. do gets it later, in another goroutine.
func (b *batcher[T]) add(call T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = append(b.next, call)
	if b.want > 0 && len(b.next) >= b.want {
		b.want = 0
		close(b.full)
	}
	if !b.busy {
		b.busy = true
		b.d.run(b.serve)
	}
}

func (b *batcher[T]) serve() {
	for batch := b.take(); len(batch) > 0; batch = b.take() {
		began := time.Now()
		b.do(batch)
		b.linger(len(batch), time.Since(began))
	}
}

// take returns the next calls. Without any, the next add starts serve again.
func (b *batcher[T]) take() (batch []T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.next), b.most)
	batch = b.next[:n:n]
	if b.next = b.next[n:]; len(b.next) == 0 {
		b.next = nil
	}
	b.busy = n > 0
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
func (b *batcher[T]) linger(answered int, took time.Duration) {
	if answered < 2 || took < slowRequest {
		return
	}
	b.mu.Lock()
	full := make(chan struct{})
	b.want, b.full = min(len(b.next)+answered, b.most), full
	there := len(b.next) >= b.want
	b.mu.Unlock()
	timer := time.NewTimer(took / lingerPart)
	defer timer.Stop()
	if !there {
		select {
		case <-full:
		case <-timer.C:
		case <-b.d.ctx.Done():
		}
	}
	b.mu.Lock()
	b.want = 0
	b.mu.Unlock()
}
