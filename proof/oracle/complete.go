package oracle

import "orderpost/internal/order"

// completion adds to a history of real programs what nobody can see from outside, but
// what follows from it: which delivery a request, an answer or an acknowledgement
// belongs to, and that a claim was over when the broker delivered the intent again.
type completion struct {
	*Oracle
	claims, posts int
	byReply       map[string]*held
	bySeq         map[uint64]*held
	inHand        map[work]*held // the last delivery of an order to a process
	attempts      map[work]int   // the last attempt
	runs          map[string]string
	frozen        map[string]Event
}

// held is a delivery.
type held struct {
	Event
	over bool
}

// work is an order in the hands of a process.
type work struct{ process, orderNo string }

func newCompletion(o *Oracle) *completion {
	return &completion{Oracle: o, byReply: make(map[string]*held), bySeq: make(map[uint64]*held), inHand: make(map[work]*held),
		attempts: make(map[work]int), runs: make(map[string]string), frozen: make(map[string]Event)}
}

func (c *completion) observe(e Event) {
	switch e.Kind {
	case Started:
		c.runs[e.Why] = e.Process
	case Frozen:
		c.frozen[e.Process] = e
	case Delivered:
		c.delivered(&e)
	case Acknowledged:
		c.acknowledged(&e)
		return
	case HandedBack:
		if !c.handedBack(&e) {
			return
		}
	case Posted:
		c.posted(&e)
	case Answered:
		e.Attempt = c.attempts[work{e.Process, e.OrderNo}]
	case Recorded:
		e.Process = c.runs[e.Record.Worker]
		if h := c.inHand[work{e.Process, e.OrderNo}]; h != nil {
			e.Claim = h.Claim
		}
		c.Observe(e)
		c.recorded(&e)
		return
	}
	c.Observe(e)
}

// derived passes on an event that follows from e.
func (c *completion) derived(e *Event, d Event) {
	d.At, d.Until, d.Line = e.At, e.Until, e.Line
	c.Observe(d)
}

// delivered names the delivery, and ends the claim of the one before. The count may
// tell of deliveries that reached nobody: a connection broke, or a worker ended.
func (c *completion) delivered(e *Event) {
	c.derived(e, Event{Kind: Stored, OrderNo: e.OrderNo, Intent: e.Intent, Seq: e.Seq})
	seen := uint64(0)
	if last := c.bySeq[e.Seq]; last != nil {
		seen = last.Count
		if !last.over {
			last.over = true
			c.derived(e, Event{Kind: Released, Claim: last.Claim, Why: ByTime})
		}
	}
	if e.Count > seen+1 {
		c.claims++
		c.derived(e, Event{Kind: Delivered, OrderNo: e.OrderNo, Intent: e.Intent, Seq: e.Seq, Claim: c.claims, Count: e.Count - 1})
		c.derived(e, Event{Kind: Released, Claim: c.claims, Why: "its delivery reached nobody"})
	}
	c.claims++
	e.Claim = c.claims
	h := &held{Event: *e}
	c.byReply[e.Reply], c.bySeq[e.Seq], c.inHand[work{e.Process, e.OrderNo}] = h, h, h
}

// acknowledged takes the intent out of the queue.
func (c *completion) acknowledged(e *Event) {
	h := c.byReply[e.Reply]
	if h == nil { // not one of the workers' deliveries
		return
	}
	if last := c.bySeq[h.Seq]; !last.over {
		last.over = true
		c.derived(e, Event{Kind: Released, Claim: last.Claim})
	}
	c.derived(e, Event{Kind: Removed, OrderNo: h.OrderNo, Intent: h.Intent, Seq: h.Seq, Claim: h.Claim})
}

// handedBack says whose claim a NAK ended. It returns false if it ended none.
func (c *completion) handedBack(e *Event) bool {
	h := c.byReply[e.Reply]
	if h == nil || c.bySeq[h.Seq].over {
		return false
	}
	last := c.bySeq[h.Seq]
	last.over = true
	e.Claim, e.Former = h.Claim, last.Claim
	return true
}

// posted says which delivery a request belongs to.
func (c *completion) posted(e *Event) {
	c.posts++
	w := work{e.Process, e.OrderNo}
	e.Attempt, e.Signed = c.posts, e.At
	c.attempts[w] = c.posts
	if h := c.inHand[w]; h != nil {
		e.Claim, e.Seq, e.Intent = h.Claim, h.Seq, h.Intent
	}
	// A process that was frozen just now may have looked at its claim before.
	if f, was := c.frozen[e.Process]; was && f.Until <= e.At && e.At-f.Until <= Moment(c.settings.AckWait/10) {
		e.Signed = f.At
	}
}

// recorded notes that a worker gave an order back. If that worker had an answer, it
// did not believe it.
func (c *completion) recorded(e *Event) {
	if r := e.Record; r.Note == order.NoteHandedBack || r.Note == order.NoteDelayed {
		c.derived(e, Event{Kind: CalledBack, Attempt: c.attempts[work{e.Process, e.OrderNo}], Doubt: r.Unsure && r.Verdict == order.Rejected})
	}
}
