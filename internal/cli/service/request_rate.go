package service

import (
	"sync"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
)

// rateSeconds is the number of seconds over which requestRate averages.
const rateSeconds = 10

// requestRate measures this worker's requests per second, which the fleet shows. It
// implements submit.Observer and passes all events on.
type requestRate struct {
	next submit.Observer // nil = none

	mu     sync.Mutex
	began  time.Time
	latest latest
	slots  [rateSeconds + 1]struct {
		second int64
		n      int
		took   time.Duration // of these requests
	}
}

func newRequestRate(next submit.Observer) *requestRate {
	return &requestRate{next: next, began: time.Now()}
}

// Attempted implements submit.Observer.
func (p *requestRate) Attempted(a submit.AttemptEvent) {
	p.count(time.Now(), a.Duration)
	if p.next != nil {
		p.next.Attempted(a)
	}
}

// GateChanged implements submit.Observer.
func (p *requestRate) GateChanged(s gate.State) {
	if p.next != nil {
		p.next.GateChanged(s)
	}
}

// Retrying implements submit.Observer.
func (p *requestRate) Retrying(wait time.Duration, queued bool) {
	if p.next != nil {
		p.next.Retrying(wait, queued)
	}
}

// LookedUp implements submit.Observer.
func (p *requestRate) LookedUp(found order.Found) {
	if p.next != nil {
		p.next.LookedUp(found)
	}
}

func (p *requestRate) count(now time.Time, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.slots[now.Unix()%int64(len(p.slots))]
	if s.second != now.Unix() {
		s.second, s.n, s.took = now.Unix(), 0, 0
	}
	s.n++
	s.took += took
	p.latest.add(now, took)
}

// posting returns how many requests were at the API on average, over the same time
// as perSecond (Little's law).
func (p *requestRate) posting(now time.Time) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := max(now.Unix()-rateSeconds, p.began.Unix())
	var took time.Duration
	for _, s := range p.slots {
		if from <= s.second && s.second < now.Unix() {
			took += s.took
		}
	}
	return took.Seconds() / float64(max(now.Unix()-from, 1))
}

// perSecond returns the requests per second over the last ten full seconds, or since
// the start if that was later.
func (p *requestRate) perSecond(now time.Time) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := max(now.Unix()-rateSeconds, p.began.Unix())
	n := 0
	for _, s := range p.slots {
		if from <= s.second && s.second < now.Unix() {
			n += s.n
		}
	}
	return float64(n) / float64(max(now.Unix()-from, 1))
}
