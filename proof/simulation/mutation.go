package simulation

import (
	"context"
	"fmt"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Mutation drops one rule of the protocol, to prove that the simulation notices.
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
	// R4: a worker acknowledges a redelivered failure without checking its letter.
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
	// timestamps its order had (signing rule 13).
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
	// Leftover: a trim leaves the letter of an accepted order whose delivery the broker forgot
	// (a part of R14).
	Leftover
	// Time: of two copies, the one with the earlier time counts as the older one (a part of R6).
	Time
	// Trust: a trim takes what the consumer counts as acknowledged, and reads no record (a part of
	// R14).
	Trust
	// Overdue: nobody asks for a delivery whose time a broker's clock put into the future (a part of R9).
	Overdue
	// Delays: a worker waits as long as its clock says for a time that another clock wrote (a part of R9).
	Delays
)

var mutationNames = [...]string{"none", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "repost", "marks", "barrier", "R13", "moved", "index", "wall", "monotonic", "page", "late", "arrival", "look", "stamps", "reconnect", "begun", "opened", "kept", "purge", "floor", "certain", "withdrawn", "notes", "leftover", "time", "trust", "overdue", "delays"}

var mutationTexts = [...]string{"", "the broker takes writes to the results without checking the expected sequence", "workers do not check deliveries against the results",
	"workers do not inherit doubt", "a worker acknowledges a redelivered failure without checking its letter",
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
	"a trim leaves the letter of an accepted order whose delivery the broker forgot",
	"of two copies of an order's intents, the one with the earlier time counts as the older one",
	"a trim takes what the consumer counts as acknowledged, and reads no record",
	"nobody asks for a delivery whose time a broker's clock put into the future",
	"a worker waits as long as its clock says for a time that another clock wrote"}

// String returns the name.
func (m Mutation) String() string { return mutationNames[m] }

// Meaning returns one phrase for people.
func (m Mutation) Meaning() string { return mutationTexts[m] }

// Mutations lists the mutations that the simulation must notice. It omits five,
// because the schedules that expose them are too rare.
func Mutations() []Mutation {
	out := make([]Mutation, 0, len(mutationNames)-1)
	for m := R1; m < Reconnect; m++ {
		out = append(out, m)
	}
	return append(out, Kept, Purge, Floor, Certain, Withdrawn, Time, Trust, Overdue, Delays)
}

// RareMutations lists the mutations that Mutations omits.
func RareMutations() []Mutation { return []Mutation{Reconnect, Begun, Opened, Notes, Leftover} }

// ParseMutation returns the mutation with this name.
func ParseMutation(name string) (Mutation, error) {
	for i, n := range mutationNames {
		if strings.EqualFold(n, name) {
			return Mutation(i), nil
		}
	}
	return None, fmt.Errorf("mutation %q is none of %s", name, strings.Join(mutationNames[:], ", "))
}

// ofTheProtocol returns the step that the shipped code omits, or Intact if the mutation
// changes the model.
func (m Mutation) ofTheProtocol() settle.Mutation {
	switch m {
	case R3:
		return settle.NoInheritedDoubt
	case R4:
		return settle.NoLetterCheck
	case R7:
		return settle.NoLease
	case R8:
		return settle.PoisonByCount
	case R10:
		return settle.NoStorageGate
	case Reconnect:
		return settle.NoReconnectGrace
	case Repost:
		return settle.RetryEverything
	case Begun:
		return settle.NoBeginNote
	case Barrier:
		return settle.NoBarrier
	case R13:
		return settle.RemoveBeforeMove
	case Moved:
		return settle.NoMoveCheck
	case Purge:
		return settle.PurgeBlocked
	case Floor:
		return settle.TrimOneTooMany
	case Trust:
		return settle.TrustFloor
	case Overdue:
		return settle.LeaveOverdue
	case Delays:
		return settle.WaitByClock
	case Certain:
		return settle.TrimDelivered
	case Withdrawn:
		return settle.PostWithdrawn
	case Leftover:
		return settle.LeaveLetter
	case Notes:
		return settle.NoNoteWithReplicas
	case WallClock:
		return settle.WallClockAlone
	case Monotonic:
		return settle.MonotonicAlone
	case Page:
		return settle.BelievePage
	case Late:
		return settle.OutcomeAfterClaim
	case Arrival:
		return settle.NoRequestOnArrival
	case Look:
		return settle.NoSecondLook
	default:
		return settle.Intact
	}
}

// hasConsumerChanges reports whether the leader of the workers' consumer changes in
// schedules with this mutation. The mutations that came before this fault are known to
// be noticed without it.
func (m Mutation) hasConsumerChanges() bool {
	return m == None || m == Arrival || m == Look || m == Stamps || m == Notes
}

func (w *world) drops(m Mutation) bool { return w.mutation == m }

// mutateRead changes the record that a worker reads.
func (w *world) mutateRead(token string, e settle.Entry) settle.Entry {
	if w.mutation == None || !w.e.running.checking || e.Record == nil {
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

// beforeReplay implements the mutation R5.
func (w *world) beforeReplay(ctx context.Context, s store, m *settle.Message) error {
	if !w.drops(R5) || settle.LetterReplayed(given(m)) == 0 {
		return nil
	}
	l, err := s.Letter(ctx, orderNoOf(m.Subject))
	if err != nil || l == nil {
		return err
	}
	return s.DeleteLetter(ctx, orderNoOf(m.Subject), l)
}
