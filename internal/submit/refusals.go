package submit

import (
	"context"
	"sync"
	"time"
)

// refusalWaitMax is the longest time for which a refusal is held back.
const refusalWaitMax = 15 * time.Second

// refusalDetector finds out whether the API refuses orders because of the orders or
// because of wrong settings, such as the URL or the rules file. It holds refusals
// back until then.
//
// A run is a sequence of refused orders without an order that was created. During a
// run, each refused order waits. An acceptance or a duplicate of any order shows that
// orders get through: the waiting refusals are believed. If the run reaches its
// limit, all its orders go back to the queue and the gate shuts. If no other
// submission is active for the quiet time, the run consists of a few bad orders, and
// their refusals are believed.
type refusalDetector struct {
	limit int
	quiet time.Duration

	mu           sync.Mutex
	run          map[string]struct{} // distinct order numbers of the run
	pending      map[*pendingRefusal]struct{}
	active       int       // submissions, those with a pending refusal included
	created      bool      // the API created an order since the start or the last hold
	trustedUntil time.Time // until then refusals are believed, because a person confirmed them
	timer        *time.Timer
}

// pendingRefusal is one refused order that waits. The detector sends to believed once.
type pendingRefusal struct{ believed chan bool }

func newRefusalDetector(cfg Config) *refusalDetector {
	return &refusalDetector{limit: cfg.RefusalRun, quiet: cfg.RefusalQuiet, run: map[string]struct{}{}, pending: map[*pendingRefusal]struct{}{}}
}

// begin counts a submission as active until end.
func (j *refusalDetector) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.active++
	j.restartTimer()
}

func (j *refusalDetector) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.active--
	j.restartTimer()
}

// restartTimer restarts the quiet time if every active submission has a pending
// refusal, and stops it otherwise. The caller holds j.mu.
func (j *refusalDetector) restartTimer() {
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	if len(j.pending) == 0 || len(j.pending) < j.active {
		return
	}
	var mine *time.Timer
	mine = time.AfterFunc(j.quiet, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.timer == mine {
			j.resolve(true)
		}
	})
	j.timer = mine
}

// resolve ends the wait of all pending refusals. The caller holds j.mu.
func (j *refusalDetector) resolve(believed bool) {
	for m := range j.pending {
		m.believed <- believed
	}
	clear(j.pending)
	j.restartTimer()
}

// orderCreated ends the run: the API created an order.
func (j *refusalDetector) orderCreated() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.created = true
	if len(j.run) > 0 {
		clear(j.run)
		j.resolve(true)
	}
}

// sawCreation reports whether the API created an order since the start or the last
// hold.
func (j *refusalDetector) sawCreation() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.created
}

// trustTime is how long refusals are believed after a person confirmed them. It is
// long enough to work off thousands of replayed orders that are refused again,
// without another hold at each run.
const trustTime = 15 * time.Minute

// trust makes the detector believe all refusals for trustTime.
func (j *refusalDetector) trust() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trustedUntil = time.Now().Add(trustTime)
}

// report counts a refused order. full says that the run is complete and its orders
// go back to the queue: it reached its limit, or certain is set. Otherwise the caller
// awaits m; nil means that the refusal is believed at once.
func (j *refusalDetector) report(orderNo string, certain bool) (m *pendingRefusal, full bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !certain && (j.limit == 0 || time.Now().Before(j.trustedUntil)) {
		return nil, false
	}
	j.run[orderNo] = struct{}{}
	if certain || len(j.run) >= j.limit {
		clear(j.run)
		j.created, j.trustedUntil = false, time.Time{}
		j.resolve(false)
		return nil, true
	}
	m = &pendingRefusal{believed: make(chan bool, 1)}
	j.pending[m] = struct{}{}
	j.restartTimer()
	return m, false
}

// await waits for the decision and reports whether the refusal is believed. Without a
// decision within refusalWaitMax the refusal is believed: fewer orders than the limit
// can be wrong. If ctx ends first, the refusal is believed only if the API created
// orders before.
func (j *refusalDetector) await(ctx context.Context, m *pendingRefusal) bool {
	t := time.NewTimer(refusalWaitMax)
	defer t.Stop()
	late := false
	select {
	case b := <-m.believed:
		return b
	case <-t.C:
		late = true
	case <-ctx.Done():
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case b := <-m.believed: // decided at the same moment
		return b
	default:
	}
	delete(j.pending, m)
	j.restartTimer()
	return late || j.created
}

func (j *refusalDetector) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
}
