package order

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recalledNote is the note of an order whose refusal by a rule was called back.
func recalledNote(n uint64) Record {
	r := Record{OrderNo: "A", IntentID: "i", Note: NoteHandedBack, Verdict: Rejected, Delivered: n, DeliveryID: "d"}
	r.SetOutcome(OutcomeNone)
	r.Note = NoteHandedBack
	r.Attempts = int(n)
	r.LastAttemptAt = time.Unix(int64(n), 0)
	r.Recall(History{}, Recalled{At: r.LastAttemptAt, Status: 200, Answer: `{"code":0}`, Said: "0", Rule: 2})
	return r
}

// TestR3WhatWasJudgedAgainIsNoDoubt: the outcome of whoever judged the kept answer stands,
// unless other doubt joined it.
func TestR3WhatWasJudgedAgainIsNoDoubt(t *testing.T) {
	note := recalledNote(1)
	require.True(t, note.Settleable())
	refused := note
	refused.SetOutcome(OutcomeRejected)
	refused.Unsure = false
	refused.Delivered = 2

	got := Merge(&note, &refused)
	require.Equal(t, OutcomeRejected, got.Outcome())
	require.False(t, got.Unsure)

	lost := note
	lost.Doubt("test") // another worker's attempt
	got = Merge(&lost, &refused)
	require.Equal(t, OutcomeUnknown, got.Outcome())
	require.True(t, got.Unsure)
	require.False(t, got.Settleable())
	require.Equal(t, `{"code":0}`, got.Recalled.Answer, "people see it")

	unjudged := refused
	unjudged.Recalled = Recalled{}
	require.Equal(t, OutcomeUnknown, Merge(&note, &unjudged).Outcome())
	require.True(t, Merge(&note, &unjudged).Settleable(), "a replay may judge it")
}

// A permission covers the doubt that a person saw, and none by a later refusal.
func TestARefusalThatIsCalledBackEndsAPermission(t *testing.T) {
	cur := Record{OrderNo: "A", IntentID: "i", AllowedFor: "i", Delivered: 1}
	cur.SetOutcome(OutcomeNone)
	cur.Note, cur.Unsure = NoteHandedBack, true
	next := recalledNote(2)
	next.History.Recall(History{Unsure: true}, next.Recalled)
	require.Empty(t, Merge(&cur, &next).AllowedFor)
	require.False(t, Merge(&cur, &next).Settleable(), "the doubt that she allowed stays")
}

func TestRecallKeepsTheFirstAnswerOfAKind(t *testing.T) {
	one := Recalled{At: time.Unix(1, 0), Status: 200, Said: "0", Rule: 2}
	two := one
	two.At = time.Unix(2, 0)
	var h History
	h.Recall(History{}, one)
	before := h
	h.Recall(before, two)
	require.Equal(t, time.Unix(1, 0), h.Recalled.At)
	require.True(t, h.Settleable())
	two.Said = "40012"
	before = h
	h.Recall(before, two)
	require.Equal(t, "0", h.Recalled.Said)
	require.True(t, h.Unsure)
	require.False(t, h.Settleable(), "to judge one of two kinds proves nothing about the other")

	h = History{}
	h.Recall(History{}, Recalled{At: time.Unix(1, 0), Status: 422})
	require.False(t, h.Unsure, "its status says that nothing was created")
	require.Equal(t, 422, h.Recalled.Status)
}
