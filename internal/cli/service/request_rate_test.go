package service

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
)

func TestRequestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{}
		p := newRequestRate(h)
		require.Zero(t, p.perSecond(time.Now()))
		for range 40 { // 20 per second for two seconds
			p.Attempted(submit.AttemptEvent{})
			time.Sleep(50 * time.Millisecond)
		}
		require.InDelta(t, 20, p.perSecond(time.Now()), 0.01, "a young worker's average is not thinned")
		time.Sleep(8 * time.Second)
		require.InDelta(t, 4, p.perSecond(time.Now()), 0.01, "over ten seconds")
		time.Sleep(3 * time.Second)
		require.Zero(t, p.perSecond(time.Now()), "what is older does not count")
		for range 300 {
			p.Attempted(submit.AttemptEvent{})
			time.Sleep(100 * time.Millisecond)
		}
		require.InDelta(t, 10, p.perSecond(time.Now()), 0.01)
		p.GateChanged(gate.State{})
		require.Equal(t, heard{attempts: 340, gates: 1}, *h, "all is passed on")
	})
}

func TestRequestRateWithoutObserver(t *testing.T) {
	p := newRequestRate(nil)
	p.Attempted(submit.AttemptEvent{})
	p.GateChanged(gate.State{})
}
