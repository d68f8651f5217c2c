package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Mutation drops one rule of the protocol, to prove that the simulation notices. The protocol's
// code is the one that programs run, and has no switch for it. A mutation changes what surrounds
// that code: its store, its clock, its submitter, or a delivery before it is handled.
type Mutation uint8

// The mutations, named by the rule that they drop.
const (
	None Mutation = iota
	// R1: the broker takes every write without checking the expected sequence.
	R1
	// R2: workers do not check deliveries against the results.
	R2
	// R3: doubt is not inherited.
	R3
	// R4: a record names a letter that is not stored.
	R4
	// R5: a replay removes the letter before it stores the intent.
	R5
	// R6: any record of the order_no counts as one about this intent.
	R6
	// R7: a worker never gives up its claim.
	R7
	// R8: unexplained deliveries count towards poison.
	R8
	// R9: workers ignore not_before.
	R9
	// R10: the gate stays open while the broker refuses results.
	R10
	// Repost: a refused result repeats the POST, not only the write (a part of R10).
	Repost
	// Marks: the delivered high-water mark is not kept (a part of R2 and R3).
	Marks
	// Barrier: a worker believes whatever replica answers a batched read (a part of R2).
	Barrier
	// R13: a move removes an intent from the waiting room before it publishes the
	// intent.
	R13
	// Moved: a move does not recognise what was moved and settled before (a part of
	// R13).
	Moved
	// Index: a worker believes a leader's "no message found" although its index has one (a
	// part of R2).
	Index
	// WallClock: claims are measured by the wall clock alone (a part of R7).
	WallClock
	// Monotonic: claims are measured by the monotonic clock alone (a part of R7).
	Monotonic
	// Page: a person's act believes the page (a part of R5).
	Page
	// Late: an outcome is written though its writer's claim has ended (a part of R7).
	Late
	// Arrival: a worker asks for no more time when an intent arrives that has waited (a
	// part of R7).
	Arrival
	// Look: a worker does not look at the record again before an attempt (a part of R7).
	Look
	// Stamps: an attempt behind a clock that was put back gets the present time, whatever
	// timestamps its order had (docs/signing.md).
	Stamps
	// Reconnect: a worker does not wait after a reconnect (a part of R7).
	Reconnect
	// Begun: a worker writes no note before it posts a redelivery (a part of R3).
	Begun
	// Opened: an order that is given up opens the gate, while others still wait for room
	// (a part of R10).
	Opened
	// Kept: a refusal that a rule gave, and that was called back, is no doubt (a part of R3).
	Kept
	// Purge: a feeder purges the waiting room past an intent that stays (a part of R13).
	Purge
	// Floor: a trim takes the first intent that is not settled, too (a part of R14).
	Floor
	// Certain: a trim takes what was delivered, before its result is certain (a part of R14).
	Certain
	// Withdrawn: a worker posts what it knows to be cancelled (R15).
	Withdrawn
	// Notes: under park, a first delivery is posted without a note, with replicas, too (a
	// part of R2).
	Notes
	// Hidden: a note forgets the letter of the failure before it (a part of R4).
	Hidden
	// Time: of two copies, the one with the earlier time counts as the older one (a part of R6).
	Time
	// Trust: a trim takes what the consumer counts as acknowledged, and reads no record (a part of
	// R14).
	Trust
	// Overdue: nobody asks for a delivery whose time a broker's clock put into the future (a part of R9).
	Overdue
	// Delays: a worker waits as long as its clock says for a time that another clock wrote (a part of R9).
	Delays
	// Body: a person may permit another body than the one in doubt (a part of R3).
	Body
	// Sweep: a sweep takes letters at once that no record names yet (a part of R4).
	Sweep
	// Absent: one absent answer is believed at once (a part of R3).
	Absent
	// Quarantine: an absence is believed while a request may be on its way (a part of R3).
	Quarantine
	// Across: an absence that was said before an attempt counts (a part of R3).
	Across
	// Asked: an intent that only asks is posted as one that a person permitted (a part of R3).
	Asked
	// Number: whoever raises the number of another's note leaves the run of the broker that counted it (a part of R7).
	Number
	// Taken: an outcome that is taken back is about the body that was withdrawn (a part of R15).
	Taken
	// Word: a cancellation that becomes unknown is the person's word, and has no letter (a part of R3).
	Word
)

