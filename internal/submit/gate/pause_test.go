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

// The log and the state say times in UTC, as fleet does, whatever the zone of the machine is.
func TestTimesAreInUTC(t *testing.T) {
	local := time.Local
	time.Local = time.FixedZone("Kathmandu", 5*3600+45*60)
	t.Cleanup(func() { time.Local = local })
	var log bytes.Buffer
	g := New(Config{Concurrency: 1}, zerolog.New(&log), Hooks{Changed: func(State) {}, Resumed: func() {}})
	until := time.Now().Add(time.Hour)
	g.Hold("somebody", until)
	require.Contains(t, log.String(), `"until":"`+until.UTC().Format(zerolog.TimeFieldFormat)+`"`)
	block := g.State().Blocks[0]
	require.Equal(t, time.UTC, block.Since.Location())
	require.Equal(t, time.UTC, block.Until.Location())
}

// TestInHand: below a rate limit the pool has in hand what passed it, and what it lets through in a second.
func TestInHand(t *testing.T) {
	g := New(Config{Concurrency: 10, RateLimit: 5, Patience: time.Minute}, zerolog.Nop(), Hooks{Changed: func(State) {}, Resumed: func() {}})
	require.Equal(t, 5, g.InHand())
	<-g.Passed() // the limit was set
	p, err := g.Enter(t.Context(), false, nil)
	require.NoError(t, err)
	<-g.Passed()
	require.Equal(t, 6, g.InHand())
	g.SetLimit(1.7)
	<-g.Passed()
	require.Equal(t, 3, g.InHand(), "two beside the one that passed")
	p.Release(Signal{})
	require.Equal(t, 2, g.InHand())
	g.SetLimit(0)
	require.Greater(t, g.InHand(), 1_000_000)
}
