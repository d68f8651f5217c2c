package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFailuresAreCountedByCause(t *testing.T) {
	var f failures
	now := time.Unix(1e9, 0)
	f.add(now.Add(-time.Hour), Signal{Cause: "old", Body: "old"})
	for i := range 9 {
		f.add(now, Signal{Cause: []string{"a", "b", "c", "d", "e"}[i%5], Body: fmt.Sprint(i)})
	}
	f.add(now, Signal{Cause: "d"})
	require.Equal(t, "d (3 times), a (2 times), b (2 times), 2 other causes; the last answer begins: 8", f.summary(now.Add(-time.Minute)))
	for range 2 * maxFailures {
		f.add(now, Signal{Cause: "z"})
	}
	require.Equal(t, fmt.Sprintf("z (%d times)", maxFailures), f.summary(now))
}
