package door

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCallersComeBackTogether: a slow request takes all callers that it answered before
// the next, and a caller that is alone waits for nobody.
func TestCallersComeBackTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &Door{ctx: t.Context()}
		type call struct{ done chan struct{} }
		var sizes []int
		g := newBatcher(d, 100, func(batch []call) {
			sizes = append(sizes, len(batch))
			time.Sleep(10 * time.Millisecond)
			for _, c := range batch {
				close(c.done)
			}
		})
		ask := func() {
			c := call{make(chan struct{})}
			g.add(c)
			<-c.done
		}
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				time.Sleep(time.Duration(i/4) * time.Millisecond) // two halves
				for range 5 {
					ask()
				}
			})
		}
		callers.Wait()
		require.NotContains(t, sizes[2:len(sizes)-1], 4, "%v", sizes)
		require.Contains(t, sizes, 8)

		time.Sleep(time.Second) // the others are not waited for any more
		began := time.Now()
		ask()
		ask()
		require.Equal(t, 20*time.Millisecond, time.Since(began))
	})
}
