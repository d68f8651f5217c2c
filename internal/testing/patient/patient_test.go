package patient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// A goroutine that ends later than goleak waits is none that was left.
func TestAGoroutineMayEndLate(t *testing.T) {
	others := goleak.IgnoreCurrent()
	end := time.Now().Add(2 * time.Second)
	go func() {
		for time.Now().Before(end) {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	require.Error(t, goleak.Find(others))
	require.NoError(t, settled([]goleak.Option{others}))
	require.False(t, time.Now().Before(end))
}

// Late ticks of two seconds count together.
func TestStallsAreSeen(t *testing.T) {
	var s stalls
	now := time.Now()
	run := func(n int, every time.Duration) {
		for range n {
			now = now.Add(every)
			s.tick(now)
		}
	}
	run(1000, tick)
	require.Zero(t, s.worst, "nothing was late")
	run(1, 300*time.Millisecond)
	run(150, tick)
	run(1, 200*time.Millisecond)
	require.Equal(t, 500*time.Millisecond-4*tick, s.worst)
	run(1000, tick)
	run(1, 300*time.Millisecond)
	require.Equal(t, 500*time.Millisecond-4*tick, s.worst, "the first ones are long past")
}
