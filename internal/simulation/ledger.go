package simulation

import (
	"fmt"
	"slices"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// ledger is the view of an outside observer: the messages that the broker stored and
// delivered, the records that it took, and the requests that were sent. It checks the
// invariants against these and the API's orders, never against a worker's state.
type ledger struct {
	w        *world
	intents  map[string]int // stored, by order_no
	ids      map[string]int // stored, by order_no and id
	claims   map[int]*claim
	posts    map[string][]*attempt
	records  map[string][]observed
	tookDown map[string]int
	lost     map[string]int // unfinished claims, by order_no
	findings []Finding
	counts   Counts
}

// claim is one delivery.
type claim struct {
	at      time.Duration
	host    *host
	orderNo string
	count   uint64 // the broker's delivery count
	ended   bool
	why     string // why the claim ended, unless its worker ended it
	taken   bool   // a former owner returned the message; the owner cannot know
}

// attempt is one POST.
type attempt struct {
	orderNo, intent, body       string
	seq, note                   uint64
	host                        *host
	claim                       int
	gate, signed, sent, endedAt time.Duration
	done, calledBack            bool
	froze                       bool // sent after the claim had ended, by a process that was frozen or could not know
	paused                      bool // sent after the documented pause (Lease)
	late                        bool // the claim had ended
	fresh                       bool // its process had not lost its connection since its start
	verdict                     order.Verdict
}

func (a *attempt) ended(at time.Duration, v order.Verdict) {
	a.done, a.endedAt, a.verdict = true, at, v
}

// unsure reports whether the worker does not know what the attempt did.
func (a *attempt) unsure() bool { return !a.done || a.verdict == order.Unsure }

type observed struct {
	at   time.Duration
	rec  *order.Record
	host *host
	// gone says that the intent had left the queue.
	gone bool
	// paused says that another worker had the order already. The writer was frozen
	// between its last check of the claim and the write, or it could not know because
	// a former owner returned the message in its own pause.
	paused bool
}

// Finding is a broken invariant.
type Finding struct {
	Invariant string
	OrderNo   string
	Detail    string
}

// String returns one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: order %s: %s", f.Invariant, f.OrderNo, f.Detail)
}

func newLedger(w *world) *ledger {
	return &ledger{w: w, intents: make(map[string]int), ids: make(map[string]int), claims: make(map[int]*claim),
		posts: make(map[string][]*attempt), records: make(map[string][]observed), tookDown: make(map[string]int), lost: make(map[string]int)}
}

func (l *ledger) find(invariant, no, format string, args ...any) {
	f := Finding{invariant, no, fmt.Sprintf(format, args...)}
	l.findings = append(l.findings, f)
	l.w.e.trace.say(l.w.e, "oracle", "BROKEN", no, "%s: %s", invariant, f.Detail)
}

func (l *ledger) stored(in *intent) {
	l.counts.Intents++
	l.intents[in.orderNo]++
	l.ids[in.orderNo+" "+in.id]++
}

func (l *ledger) delivered(in *intent, id int, count uint64, h *host) {
	l.counts.Deliveries++
	l.claims[id] = &claim{at: l.w.e.at, host: h, orderNo: in.orderNo, count: count}
	l.w.state(in.orderNo)
}

// owned records a claim that only the broker believes in.
func (l *ledger) owned(in *intent, id int) {
	l.claims[id] = &claim{at: l.w.e.at, orderNo: in.orderNo}
}

// handedBack records that the owner of claim by returned the message. Another worker
// may own it by now.
func (l *ledger) handedBack(owner, by int, paused bool) {
	c := l.claims[owner]
	switch {
	case owner == by, c == nil, c.host == nil:
		l.released(owner, "")
		return
	case paused, l.claims[by].taken:
		l.counts.LateHandBacks++
	case l.claims[by].host.bothWrong(l.claims[by].at):
		l.counts.BothClocks++
	default:
		l.find(InvOneClaim, c.orderNo, "given back by a former owner, while %s works on it", c.host.name)
	}
	c.taken = true
	l.released(owner, "a former owner gave it back")
}

