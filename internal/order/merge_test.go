package order

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var epoch = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// recordKinds are records of one intent: every outcome, an outcome by a person,
// and every kind of note, each sure and unsure.
func recordKinds(intent string, enqueued time.Time, delivered uint64) []Record {
	var out []Record
	add := func(r Record) {
		r.OrderNo, r.IntentID, r.Position, r.Delivered = "A-1", intent, storedAt(enqueued), delivered
		r.WriteID = fmt.Sprintf("%s-%d-%d", intent, delivered, len(out))
		out = append(out, r)
	}
	for _, o := range Outcomes() {
		r := Record{Settled: 1}
		r.SetOutcome(o)
		r.Unsure = o == OutcomeUnknown
		add(r)
	}
	for _, said := range []Outcome{OutcomeAccepted, OutcomeRejected, OutcomeCancelled} {
		r := Record{By: "ann", Settled: 1}
		r.SetOutcome(said)
		add(r)
	}
	for kind := NoteDelayed; kind <= NoteSuspect; kind++ {
		for _, unsure := range []bool{false, true} {
			r := Record{Word: Retrying, Note: kind}
			r.Unsure, r.Attempts = unsure, int(delivered)
			add(r)
		}
	}
	proven := Record{Proven: true, Settled: 1}
	proven.SetOutcome(OutcomeRejected)
	add(proven)
	return out
}

// eachPair merges every kind of record over every other: of the same intent,
// delivered earlier, at the same time and later; and of an older and a newer one.
func eachPair(t *testing.T, check func(t *testing.T, cur, mine, after *Record)) {
	t.Helper()
	old := recordKinds("i1", epoch, 2)
	for _, cur := range old {
		for _, group := range [][]Record{
			recordKinds("i1", epoch, 1), recordKinds("i1", epoch, 2), recordKinds("i1", epoch, 3),
			recordKinds("i0", epoch.Add(-time.Hour), 1), recordKinds("i2", epoch.Add(time.Hour), 1),
			recordKinds("i1", epoch.Add(time.Hour), 1),
		} {
			for _, mine := range group {
				if mine.By != "" && mine.Outcome() == OutcomeRejected && (cur.IntentID != mine.IntentID || cur.By == "") {
					continue // she says it of the record that she saw (R5)
				}
				cur.Interventions = []Intervention{{By: "anna"}}
				curBefore, mineBefore := cur, mine
				after := Merge(&cur, &mine)
				require.Equal(t, curBefore, cur)
				require.Equal(t, mineBefore, mine)
				if after == nil {
					after = &cur
				}
				require.Equal(t, cur.Interventions, after.Interventions, "what people did is not forgotten")
				check(t, &cur, &mine, after)
			}
		}
	}
}

// explainPair is formatted only where an assertion fails.
func explainPair(cur, mine, after *Record) fmt.Stringer { return pair{cur, mine, after} }

type pair struct{ cur, mine, after *Record }

func (p pair) String() string {
	line := func(r *Record) string {
		return fmt.Sprintf("%s %s%s by=%q unsure=%t delivered=%d settled=%d", r.IntentID, r.Word, r.Note, r.By, r.Unsure, r.Delivered, r.Settled)
	}
	return line(p.cur) + " | " + line(p.mine) + " → " + line(p.after)
}

func TestR1AcceptedIsNeverReplaced(t *testing.T) {
	eachPair(t, func(t *testing.T, cur, mine, after *Record) {
		if cur.Outcome() == OutcomeAccepted {
			require.Equal(t, OutcomeAccepted, after.Outcome(), "%s", explainPair(cur, mine, after))
		}
	})
}

func TestR1RankOnlyRisesWithinAnIntent(t *testing.T) {
	eachPair(t, func(t *testing.T, cur, mine, after *Record) {
		if cur.IntentID == mine.IntentID {
			require.GreaterOrEqual(t, rank(after), rank(cur), "%s", explainPair(cur, mine, after))
			require.GreaterOrEqual(t, rank(after), rank(mine), "%s", explainPair(cur, mine, after))
		}
	})
}

