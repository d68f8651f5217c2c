package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClocksThatDisagreeAreNamed, the wrong one first.
func TestClocksThatDisagreeAreNamed(t *testing.T) {
	ms := func(d time.Duration) *int64 { n := d.Milliseconds(); return &n }
	for want, c := range map[string]struct {
		broker time.Duration // its clock minus the worker's
		api    *int64
	}{
		"": {clocksApart, ms(time.Hour)}, // which other notes name
		"this machine's clock is 1h0m0s behind the broker's: set the one that is wrong":                                {time.Hour, nil},
		"this machine's clock is 1h0m0s ahead of the broker's: set the one that is wrong":                              {-time.Hour, nil},
		"this machine's clock is 1h0m0s ahead of the broker's and the API's: set it":                                   {-time.Hour, ms(-time.Hour + 30*time.Second)},
		"the broker's clock is 1h0m0s ahead of this machine's and the API's: set it":                                   {time.Hour, ms(-30 * time.Second)},
		"the broker's clock is 87600h0m0s behind this machine's and the API's: set it":                                 {-10 * 365 * 24 * time.Hour, ms(0)},
		"this machine's clock is 1h0m0s behind the broker's, and 24h0m0s ahead of the API's: set those that are wrong": {time.Hour, ms(-24 * time.Hour)},
	} {
		require.Equal(t, want, clockNote(c.broker, c.api))
	}
}

// TestAWorkerNamesTheBrokersClock once it has read its own sign of life, and until they agree.
func TestAWorkerNamesTheBrokersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(nil, "w-1")
		view := func(beat uint64, seen time.Time) []Presence {
			return []Presence{{ID: m.membership.id, Beat: beat, SeenAt: seen, revision: beat}}
		}
		m.membership.said(1, time.Now())
		m.noteClocks(view(1, time.Now().Add(time.Second)))
		require.Empty(t, m.ClockNote())
		time.Sleep(2 * time.Minute)
		m.membership.said(2, time.Now())
		m.noteClocks(view(1, time.Now().Add(-2*time.Minute)))
		require.Empty(t, m.ClockNote(), "a replica that lags")
		m.noteClocks(view(2, time.Now().Add(-time.Hour)))
		require.Contains(t, m.ClockNote(), "1h0m0s ahead of the broker's")
		m.membership.said(3, time.Now())
		m.noteClocks(view(3, time.Now()))
		require.Empty(t, m.ClockNote())
	})
}
