package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/queue"
	"orderpost/internal/submit/gate"
)

const (
	// fleetEvery is how often the control bucket is read, beside the watch.
	fleetEvery = 500 * time.Millisecond
	// presenceEvery is how often a worker says that it is there.
	presenceEvery = time.Second
	// fleetMargin is how long before the others take it for gone a worker that
	// cannot say that it is there stops sending.
	fleetMargin = 1500 * time.Millisecond
	// fleetTimeout bounds one exchange with the bucket.
	fleetTimeout = 2 * time.Second
	// forgetAfter is the age at which the entry of a worker that died is removed.
	forgetAfter = time.Minute
)

// Holds of the gate that the fleet causes.
const (
	holdJoining = "joining the fleet: the others have not made room for this worker yet"
	holdAlone   = "the fleet does not hear this worker; its share may be used by others"
)

// FleetOptions are what a worker's part in the fleet needs.
type FleetOptions struct {
	Queue *queue.Queue
	Gate  *gate.Gate
	// Name is this worker's.
	Name string
	// KeyMark tells workers with the same API key.
	KeyMark func() string
	// Limit is the fleet's rate limit by the settings; 0 = none.
	Limit float64
	// Identity is the API that this worker posts to.
	Identity queue.Identity
	// Tell describes the worker; what the fleet itself knows is filled in.
	Tell func() queue.Presence
	Log  zerolog.Logger
}

// Fleet is a worker's part in the fleet: it applies holds, limits and
// throttles, and shares the rate limit (R12).
type Fleet struct {
	FleetOptions
	me       membership
	others   []string // as they were said to be seen last
	share    float64
	limited  bool
	waits    bool      // others were seen that have not made room yet
	said     time.Time // when presence was confirmed last (time of sending)
	saidAs   queue.Presence
	former   string // a place that we gave up, whose entry may still be there
	hold     string // the person's hold that stands in the gate
	until    time.Time
	foreign  string // the hold of a worker whose API is not the fleet's any more
	resumed  uint64
	heard    uint64    // revision of the last throttle that was applied
	throttle time.Time // end of the throttle that the fleet knows of
	read     bool      // the bucket has been read once
	failing  bool
	troubles *troubles

	fence *time.Timer
	mu    sync.Mutex // guards fenced
	// fenced: the presence was not confirmed in time, and others may use our share.
	fenced bool
}

// NewFleet holds the gate until Run has read the fleet's state.
func NewFleet(o FleetOptions) *Fleet {
	f := &Fleet{FleetOptions: o, me: membership{id: newRunID()}}
	f.Gate.Pause(holdJoining)
	f.fence = time.AfterFunc(time.Hour, f.alone)
	f.fence.Stop()
	f.troubles = newTroubles(f)
	return f
}

// Run takes part until ctx ends, then leaves. The pool must have stopped
// before: the others use this worker's share from then on.
func (f *Fleet) Run(ctx context.Context) {
	wake := make(chan struct{}, 1)
	var watching sync.WaitGroup
	watching.Go(func() { f.watch(ctx, wake) })
	defer watching.Wait()
	defer f.leave()
	tick := time.NewTicker(fleetEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		changed := f.Gate.Changed()
		f.passOn(ctx)
		if again := f.round(ctx); again {
			continue
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				waiting = false
			case <-wake:
				waiting = false
			case <-changed:
				changed = f.Gate.Changed()
				f.passOn(ctx)
				waiting = !f.troubles.changed()
			}
		}
	}
}