func (l *ledger) released(id int, why string) {
	if c := l.claims[id]; c != nil && !c.ended {
		c.ended, c.why = true, why
		if why != "" {
			l.lost[c.orderNo]++
		}
	}
}

// posted checks a request when it is sent.
func (l *ledger) posted(a *attempt) {
	a.sent, a.fresh = l.w.e.at, a.host.q.ReconnectGraceUntil().IsZero()
	l.counts.Posts++
	before := l.posts[a.orderNo]
	l.posts[a.orderNo] = append(before, a)
	l.w.state(a.orderNo)
	l.checkOwner(a)
	l.checkRecord(a)
	if heard := a.host.refused; l.w.broker.full && heard > l.w.broker.fullSince && a.gate > heard {
		l.find(InvStorage, a.orderNo, "%s posts, though it heard at %s that its results are refused", a.host.name, heard)
	}
	if len(before) == 0 {
		return
	}
	l.checkExplained(a, before[len(before)-1])
	if l.w.cfg.Policy == order.Park {
		l.checkParked(a, before)
	}
}

// The invariants, as named in findings.
const (
	InvOneOutcome   = "one outcome per intent"
	InvAcceptedOnce = "accepted is never posted again"
	InvExplained    = "every further POST is explained"
	InvPark         = "park never posts again after an unsure attempt"
	InvTrue         = "outcomes are true"
	InvStays        = "an outcome changes only by a new intent, a person, or proof of acceptance"
	InvOneClaim     = "no two claims act at once"
	InvDelay        = "a delay is kept"
	InvPoison       = "poison is proven alone"
	InvLetters      = "every failure has its letter, and nothing accepted has one"
	InvReason       = "unknown has a reason"
	InvStorage      = "nothing is posted while results are refused"
	InvSettled      = "everything is settled in the end"
)

// checkOwner checks that the broker has not delivered the message to another worker.
func (l *ledger) checkOwner(a *attempt) {
	c := l.claims[a.claim]
	if !c.ended {
		return
	}
	a.late, a.froze = true, a.host.frozen > c.at || c.taken
	if c.taken {
		return
	}
	if a.host.bothWrong(c.at) {
		a.paused = true
		l.counts.BothClocks++
		return
	}
	if a.sent > a.signed { // frozen between the fence and the socket
		a.paused = true
		l.counts.Pauses++
		return
	}
	for _, other := range l.posts[a.orderNo] {
		if other.claim > a.claim && other.seq == a.seq {
			if other.fresh {
				l.counts.Overlaps++ // a new process does not wait for former owners
				return
			}
			l.find(InvOneClaim, a.orderNo, "%s posts, though %s and %s has posted since", a.host.name, c.why, other.host.name)
			return
		}
	}
}

// checkRecord checks that the record at the time of the delivery allows a POST.
func (l *ledger) checkRecord(a *attempt) {
	last, there := l.lastBefore(a.orderNo, l.claims[a.claim].at)
	if !there {
		return
	}
	switch {
	case last.rec.Outcome() == order.OutcomeAccepted:
		l.find(InvAcceptedOnce, a.orderNo, "%s posts %s, accepted since %s", a.host.name, a.intent, last.at)
	case last.rec.IntentID == a.intent && last.rec.NotBefore.After(a.host.wall()) && l.claims[a.claim].at > a.host.machine.jumpedAt:
		l.find(InvDelay, a.orderNo, "%s posts %s before %s", a.host.name, a.intent, last.rec.NotBefore.Sub(epoch))
	}
}

// lastBefore returns the last record before at.
func (l *ledger) lastBefore(no string, at time.Duration) (observed, bool) {
	all := l.records[no]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].at < at {
			return all[i], true
		}
	}
	return observed{}, false
}

