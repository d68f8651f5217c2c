package queue

import (
	"context"
	"sync"
	"time"

	"orderpost/internal/settle"
)

// requestTimeout bounds one request to JetStream.
const requestTimeout = settle.RequestTimeout

// link tells requests that the connection broke. Their answers cannot come any
// more, so they end at once and not at their timeouts.
type link struct {
	mu     sync.Mutex
	broken chan struct{}
}

// disconnected returns a channel that closes when the connection breaks.
func (l *link) disconnected() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = make(chan struct{})
	}
	return l.broken
}

// disconnect ends all requests that wait.
func (l *link) disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		close(l.broken)
		l.broken = nil
	}
}

// bound returns the context of one request. It ends after requestTimeout or
// when the connection breaks.
func (l *link) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return l.within(ctx, requestTimeout)
}

// within returns the context of several requests. It ends after d or when the
// connection breaks.
func (l *link) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d)
	broken := l.disconnected()
	go func() {
		select {
		case <-broken:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// pause returns nil after d, or ctx's error when ctx ends first.
func pause(ctx context.Context, d time.Duration) error { return settle.RealTime().Sleep(ctx, d) }
