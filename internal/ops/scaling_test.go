package ops

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScalingOrders(t *testing.T) {
	working := func() Snapshot {
		return Snapshot{Started: true, Connected: true, Gate: Gate{Open: true, Rate: 100}, Sizes: &Sizes{Pending: 70, Waiting: 42}}
	}
	require.EqualValues(t, 42, working().ScalingOrders(), "those that wait, not those in flight or delayed")
	for why, change := range map[string]func(*Snapshot){
		"starting":             func(s *Snapshot) { s.Started = false },
		"draining":             func(s *Snapshot) { s.Draining = true },
		"no broker":            func(s *Snapshot) { s.Connected = false },
		"held or breaker open": func(s *Snapshot) { s.Gate.Open = false },
		"rate limit binds":     func(s *Snapshot) { s.Gate.RateBinds = true },
		"nobody knows":         func(s *Snapshot) { s.Sizes = nil },
	} {
		s := working()
		change(&s)
		require.Zero(t, s.ScalingOrders(), why)
	}
}
