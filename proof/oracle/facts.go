package oracle

import (
	"slices"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// submission is an intent as the broker stored it.
type submission struct {
	id, body, batch, source string
	time                    time.Time // by the broker's clock
	seq                     uint64    // in the waiting room, or in the queue
	queued                  bool
	waited                  uint64 // its sequence in the waiting room; 0 = it never was there
}

// is reports whether the submission is the copy at a position.
func (s *submission) is(at order.Position) bool {
	return s.queued && at.Same(order.Position{Seq: s.seq, EnqueuedAt: s.time})
}

// named reports whether the submission has an ID, or got it when it was moved because another body
// had its own (R13).
func (s *submission) named(id string) bool {
	return s.id == id || s.waited != 0 && order.BodyID(s.id, s.body) == id
}

// keep notes what an intent says about itself.
func (o *Oracle) keep(c *course, e *Event) {
	if !o.settings.Outside { // from outside nobody sees that
		s := submission{e.Intent, e.Body, e.Batch, e.Source, e.Time, e.Seq, e.Kind == Stored, e.Waited}
		if e.Kind == Waited {
			s.waited = e.Seq
		}
		c.copies = append(c.copies, s)
	}
}

// has reports whether an intent that was stored is as told, or none was seen.
func (c *course) has(is func(s *submission) bool) bool {
	return len(c.copies) == 0 || slices.ContainsFunc(c.copies, func(s submission) bool { return is(&s) })
}

// carry notes which body a delivery brings.
func (o *Oracle) carry(c *course, e *Event) {
	own := o.claims[e.Claim]
	for _, s := range c.copies {
		if s.seq == e.Seq && s.id == e.Intent {
			own.intent, own.body = s.id, s.body
		}
	}
	if e.Count > 1 { // what the delivery before did is not known
		own.mayHavePosted()
	}
}

// mayHavePosted notes that a delivery may have posted its body. One that was withheld, or
// that asked for what exists, did not.
func (c *claim) mayHavePosted() {
	if c.body == "" {
		return
	}
	if all := c.course.records; len(all) > 0 {
		switch last := all[len(all)-1].rec; last.Outcome() {
		case order.OutcomeAccepted:
			return
		case order.OutcomeUnknown:
			if !last.Allows(c.intent) {
				return
			}
		}
	}
	c.course.mayHavePosted(c.body)
}

// mayHavePosted notes that nobody knows whether a body was posted.
func (c *course) mayHavePosted(body string) {
	if c.lostBodies == nil {
		c.lostBodies = make(map[string]bool)
	}
	c.lostBodies[body] = true
}

// checkFacts checks that a record says of its intent what is true of that one, and keeps
// what belongs to the order_no. prev is the record that it replaces; nil = none.
func (o *Oracle) checkFacts(c *course, e *Event, prev *order.Record) {
	rec := e.Record
	if prev != nil && order.LaterTimestamp(rec.LastTimestamp, prev.LastTimestamp) != rec.LastTimestamp {
		o.find(Stamped, c.orderNo, nil, "%s by %s forgets the timestamp %d, and names %d", rec.Word, e.Process, prev.LastTimestamp, rec.LastTimestamp)
	}
	if o.settings.Outside {
		return
	}
	if wrong := shape(rec); wrong != "" {
		o.find(Own, c.orderNo, nil, "%s (%s) %s", rec.IntentID, rec.Word, wrong)
	}
	if prev != nil {
		o.checkKept(c, e, prev)
	}
	o.checkCancelled(c, rec)
	if by := rec.By; by != "" && e.Claim != 0 && rec.Outcome() != order.OutcomeAccepted && rec.Outcome() != order.OutcomeCancelled && (prev == nil || prev.By != by || prev.IntentID != rec.IntentID) {
		o.find(Own, c.orderNo, nil, "%s writes that %s settled %s (%s)", e.Process, by, rec.IntentID, rec.Word)
	}
	if !c.has(func(s *submission) bool {
		return s.batch == rec.Batch && s.source == rec.Source && s.body == rec.BodyHash
	}) {
		o.find(Own, c.orderNo, nil, "%s (%s) comes from %q, %q, and no intent with its body does", rec.IntentID, rec.Word, rec.Batch, rec.Source)
	}
	same := prev != nil && prev.IntentID == rec.IntentID && prev.Same(rec.Position) // a withdrawal has the position of the copy before
	if !rec.Unqueued && !same && !c.has(func(s *submission) bool { return s.id == rec.IntentID && s.is(rec.Position) }) {
		o.find(Own, c.orderNo, nil, "%s (%s) was not stored as message %d at %s", rec.IntentID, rec.Word, rec.Seq, rec.EnqueuedAt)
	}
	o.checkConflicts(c, rec)
	o.checkBody(c, e, prev)
	o.checkBooks(c, rec)
}

// checkPermission checks that a person who permits an attempt saw every doubt about the
// order: none arose after she looked (R5).
func (o *Oracle) checkPermission(c *course, e *Event, prev *order.Record) {
	rec := e.Record
	at, looked := o.process(e.Process).looked[c.orderNo]
	if !looked || rec.AllowedFor == "" || prev.AllowedFor == rec.AllowedFor {
		return
	}
	for _, r := range c.records[:len(c.records)-1] {
		inDoubt := func(a *attempt) bool { return a.claim == r.claim && a.unsure() }
		if r.claim != 0 && r.at > at && r.rec.Unsure && slices.ContainsFunc(c.posts, inDoubt) {
			o.find(Own, c.orderNo, []int{r.line}, "%s permits an attempt for %s, and looked before %s was in doubt", e.Process, rec.AllowedFor, r.rec.IntentID)
		}
	}
}

// checkConflicts checks that a record lists intents as refused that were stored as it says,
// each once and none with its own body, unless that has no outcome yet.
func (o *Oracle) checkConflicts(c *course, rec *order.Record) {
	for i, x := range rec.Conflicts {
		if x.BodyHash != "" && x.BodyHash == rec.BodyHash && rec.Outcome() != order.OutcomeNone && rec.Outcome() != order.OutcomeCancelled {
			o.find(Own, c.orderNo, nil, "%s (%s) lists %s as refused, with its own body", rec.IntentID, rec.Word, x.IntentID)
		}
		if slices.ContainsFunc(rec.Conflicts[:i], func(y order.Conflict) bool { return y.IntentID == x.IntentID }) {
			o.find(Own, c.orderNo, nil, "%s (%s) lists %s twice", rec.IntentID, rec.Word, x.IntentID)
		}
		// One that repeated an accepted order is known by the import of the intent before.
		repeated := slices.ContainsFunc(c.records, func(r observed) bool {
			return r.rec.Outcome() == order.OutcomeAccepted && r.rec.IntentID == x.IntentID && r.rec.Batch == x.Batch && r.rec.BodyHash == x.BodyHash
		})
		if !repeated && !c.has(func(s *submission) bool {
			return s.named(x.IntentID) && s.body == x.BodyHash && s.batch == x.Batch && s.source == x.Source
		}) {
			o.find(Own, c.orderNo, nil, "%s is listed as refused, and was another intent", x.IntentID)
		}
	}
}

// shape returns what a record must not say besides its outcome; "" = all is well.
func shape(r *order.Record) string {
	out := r.Outcome()
	note, open := out == order.OutcomeNone, out == order.OutcomeNone || out == order.OutcomeUnknown
	switch {
	case note != r.SettledAt.IsZero(), note != (r.Note != order.NoteNone):
		return "is half a note"
	case !note && r.Unsure != (out == order.OutcomeUnknown):
		return "is an outcome that does not fit its doubt"
	case r.AllowedFor != "" && !open:
		return "permits what needs no permission"
	case open && r.By != "", note && r.Dropped, r.Dropped && !out.NeedsLetter():
		return "says what a person did about another outcome"
	case !r.NotBefore.IsZero() && r.Note != order.NoteDelayed:
		return "delays no attempt"
	default:
		return ""
	}
}

// checkKept checks that a record keeps what the one before says about the order_no.
func (o *Oracle) checkKept(c *course, e *Event, prev *order.Record) {
	rec, person := e.Record, e.Claim == 0
	if !person && !slices.Equal(rec.Interventions, prev.Interventions) {
		o.find(Own, c.orderNo, nil, "%s forgets or invents what people did", e.Process)
	}
	switch granted := rec.AllowedFor != "" && prev.AllowedFor != rec.AllowedFor; {
	case granted && !person:
		o.find(Own, c.orderNo, nil, "%s permits another attempt", e.Process)
	case granted && !prev.Names(settle.LetterReplayed(rec.AllowedFor)):
		o.find(Own, c.orderNo, nil, "%s permits an attempt for %s, and the record names the letters %d", e.Process, rec.AllowedFor, prev.Letters())
	}
	o.checkPermission(c, e, prev)
	if rec.Outcome() != order.OutcomeAccepted || rec.BodyHash != prev.BodyHash || len(rec.Conflicts) >= 100 {
		return
	}
	for _, x := range prev.Conflicts {
		if len(rec.Conflicts) >= 10 && (x.Dropped || x.Unqueued) { // nobody waits for its letter
			continue
		}
		if rec.ConflictOf(x.IntentID) == nil && (x.BodyHash == "" || x.BodyHash != rec.BodyHash) {
			o.find(Own, c.orderNo, nil, "%s forgets that %s was refused", e.Process, x.IntentID)
		}
	}
}

// checkBody checks that the body in a record is the one that is in doubt, or that the API
// has.
func (o *Oracle) checkBody(c *course, e *Event, prev *order.Record) {
	rec := e.Record
	posted, unsure := false, false // an attempt with that body; one that may have created the order
	for _, a := range c.posts {
		if a.body == rec.BodyHash {
			posted, unsure = true, unsure || a.unsure()
		}
	}
	inherits := prev != nil && prev.Unsure
	if own := o.claims[e.Claim]; own != nil && own.count > 1 && rec.Outcome() == order.OutcomeUnknown && !inherits {
		c.mayHavePosted(rec.BodyHash) // a doubt withheld the delivery before, and is over: the worker cannot know that (R3)
	}
	if !rec.Unsure || rec.BodyHash == "" && !inherits {
		c.neverSent = rec.Unsure
	}
	switch {
	case rec.Outcome() == order.OutcomeUnknown && inherits && !posted && !c.lostBodies[rec.BodyHash] &&
		(prev.BodyHash != "" && prev.BodyHash != rec.BodyHash || !c.neverSent && !o.killed && c.mayExist()):
		o.find(Own, c.orderNo, nil, "the body of %s is in doubt, and was never posted", rec.IntentID)
	case rec.Outcome() == order.OutcomeAccepted && !c.has(func(s *submission) bool { return s.named(rec.IntentID) && s.body == rec.BodyHash }):
		o.find(Own, c.orderNo, nil, "%s is accepted with another body than its own", rec.IntentID)
	}
	switch {
	case rec.Outcome() != order.OutcomeAccepted || prev.Outcome() == order.OutcomeAccepted || c.created == 0 || c.bodies[rec.BodyHash]:
	case o.saidNoTooSoon(c), c.lostBodies[rec.BodyHash], o.killed && rec.BodyHash != "", posted && (unsure || rec.Verdict == order.Accepted): // nobody can tell which of two bodies the API has
		o.Counts.OtherBodies++
	default:
		o.find(True, c.orderNo, nil, "%s is accepted, and the API has another body", rec.IntentID)
	}
}

// mayExist reports whether an attempt, or a lost delivery, may have created the order.
func (c *course) mayExist() bool {
	return len(c.lostBodies) > 0 || slices.ContainsFunc(c.posts, (*attempt).unsure)
}

// checkBooks checks that a record counts each stored intent, but for the one in the queue
// if no record settles that one yet (R11).
func (o *Oracle) checkBooks(c *course, rec *order.Record) {
	settles := func(r *order.Record) bool {
		if x := r.Listed(c.named); x != nil {
			return x.Seq >= c.pending
		}
		return r.Settles(c.named) && r.Seq >= c.pending
	}
	settled := c.intents
	if c.pending != 0 && !slices.ContainsFunc(c.records, func(r observed) bool { return settles(r.rec) }) {
		settled--
	}
	if rec.Settled != settled {
		o.find(OneOutcome, c.orderNo, nil, "%d intents were stored, %d are settled by %s", c.intents, rec.Settled, rec.Word)
	}
}
