package simulation

import (
	"fmt"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// troubleLookup numbers the streams of how orders in doubt are looked up.
const troubleLookup = 104

// lookup says how the API is asked about orders in doubt. It refuses a request that is older than Window, and its
// replica, which is asked, lags by up to Lag.
type lookup struct {
	First, Window, Lag, AbsentFor time.Duration
	Repost                        bool
}

// String returns the settings, for traces.
func (l *lookup) String() string {
	if l == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *l)
}

// drawLookup draws whether and how the API is asked. An absence is believed once no request can be on its way that
// the API takes, and the replica has what it took.
func (p *plan) drawLookup(e *engine) {
	l := &lookup{First: e.between(0, 2*time.Second), Window: e.between(p.RequestTimeout, 4*p.RequestTimeout+2*time.Second), Lag: e.between(0, 3*time.Second), Repost: e.chance(0.5)}
	l.AbsentFor = l.Window + p.RequestTimeout + l.Lag
	p.Lookup = l
}

// asking is the number of the first person who has orders looked up.
const asking = 150

// ask lets a person have an order looked up some times: by an intent that is never posted (R3).
func (w *world) ask(i int) {
	no := w.orders[w.e.rng.IntN(len(w.orders))]
	w.process("anna-"+no, streamOf(ofPerson, i, 0, 0), w.e.between(0, w.cfg.Trouble), func(h *host) {
		for range 1 + h.e.rng.IntN(4) {
			w.replayWith(h, no, settle.ReplayOptions{Person: anna, LookupUntil: h.wall().Add(h.e.between(0, w.cfg.Trouble))})
			h.e.nap(h.e.between(0, w.cfg.Trouble/2))
		}
	})
}

// late returns how long a slow request takes to the API.
func (a *api) late(timeout time.Duration) time.Duration {
	most := 3 * timeout
	if l := a.w.cfg.Lookup; l != nil {
		most = max(most, timeout+l.Window)
	}
	return a.w.e.between(timeout/2, most)
}

// look answers a GET of an order.
func (a *api) look(no string) order.Found {
	w := a.w
	switch fault := w.drawAPIFault(no); {
	case fault != apiWorks && fault != apiRefuses && fault != apiIsSlow:
		return order.FoundNothing
	case a.exists(no) && a.w.e.at-a.since[no] >= w.e.between(0, w.cfg.Lookup.Lag):
		return order.FoundExists
	case w.refused[no] && !a.exists(no) && w.e.chance(0.5):
		a.finals[no] = w.e.at
		return order.FoundRejected
	default:
		return order.FoundAbsent
	}
}

// lookup returns how the API is asked about this order; nil = it is not.
func (v *submission) lookup() *lookup {
	if v.Allowed && v.attempts == 0 {
		return nil
	}
	return v.w.cfg.Lookup
}

// lookUp models submission.endDoubt and look.
func (v *submission) lookUp(l *lookup) order.End {
	h := &v.report.History
	if since := v.wall().Sub(h.LastAttemptAt); since >= 0 && since < l.First {
		return v.lookAgain(l.First - since)
	}
	if end := v.gate(); end != order.EndNone {
		return end
	}
	v.proc.step = StepPost
	v.e.nap(v.w.latency())
	found := v.w.api.look(v.d.OrderNo())
	v.e.nap(v.w.latency())
	v.boundary(v.proc)
	if v.ctx.Err() != nil {
		return v.interrupted()
	}
	quarantine := l.AbsentFor
	switch {
	case v.w.drops(Quarantine):
		quarantine /= 8
	case v.w.drops(Absent) && h.AbsentAt.IsZero():
		h.AbsentAt, quarantine = v.wall(), 0
	case v.w.drops(Across):
		v.AbsentFor = v.across(found)
	}
	v.report.Repost, v.report.Reason = l.Repost, "lookup: "+found.String()
	end := v.report.LookedUp(found, v.AbsentFor, quarantine, v.wall())
	v.say(v.d, "looked up", "%s: %s", found, end)
	switch {
	case end == order.EndAbsent && l.Repost && h.Attempts >= v.w.cfg.TotalAttempts:
		return order.EndTotalBudget
	case end == order.EndLookup:
		return v.lookAgain(quarantine - v.AbsentFor)
	default:
		return end
	}
}

// across implements the mutation Across.
func (v *submission) across(found order.Found) time.Duration {
	a, no := v.w.api, v.d.OrderNo()
	first, known := a.absent[no]
	switch {
	case found != order.FoundAbsent:
	case !known:
		a.absent[no] = v.e.at
	case v.report.History.AbsentAt.IsZero():
		v.report.History.AbsentAt = v.wall()
		return v.e.at - first
	}
	return v.AbsentFor
}

// lookAgain models submission.lookAgain.
func (v *submission) lookAgain(d time.Duration) order.End {
	v.report.Delay = max(time.Second, min(d, v.w.cfg.DelayMax))
	return order.EndLookup
}
