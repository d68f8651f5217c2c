package notify

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// mostOpen bounds the events that wait or are under way, and mostKept how many places
	// in the results are remembered because an earlier event is open.
	mostOpen = 2048
	mostKept = 1 << 16
	// newMarks is how many of the last records are marks, and mostMarks how many marks there are.
	// The older they are, the fewer.
	newMarks, mostMarks = 8, 24
)

// place is one event's place in the results.
type place struct {
	mark
	before mark // the position while this event is open and all before it are not
	done   bool
}

// window knows which events are open, in the order of the results. It says how far the
// position may go: up to the record before the first open event.
type window struct {
	mu     sync.Mutex
	places []*place // from the first open one on
	open   int
	read   mark // up to here the results were read
	birth  int64
	marks  []mark // of records before
	room   chan struct{}
}

func newWindow(from Position) *window {
	return &window{read: from.mark, birth: from.Birth, marks: slices.Clone(from.Marks), room: make(chan struct{}, 1)}
}

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
	p := &place{mark: mark{seq, at}, before: w.read}
	w.places = append(w.places, p)
	w.open++
	w.goOn(p.mark)
	return p
}

// pass notes a record that makes no event.
func (w *window) pass(seq uint64, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.goOn(mark{seq, at})
}

func (w *window) goOn(to mark) {
	if w.read.Seq > 0 {
		w.marks = append(w.marks, w.read)
	}
	w.read = to
	if len(w.marks) > mostMarks { // every second of the old ones goes
		kept := w.marks[:0]
		for i, m := range w.marks {
			if i%2 == 0 || i >= len(w.marks)-newMarks {
				kept = append(kept, m)
			}
		}
		w.marks = kept
	}
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
	to := w.read
	if len(w.places) > 0 {
		to, oldest = w.places[0].before, w.places[0].At
	}
	return w.at(to), oldest
}

// reached returns how far the results were read.
func (w *window) reached() Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at(w.read)
}

func (w *window) at(m mark) Position {
	p := Position{mark: m, Birth: w.birth}
	for _, earlier := range w.marks {
		if earlier.Seq < m.Seq {
			p.Marks = append(p.Marks, earlier)
		}
	}
	return p
}
