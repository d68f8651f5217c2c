package fleet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/settle"
	"orderpost/internal/submit/gate"
)

const (
	// readEvery is how often a member reads the bucket, beside the watch. One that waits for the others to
	// see it reads every joinEvery.
	readEvery = 2 * time.Second
	joinEvery = 250 * time.Millisecond
	// overdueEvery is the shortest time between two looks at workers whose terms are over. Where the broker
	// is overloaded, those of many are.
	overdueEvery = 500 * time.Millisecond
	// announceEvery is how often it gives a sign of life.
	announceEvery = time.Second
	// fenceMargin is how long before the end of its term a member that cannot give
	// a sign of life stops sending.
	fenceMargin = 1500 * time.Millisecond
	// exchangeTimeout bounds one round.
	exchangeTimeout = 2 * time.Second
	// eraseAfter is how long a member reads no new sign of life before it erases a worker's entry.
	eraseAfter = time.Minute
)

// Reasons for which a member holds its gate.
const (
	holdJoining = "joining the fleet: the others have not made room for this worker yet"
	holdFenced  = "the fleet does not hear this worker; its share may be used by others"
)

// Options are what a member needs.
type Options struct {
	Control *Control
	Gate    *gate.Gate
	// Name is this worker's.
	Name string
	// Limit is the fleet's rate limit by the settings; 0 = none.
	Limit float64
	// Identity is the API that this worker posts to.
	Identity Identity
	// Describe gives the worker's Presence. The member fills in what it knows itself.
	Describe func() Presence
	// Cancel is told the cancellations; nil = nobody is.
	Cancel func(settle.Cancellations)
	// Look is called when a worker has found something at the streams, or the bucket cannot be
	// read; nil = nobody is.
	Look func()
	Log  zerolog.Logger
}

// Member is one worker's part in the fleet: it applies holds, limits and throttles
// to the worker's gate, and shares the rate limit (R12).
type Member struct {
	Options
	membership membership
	former     string     // the ID of a stay that may still be listed
	others     []Presence // the other workers that are present
	beat       uint64     // of our last sign of life
	share      float64
	limited    bool
	waiting    bool // for others that have not made room yet

	announced   Presence  // the last confirmed sign of life
	announcedAt time.Time // when it was sent
	unreachable bool      // the last round failed
	readAt      time.Time // when the bucket was read last

	// What the bucket said, as far as it is applied.
	read           bool   // the bucket has been read once
	hold           string // the reason of a person's hold
	holdRevision   uint64
	heldSince      time.Time
	foreign        string // why the fleet's API is not this worker's; "" if it is
	resumed        uint64
	looked         uint64 // revision of the last request to look
	cancelled      int64  // version of the cancellations
	throttle       uint64 // revision of the last throttle
	throttledUntil time.Time

	clockNote atomic.Pointer[string]
	clockMS   *int64 // the API's clock minus this machine's; nil = not known

	fence *time.Timer
	mu    sync.Mutex // guards fenced
	// fenced: the presence was not confirmed in time, and others may use our share.
	fenced bool
	held   atomic.Bool
}

// Held reports whether a person holds the fleet, as the member read last.
func (m *Member) Held() bool { return m.held.Load() }

// NewMember holds the gate until Run has read the bucket.
func NewMember(o Options) *Member {
	m := &Member{Options: o, membership: newMembership(make(map[string]sign))}
	m.Gate.Pause(holdJoining)
	m.fence = time.AfterFunc(time.Hour, m.stopSending)
	m.fence.Stop()
	return m
}