// watch wakes the fleet early. Where it fails, reading from time to time has to do.
func (f *Fleet) watch(ctx context.Context, wake chan<- struct{}) {
	for ctx.Err() == nil {
		err := f.Queue.WatchFleet(ctx, func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		if err != nil {
			f.Log.Debug().Err(err).Msg("the control bucket cannot be watched; it is read every half second")
		}
		select {
		case <-ctx.Done():
		case <-time.After(fleetTimeout):
		}
	}
}

// round reads the bucket, obeys, and says that we are there. again: our first
// sign of life was given, and what it led to should be looked at now.
func (f *Fleet) round(parent context.Context) (again bool) {
	ctx, cancel := context.WithTimeout(parent, fleetTimeout)
	defer cancel()
	f.renew()
	view, err := f.Queue.ReadFleet(ctx)
	if err == nil && f.former != "" {
		if err = f.Queue.Depart(ctx, f.former); err == nil {
			f.former = ""
		}
	}
	if err == nil {
		listed := f.obey(view)
		f.forget(ctx, view)
		if err = f.say(ctx); err == nil && listed {
			err = f.troubles.obey(ctx, view)
		}
		again = err == nil && !listed
	}
	if parent.Err() == nil {
		f.tell(err)
	}
	return again
}

// tell logs a failure once, and its end.
func (f *Fleet) tell(err error) {
	switch {
	case err != nil && !f.failing:
		f.Log.Warn().Err(err).Msg("the fleet's control bucket is out of reach; what it said last stands")
	case err == nil && f.failing:
		f.Log.Info().Msg("the fleet's control bucket is back")
	}
	f.failing = err != nil
}

// renew takes a new place in the fleet after the old one may have been given up.
func (f *Fleet) renew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fenced {
		f.fenced, f.said, f.former = false, time.Time{}, f.me.id
		f.me = membership{id: newRunID()}
	}
}

// alone ends the sending: the others are about to take us for gone.
func (f *Fleet) alone() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limited {
		f.Gate.Hold(holdAlone, time.Time{})
	}
	f.fenced = true
}

// obey applies what the bucket says, in an order that never lets more through
// than before: holds first, then the share.
func (f *Fleet) obey(view *queue.Fleet) (listed bool) {
	f.obeyIdentity(view)
	f.obeyHold(view)
	f.obeyThrottle(view)
	if f.read && view.Resumed != f.resumed {
		f.Log.Info().Msg("a person resumed the fleet")
		f.Gate.ResumeAnswers()
	}
	f.resumed, f.read = view.Resumed, true
	f.others, listed = f.me.observe(view.Members)
	f.divide(fleetLimit(view, f.Limit, f.others))
	return listed
}

// divide keeps to our share of the limit, and holds the gate while we have none.
func (f *Fleet) divide(limit float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limited = limit > 0
	share := limit / float64(len(f.others)+1)
	if f.limited && !f.me.joined {
		f.Gate.Pause(holdJoining)
		if len(f.others) > 0 && !f.waits {
			f.Log.Info().Int("others", len(f.others)).Msg("waiting until the other workers have made room for this one below the rate limit")
		}
		f.waits = len(f.others) > 0
	}
	if share != f.share || f.Gate.State().Rate != share {
		e := f.Log.Info()
		if len(f.others) == 0 && f.share == 0 { // the setting, of a worker that starts alone
			e = f.Log.Debug()
		}
		e.Float64("limit", limit).Float64("share", share).Int("workers", len(f.others)+1).Msg("share of the rate limit")
		f.Gate.SetLimit(share)
		f.share = share
	}
	if !f.limited || f.me.joined && !f.fenced {
		f.Gate.Release(holdJoining)
		f.Gate.Release(holdAlone)
	}
}

// obeyIdentity stops a worker whose fleet was given another API: by a person
// (worker adopt), or by a worker that found nothing stored for this one's.
func (f *Fleet) obeyIdentity(view *queue.Fleet) {
	text := ""
	if c := view.Identity; c != nil && f.Identity.URL != "" && f.Identity.Contradicts(c.Identity) {
		text = fmt.Sprintf("the fleet posts to %s since %s, and this worker to %s: restart it with the fleet's settings", c.Identity, c.At.Format(time.RFC3339), f.Identity)
	}
	if text == f.foreign {
		return
	}
	if text != "" {
		f.Log.Error().Str("by", view.Identity.By).Msg(text)
		f.Gate.Hold(text, time.Time{})
	}
	if f.foreign != "" {
		f.Gate.Release(f.foreign)
	}
	f.foreign = text
}