func TestR1AmongOtherOutcomesTheFirstWins(t *testing.T) {
	eachPair(t, func(t *testing.T, cur, mine, after *Record) {
		if cur.IntentID == mine.IntentID && rank(cur) == rankOther && rank(mine) == rankOther {
			require.Equal(t, cur.Word, after.Word, "%s", explainPair(cur, mine, after))
		}
	})
}

// A cancellation claims that no worker tried. A worker that recorded an outcome did.
func TestR1ACancellationReplacesNoOutcomeOfAWorker(t *testing.T) {
	cancelled := Record{IntentID: "i1", Position: storedAt(epoch), By: "ann", Settled: 1}
	cancelled.SetOutcome(OutcomeCancelled)
	for _, o := range []Outcome{OutcomeRejected, OutcomeUnknown} {
		worker := Record{IntentID: "i1", Position: storedAt(epoch), Settled: 1}
		worker.SetOutcome(o)
		worker.Unsure = o == OutcomeUnknown
		require.Nil(t, Merge(&worker, &cancelled), "%s", o)
	}
	doubt := Record{IntentID: "i1", Position: storedAt(epoch), Worker: "a"}
	doubt.SetOutcome(OutcomeUnknown)
	doubt.Unsure = true
	after := Merge(&cancelled, &doubt)
	require.Equal(t, OutcomeUnknown, after.Outcome())
	require.True(t, after.NeedsLetter(), "nobody knows of it yet")
	require.Equal(t, 1, after.Settled)
}

// R3: a cancellation knows no timestamp, and the next attempt must be stamped later than the
// last one.
func TestR3ACancellationKeepsTheLastTimestamp(t *testing.T) {
	cur := &Record{IntentID: "i1", Settled: 1, History: History{LastTimestamp: 7}}
	cur.SetOutcome(OutcomeRejected)
	mine := &Record{IntentID: "i2", Position: storedAt(epoch)}
	mine.SetOutcome(OutcomeCancelled)
	require.EqualValues(t, 7, Merge(cur, mine).LastTimestamp)
}

func TestR1AnOlderIntentMayOnlyRaiseToAccepted(t *testing.T) {
	eachPair(t, func(t *testing.T, cur, mine, after *Record) {
		if mine.IntentID != "i0" {
			return
		}
		require.Equal(t, cur.IntentID, after.IntentID)
		if mine.Outcome() != OutcomeAccepted || cur.Outcome() == OutcomeAccepted && (cur.By == "" || mine.By != "") { // a person's word, repeated, is no answer of the API
			require.Equal(t, cur, after, "%s", explainPair(cur, mine, after))
			return
		}
		require.Equal(t, OutcomeAccepted, after.Outcome())
		require.Equal(t, mine.BodyHash, after.BodyHash)
		require.Empty(t, after.By)
	})
}

func TestR1MergeIsIdempotent(t *testing.T) {
	eachPair(t, func(t *testing.T, cur, mine, after *Record) {
		again := Merge(after, mine)
		if again == nil {
			return
		}
		require.Equal(t, after, again, "%s", explainPair(cur, mine, after))
	})
}