var mutationNames = [...]string{"none", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "repost", "marks", "barrier", "R13", "moved", "index", "wall", "monotonic", "page", "late", "arrival", "look", "stamps", "reconnect", "begun", "opened", "kept", "purge", "floor", "certain", "withdrawn", "notes", "hidden", "time", "trust", "overdue", "delays", "body", "sweep", "absent", "quarantine", "across", "asked", "number", "taken", "word"}

var mutationTexts = [...]string{"", "the broker takes writes to the results without checking the expected sequence", "workers do not check deliveries against the results",
	"workers do not inherit doubt", "a record names a letter that is not stored",
	"a replay removes the letter before it stores the intent", "any record of the order_no counts as one about this intent",
	"a worker never gives up its claim", "unexplained deliveries count towards poison",
	"workers ignore not_before", "the gate stays open while the broker refuses results", "a refused result repeats the POST, not only the write",
	"workers do not keep the delivered high-water mark", "a worker believes whatever replica answers a batched read",
	"a move removes an intent from the waiting room before it publishes the intent",
	"a move does not recognise what was moved and settled before",
	"a worker believes 'no message found' of a leader that stops", "claims are measured by the wall clock alone", "claims are measured by the monotonic clock alone", "a person's act believes the page that shows the letter",
	"an outcome is written though its writer's claim has ended",
	"a worker asks for no more time when an intent arrives that has waited",
	"a worker does not look at the record again before an attempt",
	"an attempt after a clock was put back gets the present time, whatever timestamps its order had",
	"a worker does not wait after a reconnect",
	"a worker writes no note before it posts a redelivery",
	"an order that is given up opens the gate, while others still wait for room",
	"a refusal that a rule gave, and that was called back, is no doubt",
	"a feeder purges the waiting room past an intent that stays",
	"a trim takes the first intent that is not settled, too",
	"a trim takes what was delivered, before its result is certain",
	"a worker posts what it knows to be cancelled",
	"under park, a first delivery is posted without a note, with replicas, too",
	"a note forgets the letter of the failure before it",
	"of two copies of an order's intents, the one with the earlier time counts as the older one",
	"a trim takes what the consumer counts as acknowledged, and reads no record",
	"nobody asks for a delivery whose time a broker's clock put into the future",
	"a worker waits as long as its clock says for a time that another clock wrote",
	"a person may permit another body than the one in doubt",
	"a sweep takes letters at once that no record names yet",
	"one absent answer is believed at once",
	"an absence is believed while a request may still be on its way",
	"an absence that was said before an attempt counts after it",
	"an intent that only asks the API is posted",
	"whoever raises the number of another's note leaves the run of the broker that counted it",
	"an outcome that is taken back is about the body that was withdrawn",
	"a cancellation that becomes unknown is the person's word, and has no letter"}

// String returns the name.
func (m Mutation) String() string { return mutationNames[m] }

// Meaning returns one phrase for people.
func (m Mutation) Meaning() string { return mutationTexts[m] }

// Mutations lists the mutations that the simulation must notice. It omits some,
// because the schedules that expose them are too rare.
func Mutations() []Mutation {
	out := make([]Mutation, 0, len(mutationNames)-1)
	for m := R1; m < Reconnect; m++ {
		out = append(out, m)
	}
	return append(out, Kept, Purge, Floor, Certain, Withdrawn, Hidden, Time, Trust, Overdue, Delays, Sweep, Absent, Quarantine, Across, Asked)
}

// RareMutations lists the mutations that Mutations omits.
func RareMutations() []Mutation {
	return []Mutation{Reconnect, Begun, Opened, Notes, Body, Number, Taken, Word}
}

// ParseMutation returns the mutation with this name.
func ParseMutation(name string) (Mutation, error) {
	for i, n := range mutationNames {
		if strings.EqualFold(n, name) {
			return Mutation(i), nil
		}
	}
	return None, fmt.Errorf("mutation %q is none of %s", name, strings.Join(mutationNames[:], ", "))
}

