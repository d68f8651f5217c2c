package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// LeaseTerm is how long a process may lead after the broker confirmed its lease. Another
	// one takes over once it has seen no renewal for this time.
	LeaseTerm = 6 * time.Second
	// LeaseRenewal is the time between two renewals.
	LeaseRenewal = time.Second
	// leaseMargin is the part of the term that a leader does not use: clocks run differently,
	// and a request may be on its way.
	leaseMargin = 1500 * time.Millisecond
	// leaseLook is the time between two looks of Await.
	leaseLook = 50 * time.Millisecond
	// leaveTime bounds the last write of a leader that stops.
	leaveTime = 2 * time.Second
)

// Leader is the part of a lease's stored value that all leases have. The value embeds it.
type Leader struct {
	// Owner is unique for each run of a process; empty = nobody leads.
	Owner string `json:"owner,omitempty"`
	// Process is its name for people.
	Process string    `json:"process,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Beat counts renewals, so that each is another value.
	Beat uint64 `json:"beat"`
	// Problem is why the leader gets nothing done at the moment.
	Problem string `json:"problem,omitempty"`
}

func (l *Leader) leader() *Leader { return l }

// Lease is one process's part in deciding which process of a fleet leads. The lease is a key
// of the bucket that only the leader writes, by compare-and-set. Its methods are for one
// goroutine, but for Held, Await and Left.
type Lease struct {
	// Owner names this run of the process.
	Owner string
	// Clock is time.Now, except in tests.
	Clock func() time.Time

	bucket *queue.Bucket
	key    string
	value  interface{ leader() *Leader }
	adopt  func(ctx context.Context, stored []byte) error

	revision uint64 // of our own entry; 0 = another process leads, or nobody
	renewed  time.Time
	changed  bool
	until    atomic.Pointer[time.Time]

	seen   uint64    // the other process's last revision
	seenAt time.Time // since when
}

// NewLease returns a process's part in the lease that a key holds. The lease stores value, which
// embeds [Leader], whenever it renews. It calls adopt with what is stored (nil = nothing) before
// it acquires the lease, and each time it finds another leader. An error of adopt is Keep's.
func NewLease(b *queue.Bucket, key, process string, value interface{ leader() *Leader }, adopt func(ctx context.Context, stored []byte) error) *Lease {
	value.leader().Process = process
	return &Lease{Owner: rand.Text(), Clock: time.Now, bucket: b, key: key, value: value, adopt: adopt}
}

// Keep acquires the lease if no other process has it, and renews it every LeaseRenewal. It returns
// whether this process leads.
func (l *Lease) Keep(ctx context.Context) (bool, error) {
	if l.revision != 0 {
		if !l.changed && l.Held() && l.Clock().Sub(l.renewed) < LeaseRenewal {
			return true, nil
		}
		return l.renew(ctx)
	}
	stored, revision, data, err := l.read(ctx)
	if err != nil {
		return false, err
	}
	if err := l.adopt(ctx, data); err != nil {
		return false, err
	}
	if stored.Owner != "" && stored.Owner != l.Owner && !l.expired(revision) {
		return false, nil
	}
	l.revision = revision
	*l.value.leader() = Leader{Owner: l.Owner, Process: l.value.leader().Process, Since: time.Now().UTC(), Beat: stored.Beat}
	return l.renew(ctx)
}

// Changed makes the next Keep store the value at once.
func (l *Lease) Changed() { l.changed = true }

// Revision returns the revision of the last renewal.
func (l *Lease) Revision() uint64 { return l.revision }

// Held reports whether this process may act now, by the monotonic and by the wall clock: a
// suspended machine stops the first one.
func (l *Lease) Held() bool {
	until, now := l.until.Load(), l.Clock()
	return until != nil && now.Before(*until) && now.Round(0).Before(until.Round(0))
}

// Await waits until this process may act, and returns false if ctx ends first. A wall clock
// that was set ahead ends Held until the next renewal.
func (l *Lease) Await(ctx context.Context) bool {
	for !l.Held() {
		if settle.Sleep(ctx, leaseLook) != nil {
			return false
		}
	}
	return ctx.Err() == nil
}

// Until returns when this process may act no more; zero = it does not lead.
func (l *Lease) Until() time.Time {
	if until := l.until.Load(); until != nil {
		return *until
	}
	return time.Time{}
}

// Leave stores the value for the last time, and lets another process lead at once.
func (l *Lease) Leave() error {
	if l.revision == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	l.value.leader().Owner = ""
	_, err := l.renew(ctx)
	l.drop()
	return err
}

// renew stores the value over our own entry. If somebody wrote that since, it may have been a
// write of ours whose confirmation was lost.
func (l *Lease) renew(ctx context.Context) (bool, error) {
	for again := false; ; again = true {
		sent := l.Clock()
		l.value.leader().Beat++
		revision, err := l.bucket.Swap(ctx, l.key, l.value, l.revision)
		switch {
		case err == nil:
			until := sent.Add(LeaseTerm - leaseMargin)
			l.until.Store(&until)
			l.revision, l.renewed, l.changed = revision, sent, false
			return true, nil
		case !errors.Is(err, settle.ErrStale):
			if !l.Held() {
				l.drop() // the next Keep reads what is stored
			}
			return l.revision != 0, err
		case again || !l.ours(ctx): // another process was first
			l.drop()
			return false, nil
		}
	}
}

// ours takes the stored entry for ours if it is.
func (l *Lease) ours(ctx context.Context) bool {
	stored, revision, _, err := l.read(ctx)
	if err != nil || stored.Owner != l.Owner {
		return false
	}
	l.revision = revision
	return true
}

// read reads the stored value; revision 0 = there is none. A value that this version cannot
// read is another process's.
func (l *Lease) read(ctx context.Context) (stored Leader, revision uint64, data []byte, err error) {
	e, err := l.bucket.Get(ctx, l.key)
	if errors.Is(err, queue.ErrNoKey) {
		return stored, 0, nil, nil
	}
	if err == nil && json.Unmarshal(e.Value, &stored) != nil {
		stored = Leader{Owner: "unreadable"}
	}
	return stored, e.Revision, e.Value, err
}

// expired reports whether another process's lease was not renewed for one term, by this
// machine's clock alone. The first look begins the term.
func (l *Lease) expired(revision uint64) bool {
	if now := l.Clock(); revision != l.seen || l.seenAt.IsZero() {
		l.seen, l.seenAt = revision, now
	}
	return l.Clock().Sub(l.seenAt) > LeaseTerm
}

func (l *Lease) drop() {
	l.revision = 0
	l.until.Store(nil)
}