// The worker that was given an order before its cancellation was stored reports later that it
// may have created it.
func TestR3ALateDoubtTakesBackACancellation(t *testing.T) {
	cur := Record{OrderNo: "A-1", IntentID: "i1", Position: storedAt(epoch), By: "ann", Settled: 1, Reason: "withdrawn before any attempt"}
	cur.SetOutcome(OutcomeCancelled)
	late := Record{OrderNo: "A-1", IntentID: "i1", Position: storedAt(epoch), Word: Retrying, Note: NoteHandedBack, Verdict: Unsure, History: History{Attempts: 1, Unsure: true, LastTimestamp: 7}}
	next := Merge(&cur, &late)
	require.NotNil(t, next)
	require.Equal(t, OutcomeUnknown, next.Outcome())
	require.True(t, next.Unsure)
	require.Equal(t, 1, next.Attempts)
	require.Equal(t, 1, next.Settled)
	require.NotEqual(t, cur.Reason, next.Reason, "it was not withdrawn before any attempt")
	require.Empty(t, next.By, "it is nobody's word")
	require.True(t, next.NeedsLetter(), "the worker that reports it files one")
	cur.Unqueued = true
	moved := late
	moved.Position = storedAt(epoch.Add(time.Second)) // by a feeder that was frozen
	require.False(t, Merge(&cur, &moved).NeedsLetter(), "whoever is given it next counts it and files one")
	require.Nil(t, Merge(&cur, &late), "the copy before the one that was withdrawn was settled")
	cur.Unqueued = false
	knew := cur
	knew.LastTimestamp = late.LastTimestamp
	require.Nil(t, Merge(&knew, &late), "whoever cancelled it had read of the attempt, and judged it")
	again := cur
	again.Position = storedAt(epoch.Add(time.Second))
	require.Nil(t, Merge(&again, &late), "the copy that the worker had was settled; nobody is given this one")
	late.Unsure, late.Verdict = false, Retry
	require.Nil(t, Merge(&cur, &late))
}

func TestR3DoubtSurvivesEveryMerge(t *testing.T) {
	eachPair(t, func(t *testing.T, cur, mine, after *Record) {
		if cur.Outcome() != OutcomeNone || !cur.Unsure || mine.IntentID == "i0" {
			return
		}
		settled := after.Outcome() == OutcomeAccepted || after.By != "" || after.Proven
		require.True(t, after.Unsure || settled, "%s", explainPair(cur, mine, after))
		if !after.Proven {
			require.NotEqual(t, "no", after.Outcome().Created(), "%s", explainPair(cur, mine, after))
		}
	})
}

func TestR3AProofIsNotAboutALaterAttempt(t *testing.T) {
	cur := Record{Word: Retrying, IntentID: "i1"}
	cur.Unsure, cur.LastTimestamp = true, 2
	mine := Record{IntentID: "i1", Proven: true}
	mine.LastTimestamp = 1
	mine.SetOutcome(OutcomeRejected)
	require.Equal(t, OutcomeUnknown, Merge(&cur, &mine).Outcome())
	cur.LastTimestamp = 1
	require.Equal(t, OutcomeRejected, Merge(&cur, &mine).Outcome())
}

func TestR6AnUnknownOutcomeIsNotHiddenByANote(t *testing.T) {
	for _, note := range recordKinds("i2", epoch.Add(time.Hour), 1) {
		if note.Outcome() != OutcomeNone {
			continue
		}
		cur := Record{IntentID: "i1", Position: storedAt(epoch), Settled: 1}
		cur.SetOutcome(OutcomeUnknown)
		require.Nil(t, Merge(&cur, &note), "the note would pass for leave to submit")

		cur.AllowedFor = "i2"
		after := Merge(&cur, &note)
		require.Equal(t, Retrying, after.Word)
		require.True(t, after.Allows("i2"), "a person's leave holds for the whole intent")
		next := note
		next.Delivered++
		require.Equal(t, !note.Open(), Merge(after, &next).Allows("i2"), "but not for an attempt whose delivery never said how it ended")
	}
}

