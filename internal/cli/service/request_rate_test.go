package service

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRequestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &requestRate{began: time.Now()}
		perSecond := func() float64 {
			n, _ := p.average(time.Now())
			return n
		}
		require.Zero(t, perSecond())
		for range 40 { // 20 per second for two seconds
			p.count(time.Now(), 0)
			time.Sleep(50 * time.Millisecond)
		}
		require.InDelta(t, 20, perSecond(), 0.01, "a young worker's average is not thinned")
		time.Sleep(8 * time.Second)
		require.InDelta(t, 4, perSecond(), 0.01, "over ten seconds")
		time.Sleep(3 * time.Second)
		require.Zero(t, perSecond(), "what is older does not count")
		for range 300 {
			p.count(time.Now(), 0)
			time.Sleep(100 * time.Millisecond)
		}
		require.InDelta(t, 10, perSecond(), 0.01)
	})
}