func (f *Fleet) obeyHold(view *queue.Fleet) {
	text, until := "", time.Time{}
	if len(view.Unreadable) > 0 {
		text = "the control bucket's " + strings.Join(view.Unreadable, " and ") + " cannot be read by this version: upgrade it, or use worker resume and worker limit"
	}
	if h := view.Hold; h != nil && (h.Until.IsZero() || time.Now().Before(h.Until)) {
		text, until = "held by "+orSomebody(h.By), h.Until
		if h.Reason != "" {
			text += ": " + h.Reason
		}
	}
	if text == f.hold && until.Equal(f.until) {
		return
	}
	if text != "" {
		f.Gate.Hold(text, until)
	}
	if f.hold != "" && f.hold != text {
		f.Gate.Release(f.hold)
	}
	f.hold, f.until = text, until
}

func orSomebody(name string) string {
	if name == "" {
		return "somebody"
	}
	return name
}

// obeyThrottle waits for what another worker was told by the API.
func (f *Fleet) obeyThrottle(view *queue.Fleet) {
	t := view.Throttle
	if t == nil || t.Revision == f.heard {
		return
	}
	f.heard = t.Revision
	own := slices.IndexFunc(view.Members, func(p queue.Presence) bool { return p.ID == f.me.id })
	if own < 0 || t.Worker == f.me.id {
		return
	}
	// The end by our clock: our own sign of life ties it to the broker's.
	until := f.said.Add(t.At.Add(t.For).Sub(view.Members[own].SeenAt))
	if until.After(time.Now()) {
		f.throttle = until
		f.Gate.ThrottleUntil(until, "the API asked another worker for slower requests")
	}
}

// passOn tells the fleet when the API asked this worker for slower requests.
func (f *Fleet) passOn(ctx context.Context) {
	for _, b := range f.Gate.State().Blocks {
		wait := time.Until(b.Until)
		if b.Name != gate.BlockThrottle || wait <= 0 || !b.Until.After(f.throttle.Add(10*time.Millisecond)) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
		defer cancel()
		if err := f.Queue.SayThrottle(ctx, queue.Throttle{Worker: f.me.id, For: wait}); err != nil {
			f.Log.Debug().Err(err).Msg("throttle not passed on")
			return
		}
		f.throttle = b.Until
	}
}

// say gives a sign of life where one is due. What it says of our share is true
// already.
func (f *Fleet) say(ctx context.Context) error {
	p := f.Tell()
	p.ID, p.Sees, p.Limit, p.Share, p.Joined = f.me.id, f.others, f.Limit, f.share, f.me.joined
	same := slices.Equal(p.Sees, f.saidAs.Sees) && p.Joined == f.saidAs.Joined && p.ID == f.saidAs.ID && p.Share == f.saidAs.Share
	sent := time.Now()
	if same && sent.Sub(f.said) < presenceEvery {
		return nil
	}
	if err := f.Queue.Appear(ctx, p); err != nil {
		return err
	}
	f.said, f.saidAs = sent, p
	f.fence.Reset(queue.PresenceTerm - fleetMargin - time.Since(sent))
	return nil
}

// forget removes the entries of workers that died long ago.
func (f *Fleet) forget(ctx context.Context, view *queue.Fleet) {
	own := slices.IndexFunc(view.Members, func(p queue.Presence) bool { return p.ID == f.me.id })
	if own < 0 {
		return
	}
	for _, p := range view.Members {
		if view.Members[own].SeenAt.Sub(p.SeenAt) > forgetAfter {
			if err := f.Queue.Forget(ctx, p); err != nil {
				f.Log.Debug().Err(err).Str("gone", p.Worker).Msg("entry of a worker that died not removed")
			}
		}
	}
}

// leave gives our share to the others at once.
func (f *Fleet) leave() {
	f.fence.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := f.Queue.Depart(ctx, f.me.id); err != nil {
		f.Log.Debug().Err(fmt.Errorf("leaving the fleet: %w", err)).Msg("the others will find out in a few seconds")
	}
}
