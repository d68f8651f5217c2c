package order

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever replaces the record of an intent that came out of the waiting room, the
// order_no's record still knows that intent: its feeder may be cut off.
func TestR13ARecordRemembersMovedIntents(t *testing.T) {
	for _, cur := range recordKinds("i1", epoch, 2) {
		cur.Waited = true
		for _, mine := range append(recordKinds("i2", epoch.Add(time.Hour), 1), recordKinds("i0", epoch.Add(-time.Hour), 1)...) {
			after := Merge(&cur, &mine)
			if after == nil {
				after = &cur
			}
			require.True(t, after.Knows("i1", ""), "%s", explainPair(&cur, &mine, after))
		}
	}
	require.False(t, (*Record)(nil).Knows("i1", ""))
}

func TestARecordRemembersTheLastMovedIntents(t *testing.T) {
	cur := &Record{OrderNo: "A-1", IntentID: "i0", Waited: true}
	cur.SetOutcome(OutcomeRejected)
	for n := 1; n <= 15; n++ {
		next := *cur
		next.IntentID, next.Position, next.Moved = fmt.Sprint("i", n), storedAt(epoch.Add(time.Duration(n)*time.Second)), nil
		cur = Merge(cur, &next)
	}
	require.Len(t, cur.Moved, maxMoved)
	require.True(t, cur.Knows("i14", "") && cur.Knows("i5", ""))
	require.False(t, cur.Knows("i4", ""))
}

// R13: a record that is about another intent by now still tells which body an earlier one had.
func TestR13AMovedIDProvesNothingWithoutTheBody(t *testing.T) {
	const a, b = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	cur := &Record{OrderNo: "A-1", IntentID: "i1", BodyHash: a, Waited: true, Position: storedAt(epoch)}
	cur.SetOutcome(OutcomeRejected)
	next := Record{OrderNo: "A-1", IntentID: "i2", BodyHash: b, Position: storedAt(epoch.Add(time.Second))}
	next.SetOutcome(OutcomeRejected)
	cur = Merge(cur, &next)
	require.Equal(t, []string{"i1@aaaaaaaaaaaaaaaa"}, cur.Moved)
	for _, c := range []struct {
		id, body     string
		known, other bool
	}{
		{"i1", a, true, false}, {"i1", b, false, true}, {"i1", "", false, true},
		{"i2", b, true, false}, {"i2", a, false, true},
		{"i3", a, false, false}, {"i", a, false, false}, {"i1@aaaaaaaaaaaaaaaa", a, false, false}, {"", a, false, false},
	} {
		require.Equal(t, []bool{c.known, c.other}, []bool{cur.Knows(c.id, c.body), cur.OtherBody(c.id, c.body)}, "%+v", c)
	}
	cur.Moved = append(cur.Moved, BodyID("i1", b))
	require.True(t, cur.Knows("i1", a) && cur.Knows("i1", b), "both were moved")
	cur.Moved = []string{BodyID("i1@x", a)}
	require.False(t, cur.OtherBody("i1", b), "another ID")
}

// A replay ends a conflict, and the record does not list the refused intent any more.
func TestR13AConflictThatIsOverWasMovedAllTheSame(t *testing.T) {
	cur := &Record{OrderNo: "A-1", IntentID: "i1", BodyHash: "aa", Position: storedAt(epoch)}
	cur.SetOutcome(OutcomeRejected)
	cur.Conflicts = []Conflict{{IntentID: "i2", BodyHash: "bb", Waited: true}, {IntentID: "i3", BodyHash: "cc", Waited: true}}
	next := Record{OrderNo: "A-1", IntentID: "replay:4", BodyHash: "bb", Position: storedAt(epoch.Add(time.Second))}
	next.SetOutcome(OutcomeAccepted)
	sent := Merge(cur, &next)
	require.Equal(t, []string{BodyID("i2", "bb")}, sent.Moved)
	require.True(t, sent.Knows("i2", "bb"))
	require.True(t, sent.Knows("i3", "cc"))
}
