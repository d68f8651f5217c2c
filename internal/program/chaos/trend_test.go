package chaos

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pieceOf returns a piece of twenty minutes with a value every ten seconds.
func pieceOf(number int, values func(hours float64) float64) piece {
	p := piece{Number: number, Seconds: 1200, Orders: 1}
	for i := range 102 {
		hours := float64(180+10*i) / 3600
		p.add("worker-1 live heap MiB", hours, values(hours))
	}
	return p
}

// TestTrends: a sawtooth, a level that differs from piece to piece and a few wild
// values are flat over four hours; 8 MiB an hour below all that are not.
func TestTrends(t *testing.T) {
	for name, c := range map[string]struct {
		perHour float64
		word    string
	}{"flat": {0, flat}, "leaky": {8, grows}} {
		t.Run(name, func(t *testing.T) {
			draw := rand.New(rand.NewPCG(1, 1))
			var pieces []piece
			for n := range 12 {
				level := 50 + 6*draw.Float64()
				pieces = append(pieces, pieceOf(n+1, func(h float64) float64 {
					v := level + 6*draw.Float64() + c.perHour*h
					if draw.IntN(40) == 0 {
						v += 100
					}
					return v
				}))
			}
			v := judgePieces(pieces)
			j := v.Measures[0]
			require.Equal(t, c.word, j.Word, j)
			require.InDelta(t, c.perHour, j.Within.PerHour, 3)
			require.Less(t, j.Within.Low, j.Within.PerHour)
			require.Greater(t, j.Within.High, j.Within.PerHour)
			require.NotEqual(t, grows, j.Words, "each piece begins anew")
			require.Equal(t, c.word == grows, v.err(false) != nil)
			require.Equal(t, c.word == flat, v.err(true) != nil, "a leak that was planted")
		})
	}
}

// What stays behind from piece to piece grows between them.
func TestATrendBetweenPieces(t *testing.T) {
	var pieces []piece
	for n := range 12 {
		pieces = append(pieces, pieceOf(n+1, func(float64) float64 { return 50 + 10*float64(n) }))
	}
	j := judgePieces(pieces).Measures[0]
	require.Equal(t, flat, j.Word)
	require.Equal(t, grows, j.Words)
	require.InDelta(t, 30, j.Between.PerHour, 0.1, "10 MiB each 20 minutes")
}

// A minute cannot tell that something is flat, and says so. It tells a fast leak of
// goroutines.
func TestWhatAMinuteTells(t *testing.T) {
	p := piece{Number: 1, Seconds: 60, Orders: 1}
	for i := range 24 {
		hours := float64(30+i) / 3600
		p.add("worker-1 live heap MiB", hours, 40+float64(i)/8)
		p.add("worker-1 goroutines", hours, 40+float64(8*i))
		p.add("worker-2 goroutines", hours, 40+float64(i%3))
	}
	words := make(map[string]string)
	for _, j := range judgePieces([]piece{p}).Measures {
		words[j.Name] = j.Word
	}
	require.Equal(t, map[string]string{"worker-1 live heap MiB": undecided, "worker-1 goroutines": grows, "worker-2 goroutines": undecided}, words)
}

func TestPiecesAddUp(t *testing.T) {
	dir := t.TempDir()
	none, err := readPieces(dir)
	require.NoError(t, err)
	require.Empty(t, none)
	for n := 1; n <= 2; n++ {
		p := piece{Number: n, Started: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Seconds: 60, Orders: 5}
		p.add("all disk MiB", 0.25, 3.5)
		require.NoError(t, p.save(dir))
	}
	all, err := readPieces(dir)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, map[string][]point{"all disk MiB": {{0.25, 3.5}}}, all[1].Samples)
	require.Equal(t, 10, judgePieces(all).Orders)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pieces.jsonl"), []byte("{}\n{\n"), 0o600))
	_, err = readPieces(dir)
	require.ErrorContains(t, err, "piece 2")
}

func TestALostOrderFailsASoak(t *testing.T) {
	require.ErrorContains(t, judgePieces([]piece{{Orders: 3, Lost: 1}}).err(false), "lost 1")
	require.ErrorContains(t, judgePieces([]piece{{}}).err(false), "shows nothing")
}
