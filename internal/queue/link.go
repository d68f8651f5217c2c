package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"orderpost/internal/settle"
)

// errLinkBroken: the connection broke while something was waited for.
var errLinkBroken = errors.New("the connection to the broker broke")

// link is the connection as requests see it: what waits for an answer when it
// breaks waits in vain, and is looked up or repeated at once instead of at its
// timeout.
type link struct {
	mu     sync.Mutex
	broken chan struct{}
}

func (l *link) current() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = make(chan struct{})
	}
	return l.broken
}

func (l *link) breakOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		close(l.broken)
		l.broken = nil
	}
}

// bound gives one request its time: requestTimeout, or until the connection
// breaks.
func (l *link) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return l.within(ctx, requestTimeout)
}

// within gives several requests their time: d, or until the connection breaks.
func (l *link) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d)
	broken := l.current()
	go func() {
		select {
		case <-broken:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// pause sleeps for d, or returns ctx's error when ctx ends first.
func pause(ctx context.Context, d time.Duration) error { return settle.RealTime().Sleep(ctx, d) }
