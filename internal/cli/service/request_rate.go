package service

import (
	"sync"
	"time"
)

// rateSeconds is the number of seconds over which requestRate averages.
const rateSeconds = 10

// requestRate measures this worker's requests per second, which the fleet shows.
type requestRate struct {
	mu     sync.Mutex
	began  time.Time
	latest latest
	slots  [rateSeconds + 1]struct {
		second int64
		n      int
		took   time.Duration // of these requests
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

// average returns the requests per second over the last ten full seconds, or since the start if that was
// later, and how many requests were at the API on average (Little's law).
func (p *requestRate) average(now time.Time) (perSecond, posting float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := max(now.Unix()-rateSeconds, p.began.Unix())
	n, took := 0, time.Duration(0)
	for _, s := range p.slots {
		if from <= s.second && s.second < now.Unix() {
			n, took = n+s.n, took+s.took
		}
	}
	seconds := float64(max(now.Unix()-from, 1))
	return float64(n) / seconds, took.Seconds() / seconds
}
