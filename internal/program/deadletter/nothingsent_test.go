package deadletter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
)

// Whoever replays while the fleet is held is told that the orders wait.
func TestReplayTellsThatNothingIsSent(t *testing.T) {
	o := open(t)
	o.settle(refused, "A-1", "A-2")
	require.NoError(t, fleet.New(o.q).SetHold(t.Context(), fleet.Hold{By: "otto", Reason: "month end closing", Since: time.Now()}))
	code, out, errOut := o.run("replay", "--order-no", "A-1", "--dry-run")
	require.Zero(t, code, errOut)
	require.NotContains(t, out, "othing is sent", "nothing waits")
	code, out, errOut = o.run("replay", "--order-no", "A-1")
	require.Zero(t, code, errOut)
	require.Regexp(t, `(?m)^Nothing is sent since .* UTC: held by otto: month end closing\. The orders wait\.$`, out)
	code, out, errOut = o.run("replay", "--all", "--json")
	require.Zero(t, code, errOut)
	require.Regexp(t, `"nothing_sent":"nothing is sent since [^"]*: held by otto: month end closing"`, out)
}