// Run takes part until ctx ends, then leaves. The pool must have stopped before:
// the others use this worker's share from then on.
func (m *Member) Run(ctx context.Context) {
	wake := make(chan struct{}, 1)
	var watching sync.WaitGroup
	watching.Go(func() { m.watch(ctx, wake) })
	defer watching.Wait()
	defer m.leave()
	tick := time.NewTimer(readEvery)
	defer tick.Stop()
	for woken := true; ctx.Err() == nil; {
		changed := m.Gate.Changed()
		m.announceThrottle(ctx)
		again := m.round(ctx, woken)
		if woken = false; again {
			continue
		}
		tick.Reset(m.pause(time.Now()))
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				waiting = false
			case <-wake:
				waiting, woken = false, true
			case <-changed:
				changed = m.Gate.Changed()
				m.announceThrottle(ctx)
			}
		}
	}
}

// pause is the time until the next round.
func (m *Member) pause(now time.Time) time.Duration {
	d := announceEvery
	if m.limited && !m.membership.joined && len(m.others) > 0 {
		d = joinEvery
	}
	return min(d, max(m.membership.nextTerm(now), overdueEvery))
}

// reads reports whether the bucket is to be read now, not only a sign of life to be given.
func (m *Member) reads(now time.Time) bool {
	return !m.membership.joined || m.unreachable || m.holdRevision > 0 || m.membership.nextTerm(now) == 0 || now.Sub(m.readAt) > readEvery-announceEvery/2
}

// watch wakes the member early. If the watch fails, the ticker has to do.
func (m *Member) watch(ctx context.Context, wake chan<- struct{}) {
	for ctx.Err() == nil {
		err := m.Control.bucket.Watch(ctx, controlPrefix, func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		if err != nil {
			m.Log.Debug().Err(err).Msg("the control bucket cannot be watched; it is read every two seconds")
		}
		select {
		case <-ctx.Done():
		case <-time.After(exchangeTimeout):
		}
	}
}

// round reads the bucket if it is time or the member was woken, obeys, and announces this worker. again means that it
// gave the first sign of life of this stay: the next round should come now.
func (m *Member) round(parent context.Context, woken bool) (again bool) {
	ctx, cancel := context.WithTimeout(parent, exchangeTimeout)
	defer cancel()
	m.rejoin()
	if !woken && !m.reads(time.Now()) {
		if err := m.announce(ctx); parent.Err() == nil {
			m.logReach(err)
		}
		return false
	}
	m.readAt = time.Now()
	view, err := m.Control.read(ctx)
	if err == nil && m.former != "" {
		if err = m.Control.Remove(ctx, Presence{Worker: m.Name, ID: m.former}); err == nil {
			m.former = ""
		}
	}
	if err == nil && view.Identity == nil && m.Identity.URL != "" { // the bucket was lost (worker repair)
		err = m.Control.ClaimIdentity(ctx, m.Identity, m.Name, m.Log)
	}
	if err == nil {
		listed := m.obey(view)
		m.Control.workers.Store(int64(len(m.others) + 1))
		m.endHold(ctx, view)
		m.eraseDead(ctx, view)
		m.noteClocks(view.Members)
		err = m.announce(ctx)
		again = err == nil && !listed
	}
	if parent.Err() == nil {
		m.logReach(err)
	}
	return again
}

// logReach logs the first of several failures, and their end.
func (m *Member) logReach(err error) {
	switch {
	case err != nil && !m.unreachable:
		m.Log.Warn().Err(err).Msg("the fleet's control bucket is out of reach; what it said last stands")
		m.look()
	case err == nil && m.unreachable:
		m.Log.Info().Msg("the fleet's control bucket is back")
	}
	m.unreachable = err != nil
}

func (m *Member) look() {
	if m.Look != nil {
		m.Look()
	}
}

// stopSending is called when the others are about to count this worker as gone.
func (m *Member) stopSending() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limited {
		m.Gate.Hold(holdFenced, time.Time{})
	}
	m.fenced = true
}

// rejoin begins a new stay after stopSending.
func (m *Member) rejoin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fenced {
		m.fenced, m.announcedAt, m.former = false, time.Time{}, m.membership.id
		m.membership = newMembership(m.membership.seen)
	}
}
