package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheSeedDecidesTheSchedule(t *testing.T) {
	all, err := chosen(nil, clusterBroker, false, doorsPart)
	require.NoError(t, err)
	one := plan(7, all, 10*time.Minute, time.Second)
	require.Equal(t, one, plan(7, all, 10*time.Minute, time.Second))
	require.NotEqual(t, one, plan(8, all, 10*time.Minute, time.Second))
}

func TestNoFaultIsLeftOut(t *testing.T) {
	for _, broker := range []string{embeddedBroker, externalBroker, clusterBroker} {
		all, err := chosen(nil, broker, false, doorsPart)
		require.NoError(t, err)
		came := make(map[string]int)
		for _, e := range plan(1, all, 5*time.Minute, time.Second) {
			came[e.Fault]++
		}
		for _, f := range all {
			require.GreaterOrEqual(t, came[f.name], f.weight, "%s on %s", f.name, broker)
		}
	}
}

// TestTheSameFaultDoesNotOverlap: heal ends what an earlier one began.
func TestTheSameFaultDoesNotOverlap(t *testing.T) {
	all, err := chosen(nil, externalBroker, false, doorsPart)
	require.NoError(t, err)
	const length = 10 * time.Minute
	until, several := make(map[string]time.Duration), false
	var last time.Duration
	for _, e := range plan(3, all, length, time.Second) {
		require.GreaterOrEqual(t, e.At, until[e.Fault], e.Fault)
		require.LessOrEqual(t, e.At+e.For, length)
		until[e.Fault] = e.At + e.For
		several = several || e.At < last
		last = max(last, e.At+e.For)
	}
	require.True(t, several, "several stand at once")
}

func TestChosenFaults(t *testing.T) {
	some, err := chosen([]string{"power-cut", "hold"}, embeddedBroker, false, doorsPart)
	require.NoError(t, err)
	require.Len(t, some, 2)
	_, err = chosen([]string{"power-cut"}, externalBroker, false, doorsPart)
	require.ErrorContains(t, err, "power-cut needs --broker embedded")
	_, err = chosen([]string{"plague"}, embeddedBroker, false, doorsPart)
	require.ErrorContains(t, err, "plague")
	_, err = chosen([]string{"kill-gateway"}, externalBroker, false)
	require.ErrorContains(t, err, "kill-gateway needs --doors")
	all, err := chosen(nil, externalBroker, false)
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(all, func(f fault) bool { return f.part == doorsPart }))
}