// A person allows the doubt that she saw, and no later one.
func TestR6ANewDoubtEndsAPermission(t *testing.T) {
	claim := Record{Word: Retrying, Note: NoteAttempt, IntentID: "i1", Delivered: 2, DeliveryID: "a", AllowedFor: "i1"}
	claim.Unsure = true
	note := func(verdict Verdict, delivered uint64, delivery string) *Record {
		return &Record{Word: Retrying, Note: NoteHandedBack, IntentID: "i1", Delivered: delivered, DeliveryID: delivery, Verdict: verdict, History: History{Unsure: true, Attempts: 1}}
	}
	require.True(t, Merge(&claim, note(Retry, 2, "a")).Allows("i1"), "its own writer ended the attempt without effect")
	require.False(t, Merge(&claim, note(Unsure, 2, "a")).Allows("i1"), "the attempt was unsure")
	require.False(t, Merge(&claim, note(VerdictNone, 3, "b")).Allows("i1"), "nobody knows how the attempt ended")
	require.True(t, Merge(&claim, note(VerdictNone, 2, "b")).Open(), "another delivery's claim stays open")
	require.False(t, Merge(&claim, note(Unsure, 1, "b")).Allows("i1"), "a late writer's attempt was unsure")
}

func TestR7ALateNoteDoesNotUndoItsSuccessorsClaim(t *testing.T) {
	claim := Record{Word: Retrying, Note: NoteAttempt, IntentID: "i1", Delivered: 2, Worker: "b", WriteID: "b1"}
	claim.LastAttemptAt, claim.Suspects = epoch, 2
	late := Record{Word: Retrying, Note: NoteHandedBack, IntentID: "i1", Delivered: 1, Worker: "a", WriteID: "a1"}
	late.Unsure, late.Attempts = true, 3

	after := Merge(&claim, &late)
	require.Equal(t, NoteAttempt, after.Note)
	require.Equal(t, "b", after.Worker)
	require.EqualValues(t, 2, after.Delivered)
	require.Equal(t, 2, after.Suspects)
	require.True(t, after.Unsure, "what the late one did counts")
	require.Equal(t, 3, after.Attempts)

	late.Unsure, late.Attempts = false, 0
	require.Nil(t, Merge(&claim, &late), "it knows nothing new")
}

// The broker was killed and counts anew: two deliveries have the same number.
// The note of the one that did nothing would explain the other's attempt
// (simulation, seeds 30134671 and 30918401).
func TestR7ANoteUnderTheSameNumberDoesNotUndoAnothersClaim(t *testing.T) {
	for _, open := range []NoteKind{NoteAttempt, NoteSuspect} {
		claim := Record{Word: Retrying, Note: open, IntentID: "i1", Delivered: 1, DeliveryID: "d2", WriteID: "b1"}
		claim.Attempts = 1
		late := Record{Word: Retrying, Note: NoteHandedBack, IntentID: "i1", Delivered: 1, DeliveryID: "d1", WriteID: "a1"}
		require.Nil(t, Merge(&claim, &late))
		late.DeliveryID = "d2"
		require.Equal(t, NoteHandedBack, Merge(&claim, &late).Note, "the claim's own end")

		claim.AllowedFor, late.AllowedFor = "i1", ""
		require.True(t, Merge(&claim, &late).Allows("i1"))
		newer := late
		newer.IntentID, newer.Position, newer.DeliveryID = "i2", storedAt(epoch.Add(time.Hour)), "d3"
		require.Empty(t, Merge(&claim, &newer).AllowedFor, "nobody ended that attempt")
	}
}

func TestR11EachStoredIntentIsCountedOnce(t *testing.T) {
	eachPair(t, func(t *testing.T, cur, mine, after *Record) {
		key := func(id string, enqueued time.Time) string { return id + enqueued.String() }
		settled := func(r *Record) map[string]bool {
			keys := make(map[string]bool)
			if r.Outcome() != OutcomeNone {
				keys[key(r.IntentID, r.EnqueuedAt)] = true
			}
			for _, c := range r.Conflicts {
				keys[key(c.IntentID, c.EnqueuedAt)] = true
			}
			return keys
		}
		want, before := cur.Settled, settled(cur)
		for k := range settled(after) {
			if !before[k] {
				want++
			}
		}
		require.Equal(t, want, after.Settled, "%s", explainPair(cur, mine, after))
	})
}