// checkExplained checks that the previous attempt settled nothing or that its worker
// was lost.
func (l *ledger) checkExplained(a, prev *attempt) {
	switch {
	case a.intent != prev.intent, a.seq != prev.seq, prev.unsure(), prev.calledBack:
		return
	case prev.verdict == order.Retry, prev.verdict == order.Denied:
		return
	case prev.claim != a.claim && l.claims[prev.claim].why != "":
		return
	case l.claims[a.claim].ended:
		return // the former owner posts after the new one, which checkOwner checks
	}
	l.find(InvExplained, a.orderNo, "the attempt before was answered with %s, and its worker was not lost", prev.verdict)
}

// checkParked checks that no earlier attempt is unsure unless it was cleared.
func (l *ledger) checkParked(a *attempt, before []*attempt) {
	for _, b := range before {
		if !b.unsure() || l.cleared(a, b) {
			continue
		}
		if a.paused || b.paused && b.sent >= a.signed {
			// One attempt was sent in the documented pause, after its claim had passed to
			// another worker. checkOwner counts it. An attempt that was signed before
			// could not know of it.
			continue
		}
		l.find(InvPark, a.orderNo, "%s posts %s, but the attempt of %s is unsure", a.host.name, a.intent, b.sent)
		return
	}
}

// cleared reports whether a later answer proved that no order exists, or a person
// allowed or settled the order.
func (l *ledger) cleared(a, b *attempt) bool {
	allowed := false
	for _, o := range l.records[a.orderNo] {
		granted := o.rec.Allows(a.intent) && !allowed // the notes that follow repeat it
		if allowed = o.rec.Allows(a.intent); o.at >= b.sent && (granted || o.rec.Proven || o.rec.By != "") {
			return true
		}
	}
	return false
}

// recorded checks a record when the broker stores it.
func (l *ledger) recorded(rec *order.Record, h *host) {
	l.counts.Records++
	no := rec.OrderNo
	if t := l.w.e.trace; t != nil {
		step := "record"
		if rec.Outcome() == order.OutcomeNone {
			step = "note"
		}
		t.say(l.w.e, "broker", step, no, "%s: %s%s by %s, attempts %d, settled %d%s%s", rec.IntentID, wordOf(rec), when(rec.Unsure, " (unsure)"), h.name,
			rec.Attempts, rec.Settled, when(rec.Allowed, ", allowed for "+rec.AllowedFor), when(rec.Proven, ", proven"))
	}
	all := l.records[no]
	var prev *order.Record
	if len(all) > 0 {
		prev = all[len(all)-1].rec
	}
	l.records[no] = append(all, observed{l.w.e.at, rec, h, l.w.broker.bySubj[subjectPrefix+no] == nil, l.writtenLate(rec, h)})
	if len(all) > 0 {
		l.checkTransition(&all[len(all)-1], rec)
	}
	if rec.Dropped && (prev == nil || !prev.Dropped) {
		l.checkDropped(rec)
	}
	if !takenOver(prev, rec) {
		l.checkEvidence(rec)
	}
	l.w.state(no)
}

// checkDropped checks that the letter that a person dropped is the order's.
func (l *ledger) checkDropped(rec *order.Record) {
	have := l.w.broker.letters[rec.OrderNo]
	if n := len(rec.Interventions); n > 0 && have != nil && !l.w.e.schedule.Old && rec.Interventions[n-1].Did != fmt.Sprint("dropped dead letter ", have.Seq) {
		l.find(InvLetters, rec.OrderNo, "%s, but letter %d is filed", rec.Interventions[n-1].Did, have.Seq)
	}
}

