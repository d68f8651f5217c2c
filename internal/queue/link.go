package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"orderpost/internal/settle"
)

// errLinkBroken means that the connection broke while a request waited.
var errLinkBroken = errors.New("the connection to the broker broke")

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

// outlive returns a context for the answers to what was sent. It outlives ctx until the
// connection breaks.
func (cn *Conn) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	answers, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		defer cancel()
		if broken := cn.link.disconnected(); cn.Connected() {
			select {
			case <-broken:
			case <-answers.Done():
			}
		}
	})
	return answers, func() { stop(); cancel() }
}

// pause returns nil after d, or ctx's error when ctx ends first.
func pause(ctx context.Context, d time.Duration) error { return settle.RealTime().Sleep(ctx, d) }

// roundTrip measures the way to the broker and back, where nothing is stored. It returns 0
// while the broker is out of reach.
func (cn *Conn) roundTrip() time.Duration {
	ctx, cancel := cn.link.bound(context.Background())
	defer cancel()
	began := time.Now()
	if cn.nc.FlushWithContext(ctx) != nil {
		return 0
	}
	return time.Since(began)
}
