package simulation

import (
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// witness tells the oracle what an outside observer sees: the messages that the broker
// stored and delivered, the records that it took, and the requests that were sent. The
// oracle (proof/oracle) checks the invariants against these, never against a
// worker's state.
type witness struct {
	w      *world
	oracle *oracle.Oracle
	keep   func(oracle.Event) // also gets each event; may be nil
	posts  int
	paused bool // the process that publishes was frozen after its last check
}

// attempt is one POST. Its number names it.
type attempt struct {
	number                int
	orderNo, intent, body string
	seq                   uint64
	stamp, reading        int64 // the timestamp, and what the clock showed
	host                  *host
	claim                 int
	gate, signed          time.Duration
}

func newWitness(w *world, keep func(oracle.Event)) *witness {
	v := &witness{w: w, oracle: oracle.New(), keep: keep}
	v.oracle.OnFinding = func(f oracle.Finding) {
		w.e.trace.say(w.e, "oracle", "BROKEN", f.OrderNo, "%s: %s", f.Invariant, f.Detail)
	}
	v.tell(oracle.Event{Kind: oracle.Begin, Settings: &oracle.Settings{Start: epoch, Policy: w.cfg.Policy, AckWait: w.cfg.AckWait, Replicated: w.broker.followers != nil, Clocks: w.cfg.BrokerClocks > 0, Lookups: w.cfg.Lookup != nil}})
	return v
}

func (v *witness) tell(e oracle.Event) {
	e.At = oracle.Moment(v.w.e.at)
	v.oracle.Observe(e)
	if v.keep != nil {
		v.keep(e)
	}
}

func (v *witness) stored(in *intent) {
	e := about(oracle.Stored, in.orderNo, in.id, in.msg)
	if place := in.msg.Header.Get(settle.HeaderWaited); place != "" {
		var at settle.StreamSeq
		_ = at.UnmarshalText([]byte(place))
		e.Waited = at.Seq
		e.Paused = v.paused
	}
	v.tell(e)
}

// waited tells of an intent that a producer put into the waiting room.
func (v *witness) waited(m *settle.Message) {
	v.tell(about(oracle.Waited, settle.WaitingOrderNo(m), waitingID(m), m))
}

// about returns an event that says what an intent says about itself.
func about(k oracle.Kind, orderNo, id string, m *settle.Message) oracle.Event {
	return oracle.Event{Kind: k, OrderNo: orderNo, Intent: id, Seq: m.Seq, Time: m.Time, Body: hashOf(m.Data), Batch: m.Header.Get(settle.HeaderBatch), Source: m.Header.Get(settle.HeaderSource)}
}

// hashOf returns the hash of a body; "" = it can never be sent.
func hashOf(body []byte) string {
	parsed, err := order.Parse(body)
	if err != nil {
		return ""
	}
	return parsed.BodyHash()
}

// left tells of an intent that a process removed from the waiting room.
func (v *witness) left(m *settle.Message, h *host) {
	v.w.e.trace.say(v.w.e, "broker", "leaves", settle.WaitingOrderNo(m), "%s at %d, by %s", waitingID(m), m.Seq, h.name)
	v.tell(oracle.Event{Kind: oracle.Left, OrderNo: settle.WaitingOrderNo(m), Seq: m.Seq, Process: h.run})
}

func (v *witness) delivered(in *intent, id int, count uint64, h *host) {
	v.tell(oracle.Event{Kind: oracle.Delivered, OrderNo: in.orderNo, Intent: in.id, Seq: in.msg.Seq, Claim: id, Count: count, Process: h.run})
}

// owned tells of a claim that only the broker believes in.
func (v *witness) owned(in *intent, id int, count uint64) {
	v.tell(oracle.Event{Kind: oracle.Delivered, OrderNo: in.orderNo, Intent: in.id, Seq: in.msg.Seq, Claim: id, Count: count})
}

func (v *witness) released(claim int, why string) {
	v.tell(oracle.Event{Kind: oracle.Released, Claim: claim, Why: why})
}

func (v *witness) handedBack(owner, by int, paused bool, sent time.Duration) {
	v.tell(oracle.Event{Kind: oracle.HandedBack, Claim: by, Former: owner, Paused: paused, Signed: oracle.Moment(sent)})
}

// removed tells that an intent left the queue. by is the claim that acknowledged it, 0
// if it was deleted.
func (v *witness) removed(in *intent, by int) {
	e := oracle.Event{Kind: oracle.Removed, OrderNo: in.orderNo, Seq: in.msg.Seq, Claim: by}
	if by != 0 {
		e.Intent = in.id
	}
	v.tell(e)
}

func (v *witness) posted(a *attempt) {
	v.posts++
	a.number = v.posts
	v.tell(oracle.Event{Kind: oracle.Posted, OrderNo: a.orderNo, Intent: a.intent, Seq: a.seq, Claim: a.claim, Process: a.host.run, Attempt: a.number, Body: a.body,
		Stamp: a.stamp, Reading: a.reading, Gate: oracle.Moment(a.gate), Signed: oracle.Moment(a.signed)})
}

func (v *witness) answered(a *attempt, verdict order.Verdict) {
	v.tell(oracle.Event{Kind: oracle.Answered, Attempt: a.number, Verdict: verdict})
}

// recorded tells of a record that a process wrote for a delivery, or for none (claim 0).
func (v *witness) recorded(rec *order.Record, h *host, claim int) {
	if t := v.w.e.trace; t != nil {
		step := "record"
		if rec.Outcome() == order.OutcomeNone {
			step = "note"
		}
		t.say(v.w.e, "broker", step, rec.OrderNo, "%s: %s%s by %s, attempts %d, settled %d%s%s", rec.IntentID, wordOf(rec), when(rec.Unsure, " (unsure)"), h.name,
			rec.Attempts, rec.Settled, when(rec.AllowedFor != "", ", allowed for "+rec.AllowedFor), when(rec.Proven, ", proven"))
	}
	v.tell(oracle.Event{Kind: oracle.Recorded, OrderNo: rec.OrderNo, Record: rec, Process: h.run, Claim: claim})
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// about tells of something that only needs an order_no.
func (v *witness) about(k oracle.Kind, orderNo string) {
	v.tell(oracle.Event{Kind: k, OrderNo: orderNo})
}

// of tells of something that happened to a process.
func (v *witness) of(k oracle.Kind, h *host) { v.tell(oracle.Event{Kind: k, Process: h.run}) }

// counts returns what the oracle counted.
func (v *witness) counts() Counts { return Counts{Counts: v.oracle.Counts, Faults: v.w.faults} }
