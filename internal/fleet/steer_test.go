package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestADecisionOnWhatWasBefore is refused: somebody else held, resumed or limited
// the fleet after the person had looked.
func TestADecisionOnWhatWasBefore(t *testing.T) {
	c := open(t, startBroker(t), "w-1")
	ctx := t.Context()
	look := func() *View {
		v, err := c.Read(ctx)
		require.NoError(t, err)
		return v
	}
	empty := look()
	require.NoError(t, c.HoldAsSeen(ctx, Hold{By: "anna", Since: time.Now().UTC()}, empty))
	held := look()
	require.NotEqual(t, empty.Mark(), held.Mark())
	require.ErrorIs(t, c.HoldAsSeen(ctx, Hold{By: "bo", Since: time.Now().UTC()}, empty), ErrSteered)
	require.Equal(t, "anna", look().Hold.By)

	require.NoError(t, c.HoldAsSeen(ctx, Hold{By: "bo", Since: time.Now().UTC()}, held))
	require.ErrorIs(t, c.ResumeAsSeen(ctx, "anna", held), ErrSteered, "bo's hold is not the one that anna saw")
	require.Equal(t, "bo", look().Hold.By)
	again := look()
	require.NoError(t, c.EndHoldAsSeen(ctx, again))
	require.Nil(t, look().Hold)
	require.Zero(t, look().Resumed, "nobody has looked at what the workers hold for")
	require.NoError(t, c.ResumeAsSeen(ctx, "anna", again))
	require.NotZero(t, look().Resumed)
	require.NoError(t, c.ResumeAsSeen(ctx, "anna", again), "a repeated resume whose confirmation was lost")
	require.NotEqual(t, empty.Mark(), look().Mark(), "the fleet was held and resumed in between")

	before := look()
	require.NoError(t, c.SetLimitAfter(ctx, &Limit{PerSecond: 5, By: "anna"}, before.LimitRevision()))
	require.ErrorIs(t, c.SetLimitAfter(ctx, &Limit{PerSecond: 9, By: "bo"}, before.LimitRevision()), ErrSteered)
	limited := look()
	require.NoError(t, c.SetLimitAfter(ctx, nil, limited.LimitRevision()))
	require.Nil(t, look().Limit)
	require.NoError(t, c.SetLimitAfter(ctx, nil, look().LimitRevision()), "there was none")
}

// TestALimitLowersForEveryWorkerThatIsListed: one that seems gone, since the broker's clock was set a moment
// ago, may send by its lower limit.
func TestALimitLowersForEveryWorkerThatIsListed(t *testing.T) {
	now := time.Now()
	v := &View{Now: now, Members: []Presence{{ID: "1", Limit: 50, SeenAt: now}, {ID: "2", Limit: 10, SeenAt: now.Add(-time.Hour)}}}
	require.True(t, v.Lowers(&Limit{PerSecond: 10}))
	require.False(t, v.Lowers(&Limit{PerSecond: 20}))
	require.False(t, v.Lowers(nil))
	require.False(t, (&View{Now: now, Members: v.Members[1:]}).Lowers(&Limit{PerSecond: 10}), "nobody is present")
}