// A correction was answered with "duplicate" and the record says accepted for its body, or
// for the one in doubt before. Then the API's own late answer to another attempt arrives.
func TestR1AnAnswerOfTheAPIBeatsAConclusion(t *testing.T) {
	cur := &Record{OrderNo: "A-1", IntentID: "i2", BodyHash: "b", Batch: "second", Position: storedAt(epoch.Add(time.Hour)), Verdict: Duplicate, Settled: 2}
	cur.SetOutcome(OutcomeAccepted)
	mine := &Record{OrderNo: "A-1", IntentID: "i1", BodyHash: "a", Batch: "first", Position: storedAt(epoch), Verdict: Accepted, WriteID: "late"}
	mine.SetOutcome(OutcomeAccepted)
	next := Merge(cur, mine)
	require.NotNil(t, next)
	require.Equal(t, []string{"i1", "a", "first"}, []string{next.IntentID, next.BodyHash, next.Batch})
	require.NotNil(t, next.ConflictOf("i2"))
	require.Equal(t, 2, next.Settled)
	require.Nil(t, Merge(next, mine))
	mine.Verdict = Duplicate
	require.Nil(t, Merge(cur, mine), "it concluded, too")
}

// A person said of a correction that it exists. The first intent was stored again, and is a
// conflict. Then the API's acceptance of its first copy arrives: the order has that body.
func TestR11AnAcceptanceOfTheAPITurnsAConflictOfThatIntent(t *testing.T) {
	cur := &Record{OrderNo: "A-1", IntentID: "replay", BodyHash: "b", Position: storedAt(epoch.Add(time.Hour)), By: "anna", Settled: 5,
		Conflicts: []Conflict{{IntentID: "i1", BodyHash: "a", Position: storedAt(epoch.Add(2 * time.Hour))}}}
	cur.SetOutcome(OutcomeAccepted)
	mine := &Record{OrderNo: "A-1", IntentID: "i1", BodyHash: "a", Position: storedAt(epoch), Verdict: Accepted, WriteID: "late"}
	mine.SetOutcome(OutcomeAccepted)
	next := Merge(cur, mine)
	require.NotNil(t, next)
	require.Equal(t, []string{"i1", "a", ""}, []string{next.IntentID, next.BodyHash, next.By})
	require.Equal(t, storedAt(epoch.Add(2*time.Hour)), next.Position, "the copy that is counted and may be delivered again")
	require.NotNil(t, next.ConflictOf("replay"))
	require.Nil(t, next.ConflictOf("i1"))
	require.Equal(t, 5, next.Settled, "both copies of i1 were counted")
	require.Nil(t, Merge(next, mine))

	mine.Verdict = Duplicate
	require.Nil(t, Merge(cur, mine), "a duplicate answer does not say which body exists")
	mine.Verdict, cur.By, cur.Verdict = Accepted, "", Duplicate
	require.Equal(t, "a", Merge(cur, mine).BodyHash, "that the other one exists was concluded")
	cur.Verdict = Accepted
	require.Nil(t, Merge(cur, mine), "the API said that the other one exists")
}

// What was stored before the last intent that the record names was counted.
func TestR11ALateAcceptanceBehindALaterConflictIsCounted(t *testing.T) {
	cur := &Record{OrderNo: "A-1", IntentID: "i1", BodyHash: "a", Position: storedAt(epoch), Settled: 3, Verdict: Accepted,
		Conflicts: []Conflict{{IntentID: "i3", BodyHash: "c", Position: storedAt(epoch.Add(2 * time.Hour))}}}
	cur.SetOutcome(OutcomeAccepted)
	for _, body := range []string{"a", "b"} {
		mine := &Record{OrderNo: "A-1", IntentID: "i2", BodyHash: body, Position: storedAt(epoch.Add(time.Hour)), Verdict: Accepted}
		mine.SetOutcome(OutcomeAccepted)
		require.Nil(t, Merge(cur, mine), body)
	}
}

