package simulation

import (
	"context"
	"time"

	"orderpost/internal/order"
	"orderpost/proof/oracle"
)

// Duplicates says how the API treats a repeated order_no.
type Duplicates uint8

// The kinds of API.
const (
	// Refuses: 409, a duplicate.
	Refuses Duplicates = iota
	// Recognises: 200, and creates nothing.
	Recognises
	// CreatesAgain: 200, and a second order.
	CreatesAgain
)

// reply is the result of one POST for a worker.
type reply struct {
	verdict order.Verdict
	final   bool
	status  int
	misread bool // an acceptance that a wrong rule calls a refusal
}

// api creates orders. The oracle compares records with its orders.
type api struct {
	w *world
	// created counts our orders by order_no. foreign holds those of other clients.
	created map[string]int
	foreign map[string]bool
	// underway counts the requests in flight to the API.
	underway map[string]int
	// finals is when an answer proved that nothing exists: what was signed
	// before is refused from then on, which is what the operator's rule claims.
	finals map[string]time.Duration
	// since is when the API got an order of ours or of others. absent is for the mutation Across.
	since, absent map[string]time.Duration
}

func newAPI(w *world) *api {
	return &api{w: w, created: make(map[string]int), foreign: make(map[string]bool), underway: make(map[string]int), finals: make(map[string]time.Duration), since: make(map[string]time.Duration), absent: make(map[string]time.Duration)}
}

func (a *api) exists(no string) bool { return a.created[no] > 0 || a.foreign[no] }

// handle handles a request when it arrives. signed is when its worker last looked at its claim, and sent when it
// was stamped and sent.
func (a *api) handle(no, body string, fault apiFault, attempt int, signed, sent time.Duration) reply {
	if l := a.w.cfg.Lookup; l != nil && a.w.e.at-sent > l.Window {
		return reply{verdict: order.Denied, status: 401}
	}
	if at, there := a.finals[no]; there && signed <= at {
		return reply{verdict: order.Rejected, status: 422}
	}
	switch fault {
	case apiThrottles:
		return reply{verdict: order.Retry, status: 429}
	case apiDenies:
		return reply{verdict: order.Denied, status: 401}
	case apiFails:
		return reply{verdict: order.Unsure, status: 503}
	case apiRefuses:
		return reply{verdict: order.Rejected, status: 422}
	case apiProvesNothing:
		if a.exists(no) {
			break
		}
		a.finals[no] = a.w.e.at
		return reply{verdict: order.Rejected, final: true, status: 422}
	}
	r := a.create(no, body, attempt)
	if fault == apiCreatesAndFails {
		return reply{verdict: order.Unsure, status: 500}
	}
	return r
}

func (a *api) create(no, body string, attempt int) reply {
	if a.exists(no) {
		switch a.w.cfg.Duplicates {
		case Refuses:
			return reply{verdict: order.Duplicate, status: 409}
		case Recognises:
			return reply{verdict: order.Accepted, status: 200}
		}
	}
	if !a.exists(no) {
		a.since[no] = a.w.e.at
	}
	a.created[no]++
	a.w.witness.tell(oracle.Event{Kind: oracle.Created, OrderNo: no, Body: body, Attempt: attempt})
	if t := a.w.e.trace; t != nil {
		t.say(a.w.e, "api", "created", no, "%d in all", a.created[no])
	}
	return reply{verdict: order.Accepted, status: 200}
}

// apiFault is a fault of one POST.
type apiFault uint8

const (
	apiWorks apiFault = iota
	// apiUnreachable: no connection. Nothing was sent.
	apiUnreachable
	apiThrottles
	apiDenies
	apiFails
	apiCreatesAndFails
	apiRefuses
	apiProvesNothing
	// apiDropsRequest: the request is lost.
	apiDropsRequest
	// apiDropsAnswer: the API handles the request, and the answer is lost.
	apiDropsAnswer
	// apiIsSlow: the API handles the request late, perhaps after its timeout.
	apiIsSlow
)

// post sends one order from p's process and waits for the answer.
func (a *api) post(ctx context.Context, p *proc, at *attempt, timeout time.Duration) reply {
	e := a.w.e
	fault := a.w.drawAPIFault(at.orderNo)
	if fault == apiUnreachable {
		e.nap(a.w.latency())
		return reply{verdict: order.Retry}
	}
	got := reply{verdict: order.Unsure}
	n := e.newWait()
	p.wait = n
	p.ctx = ctx
	there, back, sent := a.w.latency(), a.w.latency(), e.at
	switch fault {
	case apiIsSlow:
		there = a.late(timeout)
	case apiDropsRequest:
		there = -1
	}
	if there >= 0 {
		a.underway[at.orderNo]++
		e.after(there, func() {
			a.underway[at.orderNo]--
			r := a.handle(at.orderNo, at.body, fault, at.number, at.signed, sent)
			if fault == apiDropsAnswer {
				return
			}
			e.after(back, func() { got = r; e.wake(p, n) })
		})
	}
	if there < 0 || fault == apiDropsAnswer || there+back > timeout {
		e.after(timeout, func() { e.wake(p, n) })
	}
	p.suspend()
	p.ctx = nil
	return got // unsure if no answer was read
}
