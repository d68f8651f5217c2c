package gate

import (
	"bytes"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// TestPause: it shuts the gate as a hold does, and says nothing above debug.
func TestPause(t *testing.T) {
	var log bytes.Buffer
	g := New(Config{Concurrency: 1}, zerolog.New(&log).Level(zerolog.InfoLevel), Hooks{Changed: func(State) {}, Resumed: func() {}})
	g.Pause("starting")
	g.Pause("starting")
	require.Equal(t, []string{"starting"}, g.State().Reasons)
	require.False(t, g.State().Open)
	g.Release("starting")
	require.True(t, g.State().Open)
	require.Empty(t, log.String())
	g.Hold("somebody", time.Time{})
	g.Release("somebody")
	require.Contains(t, log.String(), `"level":"warn"`)
	require.Contains(t, log.String(), "gate opened")
}
