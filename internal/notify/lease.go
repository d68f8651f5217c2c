package notify

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// leaseTerm is how long a sender may act after its lease was confirmed.
	leaseTerm = 6 * time.Second
	// leaseMargin is the part of the term that it does not use: clocks run differently.
	leaseMargin = 1500 * time.Millisecond
	// renewEvery is how often it renews the lease, and stores its position with it.
	renewEvery = time.Second
	// leaveTime bounds the last write of a sender that stops.
	leaveTime = 2 * time.Second
)

// lease is one process's part in deciding who sends. Its methods are for one goroutine,
// but for held.
type lease struct {
	queue *queue.Queue
	self  string // names this run of the process
	mine  Kept

	revision uint64 // of our own entry; 0 = another process sends, or nobody
	until    atomic.Pointer[time.Time]

	seen   uint64    // the other process's last revision
	seenAt time.Time // since when
}

// held reports whether this process may send now, by the monotonic and the wall clock: a
// suspended machine stops the first one. It is safe for concurrent use.
func (l *lease) held() bool {
	until, now := l.until.Load(), time.Now()
	return until != nil && now.Before(*until) && now.Round(0).Before(until.Round(0))
}

// heldEvery is the time between two looks of await.
const heldEvery = 50 * time.Millisecond

// await waits until this process may send, and returns false if ctx ends first. A wall clock
// that was set ahead ends held until the next renewal, and not the session.
func (l *lease) await(ctx context.Context) bool {
	for !l.held() {
		if !sleep(ctx, heldEvery, nil) {
			return false
		}
	}
	return ctx.Err() == nil
}

// left returns for how long this process may still send.
func (l *lease) left() time.Duration {
	if until := l.until.Load(); until != nil {
		return time.Until(*until)
	}
	return 0
}

// acquire takes the lease if nobody else has it. begin makes the position of a fleet's
// first sender.
func (l *lease) acquire(ctx context.Context, begin func(context.Context) (Position, error)) (bool, error) {
	now, revision, err := readKept(ctx, l.queue)
	if err != nil {
		return false, err
	}
	if revision > 0 {
		l.mine.Position, l.mine.Fleet, l.mine.Pause, l.mine.Beat = now.Position, now.Fleet, now.Pause, now.Beat
	} else if l.mine.Position.Birth == 0 { // otherwise the bucket was lost, and this process knows
		if l.mine.Position, err = begin(ctx); err != nil {
			return false, err
		}
	}
	if now.Owner != "" && now.Owner != l.self && !l.expired(revision) {
		return false, nil
	}
	l.revision, l.mine.Since, l.mine.Problem = revision, time.Now().UTC(), ""
	return l.renew(ctx)
}

// renew keeps the lease and stores mine over our own entry. It returns false if another
// process has the lease. If somebody wrote the entry since, that may have been a write of ours
// whose confirmation was lost.
func (l *lease) renew(ctx context.Context) (bool, error) {
	for try := 1; ; try++ {
		sent := time.Now()
		l.mine.Beat++
		revision, err := l.queue.Bucket().Swap(ctx, senderKey, l.mine, l.revision)
		switch {
		case err == nil:
			l.revision = revision
			until := sent.Add(leaseTerm - leaseMargin)
			l.until.Store(&until)
			return true, nil
		case !errors.Is(err, settle.ErrStale):
			return l.held(), err
		case try == 1 && l.adopt(ctx):
		default: // another process was first
			l.drop()
			return false, nil
		}
	}
}

// adopt takes the stored entry for ours if it is.
func (l *lease) adopt(ctx context.Context) bool {
	now, revision, err := readKept(ctx, l.queue)
	if err != nil || now.Owner != l.self {
		return false
	}
	l.revision = revision
	return true
}

// expired reports whether another process's lease was not renewed for one term, by this
// machine's clock alone. The first look begins the term.
func (l *lease) expired(revision uint64) bool {
	if revision != l.seen || l.seenAt.IsZero() {
		l.seen, l.seenAt = revision, time.Now()
	}
	return time.Since(l.seenAt) > leaseTerm
}

func (l *lease) drop() {
	l.revision = 0
	l.until.Store(nil)
}

// leave stores the position for the last time, and lets another process send at once.
func (l *lease) leave() error {
	if l.revision == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	l.mine.Owner = ""
	_, err := l.renew(ctx)
	l.mine.Owner = l.self
	l.drop()
	return err
}
