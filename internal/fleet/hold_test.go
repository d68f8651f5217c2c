package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/submit/gate"
)

// newMember is a worker's part in the fleet, with a gate at which nothing waits.
func newMember(c *Control, name string) *Member {
	g := gate.New(gate.Config{Concurrency: 1}, zerolog.Nop(), gate.Hooks{Changed: func(gate.State) {}, Resumed: func() {}})
	return NewMember(Options{Control: c, Gate: g, Name: name, Describe: func() Presence { return Presence{Open: g.Open(), Reasons: g.State().Reasons} }})
}

// run lets a member take part until the test ends.
func (n *node) run(t *testing.T) *Member {
	t.Helper()
	m := newMember(n.Control, n.name)
	n.runs(t, m)
	return m
}

func (n *node) runs(t *testing.T, m *Member) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-over })
}

// TestAHoldLastsItsTime by the monotonic time of a worker, from when it first read the hold: what the
// clocks of its person and of the worker say counts for nothing. Another hold begins anew.
func TestAHoldLastsItsTime(t *testing.T) {
	for name, since := range map[string]time.Duration{
		"all clocks agree": 0, "the worker's clock is an hour ahead": -time.Hour, "the person's is ten years ahead": 10 * 365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMember(nil, "w-1")
				view := &View{Hold: &Hold{By: "anna", Since: time.Now().Add(since), For: 30 * time.Minute}, holdRevision: 7}
				lasts := func() bool {
					m.obey(view)
					require.Contains(t, m.Gate.State().Reasons, "held by anna for 30m")
					return !m.holdIsOver(view)
				}
				require.True(t, lasts())
				time.Sleep(30*time.Minute - 1)
				require.True(t, lasts())
				view.holdRevision++
				require.True(t, lasts())
				time.Sleep(30*time.Minute - 1)
				require.True(t, lasts())
				time.Sleep(time.Nanosecond)
				require.False(t, lasts(), "it is over, and the gate stays closed until the entry is gone")
				view.Hold.For = 0
				time.Sleep(1000 * time.Hour)
				require.False(t, m.holdIsOver(view), "only a person ends it")
			})
		})
	}
}

// TestTheFirstWorkerThatCountedAHoldEndsItForAll: while its entry is there, people and workers take the fleet
// for held; then nobody does.
func TestTheFirstWorkerThatCountedAHoldEndsItForAll(t *testing.T) {
	s := startBroker(t)
	a, b := open(t, s, "a"), open(t, s, "b")
	first := a.run(t)
	eventually := func(what string, met func() bool) {
		t.Helper()
		require.Eventually(t, met, time.Minute, 5*time.Millisecond, what)
	}
	eventually("it sends", first.Gate.Open)
	hold := Hold{By: "anna", Since: time.Now().Add(-time.Hour), For: time.Hour}
	require.NoError(t, a.SetHold(t.Context(), hold)) // the person's clock is an hour behind: by it the hold is over
	eventually("it is held", func() bool { return !first.Gate.Open() })
	second := b.run(t)
	eventually("one that starts later is held, too", func() bool {
		return len(second.Gate.State().Reasons) == 1 && second.Gate.State().Reasons[0] == "held by anna for 1h"
	})
	hold.Since, hold.For = time.Now().Add(time.Hour), time.Second
	require.NoError(t, a.SetHold(t.Context(), hold))
	eventually("both go on", func() bool { return first.Gate.Open() && second.Gate.Open() })
	view, err := b.Look(t.Context())
	require.NoError(t, err)
	require.Nil(t, view.Hold)
	eventually("people are told that they send", func() bool { return a.NothingSent(t.Context()) == "" })
}