// inAll reports whether schedules have all that the model knows. A mutation's have what it knew when the
// mutation was found to be noticed.
func (m Mutation) inAll() bool { return m == None || m == Number || m == Taken || m == Word }

// narrow leaves out of a mutation's schedules the faults that the model learned after it was known to be noticed.
func (w *world) narrow() {
	m, p := w.mutation, &w.cfg
	if m != Arrival && m != Look && m != Stamps && m != Notes {
		p.ConsumerChanges = 0
	}
	if m != Kept {
		p.Misread = 0
	}
	if m != Trust {
		p.FloorMoves = 0
	}
	if m != Time && m != Overdue && m != Delays {
		p.BrokerClocks = 0
	}
	if m != Asked {
		p.Askers = 0
	}
	if m.aboutLookups() {
		w.e.in(streamOf(ofTrouble, troubleLookup, 0xff, 1), func() { p.drawLookup(w.e) })
	} else {
		p.Lookup = nil
	}
}

// aboutLookups reports whether a mutation is about lookups.
func (m Mutation) aboutLookups() bool { return m == Absent || m == Quarantine || m == Across }

func (w *world) drops(m Mutation) bool { return w.mutation == m }

// mutateRead changes the record that a process reads.
func (w *world) mutateRead(token string, e settle.Entry) settle.Entry {
	switch {
	case w.mutation == None || e.Record == nil:
		return e
	case w.mutation == Moved && w.e.running.host.moving:
		e.Record = nil
		return e
	case w.mutation == Body:
		if in, l := w.broker.bySubj[subjectPrefix+token], w.broker.lastLetter(token); w.e.running.checking && in != nil && e.Record.Allows(in.id) {
			if parsed, err := order.Parse(in.msg.Data); err == nil {
				e.Record.BodyHash = parsed.BodyHash()
			}
		} else if strings.HasPrefix(w.e.running.host.name, anna.Name) && l != nil && e.Record.Outcome() == order.OutcomeUnknown {
			e.Record.BodyHash = l.BodyHash
		}
		return e
	case !w.e.running.checking:
		return e
	}
	switch w.mutation {
	case R2:
		e.Record = nil
	case R3:
		e.Record.Unsure, e.Record.Lost = false, 0
		if e.Record.Note == order.NoteAttempt {
			e.Record.Note = order.NoteHandedBack
		}
	case R6:
		if in := w.broker.bySubj[subjectPrefix+token]; in != nil {
			e.Record.IntentID = in.id
		}
	case Time:
		in := w.broker.bySubj[subjectPrefix+token]
		switch rec := e.Record; {
		case in == nil, in.msg.Time.After(rec.EnqueuedAt) == (in.msg.Seq > rec.Seq):
		case in.msg.Time.After(rec.EnqueuedAt):
			rec.Seq = in.msg.Seq - 1
		default:
			rec.Seq = in.msg.Seq + 1
		}
	case R9:
		e.Record.NotBefore = time.Time{}
	}
	return e
}

// lastLetter returns the letter of an order that was stored last, or nil.
func (b *broker) lastLetter(token string) (last *settle.Letter) {
	for _, seq := range sortedKeys(b.letters) {
		if l := b.letters[seq]; l.FiledUnder == token {
			last = l
		}
	}
	return last
}

// beforeReplay implements the mutation R5.
func (w *world) beforeReplay(ctx context.Context, s store, m *settle.Message) error {
	if !w.drops(R5) || settle.LetterReplayed(given(m)) == 0 {
		return nil
	}
	return s.DeleteLetter(ctx, orderNoOf(m.Subject), settle.LetterReplayed(given(m)))
}

// unchecked is a Barrier that every replica has.
var unchecked = settle.Barrier{Token: "unchecked", Seq: 1}

// mutateDelivery changes a delivery before it is handled. It returns true if it handled it itself.
func (w *world) mutateDelivery(d *delivery) (handled bool) {
	switch w.mutation {
	case R3:
		d.History.Unsure = false
	case Asked:
		if !d.Intent.LookupUntil.IsZero() {
			d.Intent.LookupUntil, d.Allowed = time.Time{}, true
		}
	case R8:
		if d.Work == settle.WorkSuspect {
			d.History.Suspects = d.Unexplained + 1
		}
	}
	return false
}

