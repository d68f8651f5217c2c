package simulation

import (
	"context"
	"fmt"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Mutation drops one rule of the protocol, to show that the simulation would
// notice.
type Mutation uint8

// The mutations, by the rule that they drop.
const (
	None Mutation = iota
	// R1: the broker takes every write, whatever its writer has read.
	R1
	// R2: deliveries are not checked against the results.
	R2
	// R3: doubt is not inherited.
	R3
	// R4: a redelivered failure is acknowledged without a look at its letter.
	R4
	// R5: a replay removes the letter before its intent is stored.
	R5
	// R6: any record of the order_no passes for one about this intent.
	R6
	// R7: a worker believes in its claim for as long as it likes.
	R7
	// R8: deliveries that nothing explains count towards poison.
	R8
	// R9: not_before is not honoured.
	R9
	// R10: the gate stays open while results are refused.
	R10
	// Repost: a refused result repeats the POST, and not only the write (a part of R10).
	Repost
	// Marks: how far the stream was delivered is not kept (a part of R2 and R3).
	Marks
	// Barrier: whatever replica answers a batched read is believed (a part of R2).
	Barrier
	// Reconnect: no waiting after a reconnect (a part of R7).
	Reconnect
	// Begun: redeliveries are not noted before they are posted (a part of R3).
	Begun
)

var mutationNames = [...]string{"none", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "repost", "marks", "barrier", "reconnect", "begun"}

var mutationTexts = [...]string{"", "writes to the results are unconditional", "deliveries are not checked against the results",
	"doubt is not inherited", "a redelivered failure is acknowledged without a look at its letter",
	"a replay removes the letter before its intent is stored", "any record of the order_no passes for one about this intent",
	"a worker believes in its claim for as long as it likes", "deliveries that nothing explains count towards poison",
	"not_before is not honoured", "the gate stays open while results are refused", "a refused result repeats the POST, and not only the write",
	"how far the stream was delivered is not kept", "whatever replica answers a batched read is believed",
	"redelivered orders are posted at once after a reconnect",
	"a redelivery is not noted before it is posted"}

// String gives the name.
func (m Mutation) String() string { return mutationNames[m] }

// Meaning is one phrase.
func (m Mutation) Meaning() string { return mutationTexts[m] }

// Mutations lists those that must be noticed. Reconnect and Begun are left out:
// the schedules in which they show are too rare.
func Mutations() []Mutation {
	out := make([]Mutation, 0, len(mutationNames)-1)
	for m := R1; m <= Barrier; m++ {
		out = append(out, m)
	}
	return out
}

// ParseMutation reads a name.
func ParseMutation(name string) (Mutation, error) {
	for i, n := range mutationNames {
		if strings.EqualFold(n, name) {
			return Mutation(i), nil
		}
	}
	return None, fmt.Errorf("mutation %q is none of %s", name, strings.Join(mutationNames[:], ", "))
}

// ofTheProtocol is the step that the shipped code leaves out; Intact for the
// mutations of the model.
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
	default:
		return settle.Intact
	}
}

func (w *world) drops(m Mutation) bool { return w.mutation == m }

// mutateRead changes what a worker reads as the last word.
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
	case R9:
		e.Record.NotBefore = time.Time{}
	}
	return e
}

// beforeReplay is R5's mutation.
func (w *world) beforeReplay(ctx context.Context, s store, m *settle.Message) error {
	if !w.drops(R5) || !strings.HasPrefix(given(m), "replay:") {
		return nil
	}
	l, err := s.Letter(ctx, orderNoOf(m.Subject))
	if err != nil || l == nil {
		return err
	}
	return s.DeleteLetter(ctx, orderNoOf(m.Subject), l)
}
