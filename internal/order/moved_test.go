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
			require.True(t, after.Knows("i1"), "%s", explainPair(&cur, &mine, after))
		}
	}
	require.False(t, (*Record)(nil).Knows("i1"))
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
	require.True(t, cur.Knows("i14") && cur.Knows("i5"))
	require.False(t, cur.Knows("i4"))
}
