package notify

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	// firstWait and longestWait are the times between two attempts for an event that fails
	// while others are taken. Each is twice the one before, give or take a half.
	firstWait, longestWait = 500 * time.Millisecond, 30 * time.Second
)

// job is one event to send: from the results, or from those that were put aside.
type job struct {
	msg   *message
	place *place
	aside *Aside
}

// line are the events of one order_no, in their order. Only its first one is sent.
type line struct {
	token  string
	jobs   []job
	trials                             // of the first one
	waits  *backoff.ExponentialBackOff // nil = the first event did not fail yet
}

// turns gives the lines their turns. Events of one order_no are sent one after the other,
// and one that fails keeps only those behind it waiting.
type turns struct {
	mu    sync.Mutex
	lines map[string]*line // by token; a line with jobs is either ready, or in a hand, or waits for its time
	ready []*line
	some  chan struct{} // holds a token while some are ready
}

func newTurns() *turns { return &turns{lines: make(map[string]*line), some: make(chan struct{}, 1)} }

// add puts an event behind those of its order_no.
func (t *turns) add(token string, j job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[token]
	if l == nil {
		l = &line{token: token}
		t.lines[token] = l
		t.offer(l)
	}
	l.jobs = append(l.jobs, j)
}

// offer makes a line ready. The caller holds the lock.
func (t *turns) offer(l *line) {
	t.ready = append(t.ready, l)
	t.signal()
}

func (t *turns) signal() {
	select {
	case t.some <- struct{}{}:
	default:
	}
}

// next returns the line that has waited longest, and its first event; nil if ctx ends
// first. The caller calls done or later for it.
func (t *turns) next(ctx context.Context) (l *line, first job) {
	for {
		select {
		case <-ctx.Done():
			return nil, job{}
		case <-t.some:
		}
		if l, first = t.take(); l != nil {
			return l, first
		}
	}
}

func (t *turns) take() (l *line, first job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ready) == 0 {
		return nil, job{}
	}
	l = t.ready[0]
	t.ready[0], t.ready = nil, t.ready[1:]
	if len(t.ready) > 0 {
		t.signal()
	}
	return l, l.jobs[0]
}

// done takes away the first event of a line.
func (t *turns) done(l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.jobs, l.trials, l.waits = l.jobs[1:], trials{}, nil
	if len(l.jobs) == 0 {
		delete(t.lines, l.token)
	} else {
		t.offer(l)
	}
}

// later puts a line behind the others. If its first event fails alone, it waits for a time
// of its own.
func (t *turns) later(l *line, alone bool) {
	if !alone {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.offer(l)
		return
	}
	if l.waits == nil {
		l.waits = newBackoff(firstWait, longestWait)
	}
	time.AfterFunc(l.waits.NextBackOff(), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.offer(l)
	})
}
