package notify

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"orderpost/internal/settle"
)

const (
	// longestPause bounds the Retry-After that is honoured.
	longestPause = time.Hour
	// pauseEnds is the layout of what people read of it.
	pauseEnds = "nothing is sent until 15:04:05Z"
	// downAfter and downTries say when the receiver counts as down: it took nothing for so
	// long, or failed so often in a row. Then one event at a time is tried.
	downAfter = 5 * time.Second
	downTries = 2 * hands
	// firstProbe and longestProbe are the times between two such trials. Each is twice the one
	// before, give or take a half.
	firstProbe, longestProbe = 500 * time.Millisecond, 10 * time.Second
)

// receiver is what all attempts know of the receiver. While it takes nothing, they wait for
// one of them at a time, which is another event each time: so an event that the receiver
// refuses alone does not stand for it. Neither do those that are aside: many of them may be
// tried at once.
type receiver struct {
	probe chan struct{} // holds a token while one attempt tries whether the receiver is back

	mu       sync.Mutex
	taken    time.Time // when it last took an event
	failing  time.Time // the first failure since then; zero = none
	failures int
	down     bool
	returned chan struct{} // closes when it takes events again
	waits    *backoff.ExponentialBackOff
	next     time.Time // when it is tried next
	pause    time.Time // until then it asked not to be sent anything
	problem  string
	tell     func(problem string) // is called when the problem begins and ends; "" = ended
}

func newReceiver(tell func(string)) *receiver {
	return &receiver{probe: make(chan struct{}, 1), returned: make(chan struct{}), waits: newBackoff(firstProbe, longestProbe), tell: tell}
}

// newBackoff returns the times between attempts, which never end.
func newBackoff(first, longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(first), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(longest), backoff.WithMaxElapsedTime(0))
}

// enter waits until an attempt may be made. The caller calls leave after it. ok is false if
// ctx ended before.
func (r *receiver) enter(ctx context.Context) (leave func(), ok bool) {
	for {
		pause, down, returned := r.state()
		switch {
		case pause > 0:
			if settle.Sleep(ctx, pause) != nil {
				return nil, false
			}
			continue
		case !down:
			return func() {}, ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return nil, false
		case <-returned:
		case r.probe <- struct{}{}:
			if leave, ok = r.await(ctx, returned); leave != nil {
				return leave, ok
			}
		}
	}
}

// await waits for the time of the next trial. leave is nil if the receiver is back before.
func (r *receiver) await(ctx context.Context, returned <-chan struct{}) (leave func(), ok bool) {
	leave = func() { <-r.probe }
	r.mu.Lock()
	wait := time.Until(r.next)
	r.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		leave()
		return func() {}, false
	case <-returned:
		leave()
		return nil, false
	case <-timer.C:
		return leave, true
	}
}

func (r *receiver) state() (pause time.Duration, down bool, returned <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.pause), r.down, r.returned
}

// resume goes on with a pause that an earlier session was asked for. That may have been on
// another machine: this one's wall clock gives the end, and longestPause bounds it.
func (r *receiver) resume(until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := min(time.Until(until), longestPause)
	if left <= 0 {
		return
	}
	r.pause = time.Now().Add(left)
	r.say("the receiver asked for a pause; " + r.pause.UTC().Format(pauseEnds))
}

// pausedUntil returns when the pause ends that the receiver asked for; zero = there is none.
func (r *receiver) pausedUntil() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Until(r.pause) <= 0 {
		return time.Time{}
	}
	return r.pause.UTC()
}

// took notes that the receiver took an event. An event that was under way when another one was
// answered with a pause does not end that pause, nor what people read of it.
func (r *receiver) took() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken, r.failing, r.failures = time.Now(), time.Time{}, 0
	if r.down {
		r.down = false
		close(r.returned)
		r.returned = make(chan struct{})
	}
	if time.Until(r.pause) <= 0 {
		r.say("")
	}
}

// refused notes a failed attempt for an event, which may be aside. alone reports whether it is
// the event's own failure, as far as is known: the receiver is not down.
func (r *receiver) refused(a reply, isAside bool) (alone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !isAside {
		r.count(now)
	}
	if r.down && !now.Before(r.next) {
		r.next = now.Add(r.waits.NextBackOff())
		r.say(a.String())
	}
	return !r.down
}

// paused notes the pause that an answer asks for, and returns the answer with its end: people
// would wonder why nothing is tried.
func (r *receiver) paused(a reply) reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	if until := time.Now().Add(min(a.after, longestPause)); until.After(r.pause) {
		r.pause = until
	}
	if a.said != "" {
		a.said += "; "
	}
	a.said += r.pause.UTC().Format(pauseEnds)
	r.say(a.String())
	return a
}

// count counts a failure, after which the receiver may be down. The caller holds the lock.
func (r *receiver) count(now time.Time) {
	if r.failures++; r.failing.IsZero() {
		r.failing = now
	}
	if !r.down && (r.failures >= downTries || now.Sub(r.failing) >= downAfter) {
		r.down = true
		r.waits.Reset()
	}
}

// say tells when a problem begins and ends. The caller holds the lock.
func (r *receiver) say(problem string) {
	if (problem == "") != (r.problem == "") {
		r.tell(problem)
	}
	r.problem = problem
}

// takenSince reports whether the receiver took an event after t.
func (r *receiver) takenSince(t time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken.After(t)
}

// trouble returns why the receiver takes nothing; "" if it does.
func (r *receiver) trouble() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}
