package sandbox

import (
	"net/http"
	"sync"
	"time"
)

const (
	// maxTrail is the most requests that a trail keeps.
	maxTrail = 1_000_000
	// trailBody is the most bytes of a body that a trail keeps.
	trailBody = 2 << 10
)

// Step is one request of the trail.
type Step struct {
	At      time.Time `json:"at"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	OrderNo string    `json:"order_no,omitempty"`
	Answer  string    `json:"answer"`
	Status  int       `json:"status"`
	Fault   string    `json:"fault,omitempty"`
	Slow    bool      `json:"slow,omitempty"`
	// Body is the beginning of the request's body, at most two kilobytes.
	Body string `json:"body,omitempty"`
}

// trail is a ring of the last requests. It is nil if the server keeps none.
type trail struct {
	mu    sync.Mutex
	steps []Step
	next  int
}

func newTrail(size int) *trail {
	if size == 0 {
		return nil
	}
	return &trail{steps: make([]Step, 0, size)}
}

func (t *trail) add(x *exchange, a Answer, status int) {
	if t == nil {
		return
	}
	step := Step{
		At: x.now, Method: x.r.Method, Path: x.r.URL.Path, OrderNo: string(x.orderNo),
		Answer: a.String(), Status: status, Slow: x.decision.slow,
	}
	if x.r.Method == http.MethodPost {
		step.Body = string(x.raw[:min(len(x.raw), trailBody)])
	}
	if x.decision.fault != NoFault {
		step.Fault = x.decision.fault.String()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.steps) < cap(t.steps) {
		t.steps = append(t.steps, step)
		return
	}
	t.steps[t.next] = step
	t.next = (t.next + 1) % len(t.steps)
}

// list returns the steps, oldest first.
func (t *trail) list() []Step {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(append([]Step{}, t.steps[t.next:]...), t.steps[:t.next]...)
}
