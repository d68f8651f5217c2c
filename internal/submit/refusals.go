package submit

import (
	"context"
	"sync"
	"time"
)

// refusalDetector finds out whether the API refuses orders because of the orders or
// because of wrong settings, such as the URL or the rules file. It holds refusals
// back until then.
//
// A second one finds out whether orders break the user's schema because of the orders or because
// of the schema, until an order fulfils it (onBroken).
//
// A run is a sequence of refused orders without an order that was created. During a
// run, each refused order waits. An acceptance of any order shows that orders get through, and so
// does a duplicate if no rule gave a refusal: the waiting refusals are believed. If the run reaches its
// limit, all its orders go back to the queue and the gate shuts. If no other
// submission is active for the quiet time, the run consists of a few bad orders, and
// their refusals are believed.
type refusalDetector struct {
	limit int
	quiet time.Duration

	mu           sync.Mutex
	run          map[string]struct{} // distinct order numbers of the run
	ruled        bool                // a rule gave a refusal of the run
	decision     *refusalDecision    // that the pending refusals await
	pending      int
	active       int       // submissions, those with a pending refusal included
	created      bool      // the API created an order since the start, the last hold or new rules
	trustedUntil time.Time // until then refusals are believed, because a person confirmed them
	timer        *time.Timer
}

// refusalDecision says whether the refusals that await it are believed, once it is made.
type refusalDecision struct {
	made     chan struct{}
	believed bool
}

func newRefusalDetector(cfg Config) *refusalDetector {
	return &refusalDetector{limit: cfg.RefusalRun, quiet: cfg.RefusalQuiet, run: map[string]struct{}{}, decision: &refusalDecision{made: make(chan struct{})}}
}

// begin counts a submission as active until end.
func (d *refusalDetector) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active++
	d.restartTimer()
}

func (d *refusalDetector) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active--
	d.restartTimer()
}

// restartTimer restarts the quiet time if every active submission has a pending
// refusal, and stops it otherwise. The caller holds d.mu.
func (d *refusalDetector) restartTimer() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.pending == 0 || d.pending < d.active {
		return
	}
	var mine *time.Timer
	mine = time.AfterFunc(d.quiet, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timer == mine {
			d.decide(true)
		}
	})
	d.timer = mine
}

// decide ends the wait of all pending refusals. The caller holds d.mu.
func (d *refusalDetector) decide(believed bool) {
	d.decision.believed = believed
	close(d.decision.made)
	d.decision, d.pending = &refusalDecision{made: make(chan struct{})}, 0
	d.restartTimer()
}

// orderCreated ends the run: the API created an order.
func (d *refusalDetector) orderCreated() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.created = true
	d.endRun()
}

// orderKnown ends the run, unless a rule gave one of its refusals: that the API knows an order shows
// that requests arrive, and not that the rule reads answers right.
func (d *refusalDetector) orderKnown() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ruled {
		d.endRun()
	}
}

// endRun believes the refusals of the run. The caller holds d.mu.
func (d *refusalDetector) endRun() {
	if len(d.run) > 0 {
		clear(d.run)
		d.ruled = false
		d.decide(true)
	}
}

// sawCreation reports whether the API created an order since the start, the last hold or
// new rules.
func (d *refusalDetector) sawCreation() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.created
}

// believes reports whether a refusal would be believed at once: a person confirmed the
// refusals, or the API created an order since the start, the last hold or new rules.
func (d *refusalDetector) believes() bool {
	return d.trusted() || d.sawCreation()
}

// trusted reports whether a person confirmed the refusals.
func (d *refusalDetector) trusted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.trustedUntil)
}

// trustTime is how long refusals are believed after a person confirmed them. It is
// long enough to work off thousands of replayed orders that are refused again,
// without another hold at each run.
const trustTime = 15 * time.Minute

// rulesChanged ends what acceptances and a person confirmed: they confirmed it of the rules before.
func (d *refusalDetector) rulesChanged() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.created, d.trustedUntil = false, time.Time{}
}

// trust makes the detector believe all refusals for trustTime.
func (d *refusalDetector) trust() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trustedUntil = time.Now().Add(trustTime)
}

// report counts an order that was refused, by a rule or not. full says that the run is complete and its orders
// go back to the queue: it reached its limit, or certain is set. Otherwise the caller
// awaits the decision; nil means that the refusal is believed at once.
func (d *refusalDetector) report(orderNo string, certain, ruled bool) (awaits *refusalDecision, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !certain && (d.limit == 0 || time.Now().Before(d.trustedUntil)) {
		return nil, false
	}
	d.run[orderNo] = struct{}{}
	d.ruled = d.ruled || ruled
	if certain || len(d.run) >= d.limit {
		clear(d.run)
		d.created, d.ruled, d.trustedUntil = false, false, time.Time{}
		d.decide(false)
		return nil, true
	}
	d.pending++
	d.restartTimer()
	return d.decision, false
}

// await waits for the decision and reports whether the refusal is believed. Without a
// decision within refusalWait the refusal is believed: fewer orders than the limit can be
// wrong. If ctx ends first, the refusal is believed only if the API created orders before.
func (d *refusalDetector) await(ctx context.Context, awaits *refusalDecision) bool {
	t := time.NewTimer(refusalWait)
	defer t.Stop()
	late := false
	select {
	case <-awaits.made:
		return awaits.believed
	case <-t.C:
		late = true
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.decision != awaits { // made at the same moment
		return awaits.believed
	}
	d.pending--
	d.restartTimer()
	return late || d.created
}

func (d *refusalDetector) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
