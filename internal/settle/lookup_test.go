package settle

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestR3AProcessCountsAnAbsenceByItself: from when it read of it first, and for each lookup anew.
func TestR3AProcessCountsAnAbsenceByItself(t *testing.T) {
	var a absences
	now, said := time.Now(), time.Now().Add(-time.Hour) // when it was said, by another clock, counts for nothing
	require.Zero(t, a.known("n", time.Time{}, now))
	require.Zero(t, a.known("n", said, now))
	require.Equal(t, time.Minute, a.known("n", said, now.Add(time.Minute)))
	require.Zero(t, a.known("m", said, now.Add(time.Minute)))
	require.Zero(t, a.known("n", said.Add(time.Second), now.Add(2*time.Minute)), "an attempt came between: another lookup began")
	for i := range mostWaits {
		a.known(fmt.Sprint(i), said, now)
	}
	require.LessOrEqual(t, len(a.first), mostWaits, "what is forgotten waits longer")
}