// A record says by itself whether its submission had another outcome before.
func TestR1ACorrectionNamesTheOutcomeBefore(t *testing.T) {
	eachPair(t, func(t *testing.T, cur, mine, after *Record) {
		if after == cur || after.Outcome() == OutcomeNone {
			return
		}
		newer := mine.IntentID == "i2" && after.IntentID == "i2"
		if cur.Outcome() == OutcomeNone || newer || cur.Outcome() == after.Outcome() {
			require.Empty(t, after.Was, "%s", explainPair(cur, mine, after))
			return
		}
		require.Equal(t, cur.Word, after.Was, "%s", explainPair(cur, mine, after))
		again := Merge(after, &Record{OrderNo: "A-1", IntentID: "i9", BodyHash: "other", Position: storedAt(epoch.Add(9 * time.Hour)), Word: "rejected"})
		if again.Outcome() == OutcomeAccepted {
			require.Equal(t, cur.Word, again.Was, "a conflict that is added hides no correction")
		}
	})
}

// TestACorrectionRemembersTheRefusal: what became of earlier intents stays on record through
// the notes and the outcome of a later one.
func TestACorrectionRemembersTheRefusal(t *testing.T) {
	record := func(intent, word, reason string, at time.Duration) *Record {
		return &Record{OrderNo: "A-1", Word: word, Reason: reason, IntentID: intent, WriteID: intent + word, Position: Position{Seq: uint64(at), EnqueuedAt: epoch.Add(at), Birth: 1}, SettledAt: epoch.Add(at), History: History{Attempts: 1}}
	}
	refused := Merge(nil, record("i1", "rejected", "refused by status 422", 1))
	require.Empty(t, refused.Earlier)
	want := Earlier{IntentID: "i1", Outcome: "rejected", Reason: "refused by status 422", At: refused.SettledAt, Attempts: 1}
	noted := Merge(refused, record("i2", Retrying, "", 2))
	require.Equal(t, []Earlier{want}, noted.Earlier)
	expired := Merge(noted, record("i2", "expired", "deadline", 2))
	require.Equal(t, []Earlier{want}, expired.Earlier)
	accepted := Merge(expired, record("i3", "accepted", "accepted by status 200", 3))
	require.Equal(t, []string{"i2", "i1"}, []string{accepted.Earlier[0].IntentID, accepted.Earlier[1].IntentID})
	require.Equal(t, accepted.Earlier, Merge(accepted, record("i4", "rejected", "duplicate", 4)).Earlier, "the acceptance stays")

	many := refused
	for i := range 2 * maxEarlier {
		many = Merge(many, record(fmt.Sprint("j", i), "rejected", "again", time.Duration(10+i)))
	}
	require.Len(t, many.Earlier, maxEarlier)
	require.Equal(t, fmt.Sprint("j", 2*maxEarlier-2), many.Earlier[0].IntentID, "newest first")
}

// TestDoubtKeepsItsReason: later refusals and other doubt do not change why an order is in
// doubt first.
func TestDoubtKeepsItsReason(t *testing.T) {
	var h History
	h.Doubt("no answer within 30s")
	h.Doubt("left open by status 500")
	require.Equal(t, "no answer within 30s", h.DoubtReason)
	inDoubt := &Record{OrderNo: "A-1", Word: Retrying, IntentID: "i1", WriteID: "a", Delivered: 1, History: h}
	refused := &Record{OrderNo: "A-1", Word: "rejected", Reason: "refused by status 422", IntentID: "i1", WriteID: "b", Delivered: 2}
	out := Merge(inDoubt, refused)
	require.Equal(t, OutcomeUnknown, out.Outcome())
	require.Equal(t, []string{"no answer within 30s", "refused by status 422"}, []string{out.DoubtReason, out.Reason})

	h.Unsure = false
	h.Doubt("left open by status 500")
	require.Equal(t, "left open by status 500", h.DoubtReason, "the former doubt is over")
	var called History
	called.Recall(History{}, Recalled{Rule: 2, Reason: "out of funds"})
	require.Equal(t, "a refusal was called back: out of funds", called.DoubtReason)
}
