package simulation

import (
	"context"
	"fmt"
	"time"

	"orderpost/internal/order"
)

// focusOnCorrections turns a plan towards what is rare otherwise: an order is in doubt, and
// other bodies of it are stored, withheld, permitted, refused and withdrawn, while late
// answers arrive and people act on what they see. Half of the schedules have no other
// trouble than that.
func (p *plan) focusOnCorrections(e *engine) {
	r := e.rng
	some := func(share, most float64) float64 {
		if r.Float64() >= share {
			return 0
		}
		return most * r.Float64()
	}
	if r.Float64() < 0.6 {
		p.Duplicates = Refuses
	}
	if p.Policy = order.Resubmit; r.Float64() < 0.55 {
		p.Policy = order.Park
	}
	p.Orders, p.Workers = 1+r.IntN(2), 1+r.IntN(3)
	p.Corrections, p.Attentive, p.Persons = 2+r.IntN(5), 1+r.IntN(3), r.IntN(8)
	p.TotalAttempts, p.SubmissionAttempts, p.DelayBase = 1+r.IntN(3), 1+r.IntN(2), 500*time.Millisecond
	p.Trouble = time.Duration(20+r.IntN(80)) * time.Second
	p.FreezeAfterPost, p.FreezeBeforePost = some(0.6, 0.4), some(0.3, 0.2)
	p.Drains, p.Crashes = 0, p.Crashes/2
	p.APIFaults = [len(p.APIFaults)]float64{
		apiDropsAnswer: some(0.6, 0.9), apiCreatesAndFails: some(0.5, 0.9), apiDropsRequest: some(0.5, 0.9), apiIsSlow: some(0.5, 0.9), apiFails: some(0.4, 0.9),
		apiRefuses: some(0.5, 0.9), apiProvesNothing: some(0.25, 0.5), apiThrottles: some(0.2, 0.5),
	}
	if r.IntN(2) == 0 {
		p.ClockJumps, p.Suspends, p.FullDisks, p.Partitions, p.SleptThrough, p.Cuts, p.BrokerKills = 0, 0, 0, 0, 0, 0, p.BrokerKills/2
		p.Replicas, p.Stalls, p.LeaderChanges, p.BatchChanges, p.ConsumerChanges = 0, 0, 0, 0, 0
		p.GateBusy, p.CallBack, p.Slow = 0, 0, 0
	}
}

// correct lets producers submit an order_no again and again: with another body, with the
// first one or that of an earlier correction, under an ID of their own or an earlier one.
func (w *world) correct(no string) {
	r := w.e.rng
	bodies := []int{0}
	if r.Float64() < 0.03 {
		bodies[0] = invalidBody
	}
	w.submit(no, 1, no+"-1", bodies[0], w.e.between(0, time.Second))
	for i := 2; i < 2+w.cfg.Corrections; i++ {
		id, body := fmt.Sprint(no, "-", i), i
		switch n, before := r.IntN(20), r.IntN(i-1); {
		case n < 10:
		case n < 13:
			body = bodies[0]
		case n < 16:
			id, body = fmt.Sprint(no, "-", before+1), bodies[before]
		case n < 17:
			body = bodies[before]
		case n < 18:
			id = ""
		default:
			body = invalidBody
		}
		bodies = append(bodies, body)
		w.submit(no, i, id, body, w.e.between(0, w.cfg.Trouble))
	}
}

// attentive is the number of the first person who comes back to an order.
const attentive = 100

// attend lets a person come back to an order, and act on what she sees.
func (w *world) attend(i int) {
	no := w.orders[w.e.rng.IntN(len(w.orders))]
	w.process("anna-"+no, streamOf(ofPerson, i, 0, 0), w.e.between(0, w.cfg.Trouble/2), func(h *host) {
		for range 2 + h.e.rng.IntN(5) {
			h.e.nap(h.e.between(0, w.cfg.Trouble/4))
			switch n := h.e.rng.IntN(20); {
			case n < 9:
				w.resubmit(h, no)
			case n < 11:
				w.replay(h, no)
			case n < 14:
				w.resolve(h, no)
			case n < 17:
				w.correctWord(h, no)
			case n < 18:
				w.cancel(h, no)
			default:
				w.dropLetter(h, no)
			}
		}
	})
}

// correctWord lets a person look up an order that is in doubt or that somebody settled, and
// record the result.
func (w *world) correctWord(h *host, no string) {
	for range 12 {
		seen, err := h.q.Ledger.Lookup(context.Background(), no)
		if err != nil || w.api.underway[no] > 0 {
			w.e.nap(10 * time.Second)
			continue
		}
		if rec := seen.Record; rec == nil || rec.Outcome() == order.OutcomeCancelled || rec.Outcome() != order.OutcomeUnknown && rec.By == "" {
			return
		}
		as := w.truth(no)
		_, err = h.q.Operator.Resolve(context.Background(), no, seen.Record.WriteID, as, anna)
		w.e.trace.say(w.e, h.name, "correct", no, "as %s: %v", as, err)
		if heard(err) {
			return
		}
		w.e.nap(pauseAfter(err))
	}
}
