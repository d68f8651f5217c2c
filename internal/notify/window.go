package notify

import (
	"context"
	"sync"
	"time"
)

const (
	// mostOpen bounds the events that wait or are under way, and mostKept how many places
	// in the results are remembered because an earlier event is open.
	mostOpen = 2048
	mostKept = 1 << 16
)

// place is one event's place in the results.
type place struct {
	seq    uint64
	at     time.Time
	before Position // the position while this event is open and all before it are not
	done   bool
}

// window knows which events are open, in the order of the results. It says how far the
// position may go: up to the record before the first open event.
type window struct {
	mu     sync.Mutex
	places []*place // from the first open one on
	open   int
	read   Position // up to here the results were read
	room   chan struct{}
}

func newWindow(from Position) *window { return &window{read: from, room: make(chan struct{}, 1)} }

// wait waits until there is room for one event more.
func (w *window) wait(ctx context.Context) error {
	for {
		w.mu.Lock()
		free := w.open < mostOpen && len(w.places) < mostKept
		w.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.room:
		}
	}
}

// add opens an event. Events are added in the order of the results.
func (w *window) add(seq uint64, at time.Time) *place {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &place{seq: seq, at: at, before: w.read}
	w.places = append(w.places, p)
	w.open++
	w.read.Seq, w.read.At = seq, at
	return p
}

// pass notes a record that makes no event.
func (w *window) pass(seq uint64, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read.Seq, w.read.At = seq, at
}

// close notes that an event was delivered, or is kept aside.
func (w *window) close(p *place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.done {
		return
	}
	p.done = true
	w.open--
	for len(w.places) > 0 && w.places[0].done {
		w.places[0] = nil
		w.places = w.places[1:]
	}
	select {
	case w.room <- struct{}{}:
	default:
	}
}

// position returns how far the results are delivered, and when the first record behind it
// was stored whose event is open; zero = there is none.
func (w *window) position() (p Position, oldest time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.places) == 0 {
		return w.read, time.Time{}
	}
	return w.places[0].before, w.places[0].at
}

// reached returns how far the results were read.
func (w *window) reached() Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.read
}
