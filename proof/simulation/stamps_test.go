package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/proof/oracle"
)

// In these schedules the clocks that stamp jump to and fro: orders go back to the present
// more than once, and two requests of an order share a timestamp only where the report of
// the earlier one was lost. One more timestamp that is used twice is noticed.
func TestStampingClocksThatJump(t *testing.T) {
	var cs coroutines
	defer cs.end()
	back, again, edited := 0, 0, 0
	for seed := uint64(1); seed <= 5000 && (seed <= 200 || again == 0); seed++ {
		var events []oracle.Event
		first := map[string]oracle.Event{} // the first post of each delivery's order
		repeat := -1
		r := play(&Schedule{Seed: seed}, None, nil, nil, func(e oracle.Event) {
			if e.Kind == oracle.Posted {
				switch order.Rewinds(e.Stamp) {
				case 0:
				case 1:
					back++
				default:
					again++
				}
				if before, there := first[e.OrderNo]; there && before.Claim == e.Claim {
					repeat = len(events)
					e.Stamp = before.Stamp
				}
				first[e.OrderNo] = e
			}
			events = append(events, e)
		}, &cs)
		require.Empty(t, r.Findings, "seed %d", seed)
		if repeat >= 0 {
			edited++
			found := oracle.Judge(events).Findings
			require.NotEmpty(t, found, "seed %d", seed)
			require.Equal(t, oracle.Stamped, found[0].Invariant, "seed %d", seed)
		}
	}
	require.Positive(t, back)
	require.Positive(t, again)
	require.Positive(t, edited)
}
