package worker

import (
	"sync"
	"time"

	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
)

// paceSeconds is the time over which a worker's own rate is averaged.
const paceSeconds = 10

// pace counts this worker's requests, for the fleet to see. It implements
// submit.Observer and passes everything on.
type pace struct {
	next submit.Observer // may be nil

	mu    sync.Mutex
	began time.Time
	slots [paceSeconds + 1]struct {
		second int64
		n      int
	}
}

func newPace(next submit.Observer) *pace { return &pace{next: next, began: time.Now()} }

// Attempted implements submit.Observer.
func (p *pace) Attempted(a submit.AttemptEvent) {
	p.count(time.Now())
	if p.next != nil {
		p.next.Attempted(a)
	}
}

// GateChanged implements submit.Observer.
func (p *pace) GateChanged(s gate.State) {
	if p.next != nil {
		p.next.GateChanged(s)
	}
}

// Retrying implements submit.Observer.
func (p *pace) Retrying(wait time.Duration, queued bool) {
	if p.next != nil {
		p.next.Retrying(wait, queued)
	}
}

func (p *pace) count(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.slots[now.Unix()%int64(len(p.slots))]
	if s.second != now.Unix() {
		s.second, s.n = now.Unix(), 0
	}
	s.n++
}

// rate is requests per second over the last ten full seconds, or over fewer
// where the worker is younger.
func (p *pace) rate(now time.Time) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := max(now.Unix()-paceSeconds, p.began.Unix())
	n := 0
	for _, s := range p.slots {
		if from <= s.second && s.second < now.Unix() {
			n += s.n
		}
	}
	return float64(n) / float64(max(now.Unix()-from, 1))
}