// mutateSubmission changes what the handler hands to the submitter.
func (k *worker) mutateSubmission(ctx context.Context, d *delivery, s *order.Submission) context.Context {
	switch k.w.mutation {
	case R7:
		ctx, s.Fence = k.work, nil
	case Look:
		s.Fence = func(context.Context) error { return d.Lease().Fence() }
	}
	return ctx
}

// mutateRecord changes a record that a delivery's worker is about to write, and reports whether
// the worker writes it.
func (s store) mutateRecord(rec *order.Record, expect uint64) (written bool) {
	d := s.w.e.running.delivery
	if d == nil {
		if cur := s.w.broker.results[rec.OrderNo]; s.w.drops(Body) && cur != nil {
			rec.BodyHash = cur.rec.BodyHash // a person permits, and changes nothing else
		}
		return true
	}
	switch note := rec.Note == order.NoteAttempt; s.w.mutation {
	case Begun:
		return !note || s.w.cfg.Policy != order.Resubmit || d.CountLost
	case Hidden:
		if rec.Outcome() == order.OutcomeNone {
			rec.Earlier = slices.Clone(rec.Earlier)
			for i := range rec.Earlier {
				rec.Earlier[i].Letter = 0
			}
		}
	case Number:
		if cur := s.w.broker.results[rec.OrderNo]; cur != nil && cur.rec.Open() && rec.Open() && rec.Worker != s.h.name && rec.Delivered > cur.rec.Delivered {
			rec.DeliveryID = cur.rec.DeliveryID
		}
	case Taken:
		if cur := s.w.broker.results[rec.OrderNo]; cur != nil && cur.rec.Unqueued && cur.rec.Outcome() == order.OutcomeCancelled && rec.Outcome() == order.OutcomeUnknown {
			rec.BodyHash = cur.rec.BodyHash
		}
	case Word:
		if d.decided.Outcome == order.OutcomeCancelled && rec.Outcome() == order.OutcomeUnknown {
			rec.By, rec.Letter = "anna", 0
		}
	case Notes:
		return !note || !s.Replicated() || expect > 0 || d.Redelivered()
	case Late:
		if rec.IntentID == d.Intent.ID && rec.Outcome() == order.OutcomeNone && d.decided.Outcome != order.OutcomeNone && !d.Lease().Valid() {
			rec.SetOutcome(d.decided.Outcome)
			rec.Settled++
			rec.Unsure, rec.DeliveryID, rec.SettledAt = d.decided.Unsure, "", s.h.wall()
		}
	}
	return true
}

// repost implements the mutation Repost. Call it when the broker has refused the result of an order.
func (s store) repost() {
	d := s.w.e.running.delivery
	if !s.w.drops(Repost) || d == nil || d.again == nil {
		return
	}
	again := d.again
	d.again = nil // until it was posted
	again()
}

// trimAhead implements the mutations Trust and Certain.
func (k *worker) trimAhead(ctx context.Context) error {
	if !k.w.drops(Trust) && !k.w.drops(Certain) {
		return nil
	}
	s := store{k.w, k.host}
	p, err := s.Progress(ctx)
	if err != nil {
		return err
	}
	if k.w.drops(Trust) {
		return s.PurgeIntents(ctx, p.Floor)
	}
	return s.PurgeIntents(ctx, p.Delivered)
}

// beforeMove implements the mutation R13.
func (f *feeder) beforeMove(ctx context.Context, g settle.WaitingGroup) error {
	if f.w.drops(R13) {
		for _, m := range g.Messages {
			if err := (store{f.w, f.host}).DeleteWaiting(ctx, m.Seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// afterMove implements the mutation Purge.
func (f *feeder) afterMove(ctx context.Context, g settle.WaitingGroup, ends []settle.Move) {
	if !f.w.drops(Purge) || !g.Whole {
		return
	}
	for i := len(ends) - 1; i >= 0; i-- {
		if ends[i].Leaves() {
			_ = store{f.w, f.host}.PurgeWaiting(ctx, g.Messages[i].Subject, g.Messages[i].Seq)
			return
		}
	}
}