// takenOver reports whether rec only repeats an earlier outcome, for an intent with
// the accepted body or for one that was not sent.
func takenOver(prev, rec *order.Record) bool {
	return prev != nil && prev.SettledAt.Equal(rec.SettledAt) &&
		(prev.IntentID == rec.IntentID || rec.Outcome() == order.OutcomeAccepted || rec.Outcome() == order.OutcomeUnknown)
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// writtenLate computes observed.paused.
func (l *ledger) writtenLate(rec *order.Record, h *host) bool {
	b := l.w.broker
	in := b.bySubj[subjectPrefix+rec.OrderNo]
	if in == nil {
		return false
	}
	if p := b.pending[in.msg.Seq]; p == nil || p.count <= rec.Delivered {
		return false
	}
	return h.frozen > 0 && l.w.e.at-h.frozen <= l.w.cfg.AckWait/10 || l.wasTaken(rec, h) || h.bothWrong(l.w.e.at-2*l.w.cfg.AckWait)
}

// wasTaken reports whether a former owner returned the message of h's claim.
func (l *ledger) wasTaken(rec *order.Record, h *host) bool {
	for _, c := range l.claims {
		if c.taken && c.host == h && c.orderNo == rec.OrderNo && c.count == rec.Delivered {
			return true
		}
	}
	return false
}

// checkTransition checks that an outcome changes only for an allowed reason.
func (l *ledger) checkTransition(before *observed, rec *order.Record) {
	prev := before.rec
	was, is := prev.Outcome(), rec.Outcome()
	if was == order.OutcomeNone || was == is || is == order.OutcomeAccepted {
		return
	}
	byPerson := len(rec.Interventions) > len(prev.Interventions) || rec.By != prev.By
	switch {
	case byPerson:
	case was == order.OutcomeAccepted:
		l.find(InvStays, rec.OrderNo, "accepted became %s", rec.Word)
	case rec.IntentID == prev.IntentID && is == order.OutcomeUnknown && before.paused:
		l.counts.LateOutcomes++
	case rec.IntentID == prev.IntentID:
		l.find(InvStays, rec.OrderNo, "%s: %s became %s", rec.IntentID, prev.Word, rec.Word)
	}
}

// checkEvidence checks that an outcome claims no more than what happened.
func (l *ledger) checkEvidence(rec *order.Record) {
	no := rec.OrderNo
	if rec.By != "" {
		return
	}
	if rec.Reason == "poison" && rec.Outcome() != order.OutcomeNone { // the outcome is usually unknown
		l.checkSuspects(rec)
	}
	switch rec.Outcome() {
	case order.OutcomeAccepted:
		if l.w.api.created[no] == 0 && !l.w.api.foreign[no] {
			l.find(InvTrue, no, "accepted, but nothing was created")
		}
	case order.OutcomeRejected, order.OutcomeExhausted:
		for _, a := range l.posts[no] {
			if a.intent == rec.IntentID {
				return
			}
		}
		l.find(InvTrue, no, "%s is %s, but was never posted", rec.IntentID, rec.Word)
	case order.OutcomeUnknown:
		l.checkReason(rec)
	}
}

// checkSuspects checks in the notes that the order was handled alone often enough.
func (l *ledger) checkSuspects(rec *order.Record) {
	suspects := 0
	for _, o := range l.records[rec.OrderNo] {
		if o.rec.Outcome() == order.OutcomeNone && o.rec.IntentID == rec.IntentID {
			suspects = max(suspects, o.rec.Suspects)
		}
	}
	if suspects < settle.PoisonAfter {
		l.find(InvPoison, rec.OrderNo, "poison after %d suspect notes", suspects)
	}
}

// checkReason checks that some attempt is unsure or may have been made.
func (l *ledger) checkReason(rec *order.Record) {
	no := rec.OrderNo
	if l.lost[no] > 0 || l.tookDown[no] > 0 || l.w.broker.life > 0 { // a restarted broker may have forgotten a delivery
		return
	}
	for _, a := range l.posts[no] {
		if a.unsure() || a.verdict == order.Duplicate {
			return
		}
	}
	l.find(InvReason, no, "%s is unknown, though every attempt was answered and no worker was lost", rec.IntentID)
}

// close checks the final state.
func (l *ledger) close() {
	b := l.w.broker
	for _, seq := range sortedKeys(b.intents) {
		l.find(InvSettled, b.intents[seq].orderNo, "%s is still in the queue", b.intents[seq].id)
	}
	for _, no := range l.w.orders {
		if l.intents[no] == 0 {
			continue
		}
		entry := b.results[no]
		if entry == nil {
			l.find(InvOneOutcome, no, "no record")
			continue
		}
		l.closeOrder(no, entry.rec)
	}
}

func (l *ledger) closeOrder(no string, rec *order.Record) {
	l.counts.Orders++
	l.counts.outcome(rec.Outcome())
	switch {
	case rec.Settled > l.intents[no] && l.w.cfg.Older > 0 && l.refusedBesideOlder(no):
		l.counts.OlderCounts++
	case rec.Settled != l.intents[no]:
		l.find(InvOneOutcome, no, "%d intents were stored, %d are settled", l.intents[no], rec.Settled)
	}
	created := l.w.api.created[no]
	l.counts.Created += created
	if created > 1 {
		l.counts.CreatedTwice++
	}
	if rec.Outcome().Created() == "no" && created > 0 && (rec.By == "" || rec.Outcome() == order.OutcomeCancelled) && !l.afterPersonsWord(no) {
		l.find(InvTrue, no, "%s, but the API created it", rec.Word)
	}
	if rec.By != "" && rec.Outcome() == order.OutcomeRejected && created > 0 && !l.w.e.schedule.Old && !l.postedLate(no) {
		l.find(InvTrue, no, "%s said that it does not exist, but the API created it", rec.By)
	}
	letter := l.w.broker.letters[no]
	switch {
	case rec.NeedsLetter() && letter == nil:
		l.find(InvLetters, no, "%s without a letter", rec.Word)
	case rec.NeedsLetter() && letter.IntentID == rec.IntentID && letter.Outcome != rec.Outcome():
		l.find(InvLetters, no, "%s, but its letter says %s", rec.Word, letter.Outcome)
	case rec.Outcome() == order.OutcomeAccepted && letter != nil && !letter.Conflict && l.leftover(no):
		l.counts.Leftovers++
	case rec.Outcome() == order.OutcomeAccepted && letter != nil && !letter.Conflict:
		l.find(InvLetters, no, "accepted, but a letter is left")
	}
}

// afterPersonsWord reports whether a frozen worker without a claim sent an attempt
// after a person had said that no order exists. Later deliveries relied on the
// person's word.
func (l *ledger) afterPersonsWord(no string) bool {
	for _, o := range l.records[no] {
		if o.rec.By == "" || o.rec.Outcome() != order.OutcomeRejected {
			continue
		}
		for _, a := range l.posts[no] {
			if a.froze && a.sent >= o.at {
				return true
			}
		}
	}
	return false
}

// refusedBesideOlder reports whether a conflict was refused that an older worker counted
// again: it does not know the list of conflicts in which this version names it.
func (l *ledger) refusedBesideOlder(no string) bool {
	listed := false
	for _, o := range l.records[no] {
		if listed && o.host.older {
			return true
		}
		listed = listed || len(o.rec.Conflicts) > 0
	}
	return false
}

// postedLate reports whether a worker whose claim had ended sent an attempt. No person can
// know of it.
func (l *ledger) postedLate(no string) bool {
	return slices.ContainsFunc(l.posts[no], func(a *attempt) bool { return a.late })
}

// leftover reports whether a late acceptance left a dead letter behind: the intent had
// been settled otherwise and acknowledged, and the writer of the acceptance was lost
// before it removed the letter. No message brings a worker back to it. The audit shows
// such a letter, and replaying it sends nothing.
func (l *ledger) leftover(no string) bool {
	for _, o := range l.records[no] {
		if o.rec.Outcome() == order.OutcomeAccepted {
			return o.gone || o.host.dead
		}
	}
	return false
}
