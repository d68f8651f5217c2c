package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// modelWorker is a worker as R12 sees it.
type modelWorker struct {
	me      membership
	others  []string
	divisor int       // what it keeps to now
	said    time.Time // of the last sign of life
	alive   bool
}

// sends: it has joined, and the others cannot take it for gone yet.
func (w *modelWorker) sends(now time.Time) bool {
	return w.alive && w.me.joined && now.Sub(w.said) < PresenceTerm-fenceMargin
}

// TestR12TheSumNeverExceedsTheLimit lets workers start, read, speak, freeze and
// die in every order, and adds up their shares after each step.
func TestR12TheSumNeverExceedsTheLimit(t *testing.T) {
	var joined, died, most int
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		now := time.Unix(1_000_000, 0)
		bucket := make(map[string]Presence)
		var workers []*modelWorker
		for step := range 400 {
			now = now.Add(time.Duration(rnd.IntN(300)) * time.Millisecond)
			if len(workers) < 8 && rnd.IntN(20) == 0 {
				workers = append(workers, &modelWorker{me: membership{id: fmt.Sprintf("w%d-%d", seed, step)}, alive: true, divisor: 1})
			}
			for _, w := range workers {
				switch {
				case !w.alive:
				case rnd.IntN(400) == 0:
					w.alive = false
					died++
				case rnd.IntN(3) > 0: // read, obey
					if !w.said.IsZero() && now.Sub(w.said) >= PresenceTerm-fenceMargin {
						w.me = membership{id: w.me.id + "+"} // fenced: a new place
						w.said = time.Time{}
					}
					view := make([]Presence, 0, len(bucket))
					for _, p := range bucket {
						view = append(view, p)
					}
					was := w.me.joined
					w.others, _ = w.me.observe(view)
					w.divisor = len(w.others) + 1
					if w.me.joined && !was {
						joined++
					}
				case rnd.IntN(3) > 0: // speak, of what it keeps to
					w.said = now
					bucket[w.me.id] = Presence{ID: w.me.id, Sees: slices.Clone(w.others), SeenAt: now}
				}
				sum, sending := 0.0, 0
				for _, w := range workers {
					if w.sends(now) {
						sum += 1 / float64(w.divisor)
						sending++
					}
				}
				most = max(most, sending)
				require.LessOrEqual(t, sum, 1.000001, "seed %d, step %d: %d send", seed, step, sending)
			}
		}
	}
	require.Greater(t, joined, 300)
	require.Greater(t, died, 100)
	require.Greater(t, most, 4)
}
