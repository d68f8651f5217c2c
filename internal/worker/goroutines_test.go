package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// A burst's goroutines do not stay, and those that are needed do.
func TestGoroutinesExitAfterABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newGoroutines(func(*settle.Delivery, time.Time) { time.Sleep(100 * time.Millisecond) })
		go h.look()
		defer h.end()
		for range 50 {
			h.dispatch(nil, time.Time{})
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 50, h.idle.Load())
		for range 300 { // three at a time from here on
			for range 3 {
				h.dispatch(nil, time.Time{})
			}
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
		}
		require.LessOrEqual(t, h.idle.Load(), int64(4))
		require.Positive(t, h.idle.Load())
	})
}
