package gateway

import (
	"cmp"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// burstSeconds is how many seconds' worth of its rate a client may use at once after a pause: a
// batch of some thousand orders costs the door less than a second, and does not wait for ten.
const burstSeconds = 10

// limits are what one client can take of the door. A client's flood uses up its own.
type limits struct {
	pace *rate.Limiter

	mu      sync.Mutex
	working slots // requests that store or look something up
	waiting slots // long polls and feeds
}

// slots counts what is under way against a bound.
type slots struct{ used, most int }

func newLimits(e Entry) *limits {
	l := &limits{pace: rate.NewLimiter(rate.Inf, 0)}
	l.set(e)
	if e.Name == "" { // every program of this machine: it could run enqueue as well
		l.pace.SetLimit(rate.Inf)
	}
	return l
}

// set changes the limits to those of an entry, and leaves what is under way alone.
func (l *limits) set(e Entry) {
	perSec := cmp.Or(e.Rate, defaultRate)
	l.pace.SetBurst(perSec * burstSeconds)
	l.pace.SetLimit(rate.Limit(perSec))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.working.most, l.waiting.most = cmp.Or(e.InFlight, defaultInFlight), cmp.Or(e.Waiting, defaultWaiting)
}

// admit takes one request from the rate. It returns how long to wait instead; 0 = it is
// admitted.
func (l *limits) admit() (after time.Duration) {
	r := l.pace.Reserve()
	if after = r.Delay(); after > 0 {
		r.Cancel()
	}
	return after
}

// enter takes a slot. leave gives it back; nil = none is free.
func (l *limits) enter(wait bool) (leave func()) {
	s := &l.working
	if wait {
		s = &l.waiting
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.used >= s.most {
		return nil
	}
	s.used++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.used--
	}
}

// rate is the most orders a second; 0 = no bound.
func (l *limits) rate() float64 {
	if most := l.pace.Limit(); most != rate.Inf {
		return float64(most)
	}
	return 0
}

// seconds rounds a wait up to what Retry-After can say.
func seconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }
