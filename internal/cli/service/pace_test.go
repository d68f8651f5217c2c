package service

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/submit/gate"
)

// TestPaceIsTold: a worker tells how long the API takes for its answers, and what holds
// its rate.
func TestPaceIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &requestRate{began: time.Now()}
		told := func(s gate.State) fleet.Presence {
			d := fleet.Presence{Slots: 10}
			p.describe(&d, s, time.Now())
			return d
		}
		open := func(inFlight int) gate.State { return gate.State{Open: true, InFlight: inFlight} }
		require.Equal(t, fleet.Presence{Slots: 10}, told(open(0)), "nothing is known yet")

		for i := range 100 {
			p.count(time.Now(), time.Duration(i+1)*time.Millisecond)
		}
		d := told(open(2))
		require.InDelta(t, 50, d.P50MS, 1)
		require.InDelta(t, 99, d.P99MS, 1)
		require.Empty(t, d.Binds, "two of ten slots: nothing holds it")
		require.Equal(t, fleet.BindsSlots, told(open(9)).Binds)
		require.Equal(t, fleet.BindsLimit, told(gate.State{Open: true, InFlight: 10, RateBinds: true}).Binds)
		require.Equal(t, fleet.BindsAPI, told(gate.State{Open: true, InFlight: 1, Throttled: true}).Binds)

		time.Sleep(4 * time.Second)
		d = told(open(10))
		require.Equal(t, int64(4000), d.SilentMS, "an API that answers nothing is named before the first timeout")
		require.Equal(t, fleet.BindsAPI, d.Binds)
		require.Zero(t, told(gate.State{Open: true, InFlight: 1, RateBinds: true}).SilentMS, "it may wait for the limit")
		require.Zero(t, told(open(1)).SilentMS, "and only from then on it may have been sent")

		for range latestAnswers {
			p.count(time.Now(), 10*time.Second)
		}
		d = told(open(10))
		require.InDelta(t, 10_000, d.P50MS, 0)
		require.Equal(t, fleet.BindsAPI, d.Binds, "all slots wait for a slow API")
		d = told(gate.State{Blocks: []gate.BlockState{{Since: time.Now().Add(-time.Minute)}, {Since: time.Now()}}})
		require.Equal(t, time.Minute.Milliseconds(), d.ShutMS)
		require.Empty(t, d.Binds)

		text, err := json.Marshal(fleet.Presence{P50MS: inMillis(12345678), P99MS: inMillis(time.Hour), SilentMS: 3600000, Binds: fleet.BindsLimit, ShutMS: 86400000})
		require.NoError(t, err)
		require.Contains(t, string(text), `"p50_ms":12.3,`, "a presence stays small")

		time.Sleep(latestFor + time.Second)
		require.InDelta(t, 10_000, told(open(0)).P50MS, 0, "there is no later one")
		p.count(time.Now(), 20*time.Millisecond)
		require.InDelta(t, 20, told(open(0)).P99MS, 0, "what was before does not hide that the API is quick again")
		time.Sleep(longestFor + time.Second)
		require.Zero(t, told(open(0)).P50MS, "what is older does not count")
	})
}
