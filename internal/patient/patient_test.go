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
	NoLeaks(t, others)
	require.False(t, time.Now().Before(end))
}

func TestStallsAreSeen(t *testing.T) {
	t.Parallel()
	longest := WatchStalls(t)
	require.Less(t, longest(), time.Hour)
}
