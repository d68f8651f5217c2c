package submit

import (
	"context"
	"sync"
	"time"
)

// juryMax is the longest time for which a refusal is held back.
const juryMax = 15 * time.Second

// jury holds refusals back until it is known whether they are the orders'
// fault or ours (a wrong URL, a wrong rules file).
//
// A run of refusals is a sequence of refused orders without one that was
// created. While it lasts, each refused order waits here. An acceptance (or a
// duplicate) shows that orders get through: the waiting refusals are believed.
// If the run reaches its limit they are all called back to the queue, and the
// gate shuts. A run that just ends, because nothing else is under way for a
// quiet time, was a few bad orders: they are believed too.
type jury struct {
	limit int
	quiet time.Duration

	mu       sync.Mutex
	run      map[string]struct{} // distinct order numbers of the run
	members  map[*juror]struct{}
	underway int       // visits, members included
	created  bool      // some order was created since the start, or the last hold
	vouched  time.Time // until then: a person has said that refusals are right
	timer    *time.Timer
}

// juror is one refused order that waits. believed is sent once.
type juror struct{ believed chan bool }

func newJury(cfg Config) *jury {
	return &jury{limit: cfg.RefusalRun, quiet: cfg.RefusalQuiet, run: map[string]struct{}{}, members: map[*juror]struct{}{}}
}

// begin and end enclose a visit.
func (j *jury) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.underway++
	j.listen()
}

func (j *jury) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.underway--
	j.listen()
}

// listen starts or stops the quiet time.
func (j *jury) listen() {
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	if len(j.members) == 0 || len(j.members) < j.underway {
		return
	}
	var mine *time.Timer
	mine = time.AfterFunc(j.quiet, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.timer == mine {
			j.dismiss(true)
		}
	})
	j.timer = mine
}

// dismiss sends everybody home.
func (j *jury) dismiss(believed bool) {
	for m := range j.members {
		m.believed <- believed
	}
	clear(j.members)
	j.listen()
}

// orderCreated ends the run: the API creates orders.
func (j *jury) orderCreated() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.created = true
	if len(j.run) > 0 {
		clear(j.run)
		j.dismiss(true)
	}
}

// creating says whether an order was created since the start, or the last hold.
func (j *jury) creating() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.created
}

// vouchTime is how long a person's word that refusals are right holds: long
// enough for thousands of replayed orders that are refused again, with an
// acceptance here and there, to be worked off without being asked once more for
// every run of them.
const vouchTime = 15 * time.Minute

// vouch believes refusals for a while.
func (j *jury) vouch() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.vouched = time.Now().Add(vouchTime)
}

// refuse counts a refused order. full: the run has reached its limit (or must
// count as such: certain), everybody was called back. Else the juror is to be
// waited for; nil = believed at once.
func (j *jury) refuse(orderNo string, certain bool) (m *juror, full bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !certain && (j.limit == 0 || time.Now().Before(j.vouched)) {
		return nil, false
	}
	j.run[orderNo] = struct{}{}
	if certain || len(j.run) >= j.limit {
		clear(j.run)
		j.created, j.vouched = false, time.Time{}
		j.dismiss(false)
		return nil, true
	}
	m = &juror{believed: make(chan bool, 1)}
	j.members[m] = struct{}{}
	j.listen()
	return m, false
}

// await says whether the refusal is believed. When the visit must end, or no
// evidence came in time, it is believed if orders were created before it, and
// in the latter case anyway: not more than the limit can be wrong.
func (j *jury) await(ctx context.Context, m *juror) bool {
	t := time.NewTimer(juryMax)
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
	case b := <-m.believed: // decided in the same moment
		return b
	default:
	}
	delete(j.members, m)
	j.listen()
	return late || j.created
}

func (j *jury) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
}
