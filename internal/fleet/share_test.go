package fleet

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// modelWorker is a worker as R12 sees it.
type modelWorker struct {
	me      membership
	clock   time.Duration // its clock is that far from true time
	others  []Presence
	divisor int       // what it keeps to now
	said    time.Time // when it sent the last sign of life that was confirmed
	beat    uint64
	frozen  time.Time // until then
	alive   bool
	replica bool // it reads from the replica
}

// sends: it has joined, and the others cannot take it for gone yet.
func (w *modelWorker) sends(now time.Time) bool {
	return w.alive && w.me.joined && now.Sub(w.said) < PresenceTerm-fenceMargin
}

// rejoin begins a new stay.
func (w *modelWorker) rejoin() {
	id := w.me.id + "+"
	w.me, w.said = newMembership(w.me.seen), time.Time{}
	w.me.id = id
}

// modelBucket is the bucket, and a replica that lags.
type modelBucket struct {
	now         time.Time // true time
	clock       time.Duration
	revision    uint64
	entries     map[string]Presence
	replicaHas  map[string]Presence
	replicaLags bool
}

func (b *modelBucket) write(p Presence) {
	b.revision++
	p.revision, p.SeenAt = b.revision, b.now.Add(b.clock)
	b.entries[p.ID] = p
}

// view is what the leader or the replica shows.
func (b *modelBucket) view(replica bool) []Presence {
	if replica && b.replicaLags {
		return slices.Collect(maps.Values(b.replicaHas))
	}
	return slices.Collect(maps.Values(b.entries))
}

// TestR12TheSumNeverExceedsTheLimit lets workers start, read, speak, freeze, leave and
// die in every order, and adds up their shares after each step. The clocks of the broker
// step by seconds to years, those of the workers differ, and a replica lags.
func TestR12TheSumNeverExceedsTheLimit(t *testing.T) {
	var joined, died, stepped, most int
	seeds := []uint64{757} // the first sign of life of a stay was not confirmed
	for seed := range uint64(150) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 7))
		b := &modelBucket{now: time.Unix(1_000_000, 0), entries: make(map[string]Presence)}
		var workers []*modelWorker
		for step := range 400 {
			b.now = b.now.Add(time.Duration(rnd.IntN(300)) * time.Millisecond)
			if seed%2 == 1 && rnd.IntN(20) == 0 {
				b.clock += []time.Duration{5 * time.Second, time.Minute, time.Hour, 24 * time.Hour, 10 * 365 * 24 * time.Hour}[rnd.IntN(5)] * time.Duration(1-2*rnd.IntN(2))
				stepped++
			}
			if rnd.IntN(50) == 0 {
				b.replicaLags, b.replicaHas = !b.replicaLags, maps.Clone(b.entries)
			}
			if len(workers) < 8 && rnd.IntN(20) == 0 {
				me := newMembership(make(map[string]sign))
				me.id = fmt.Sprintf("w%d-%d", seed, step)
				workers = append(workers, &modelWorker{me: me, clock: time.Duration(rnd.Int64N(int64(48*time.Hour))) - 24*time.Hour, alive: true, divisor: 1})
			}
			for _, w := range workers {
				now := b.now.Add(w.clock)
				if w.alive && !w.said.IsZero() && b.now.Sub(w.said) >= PresenceTerm-fenceMargin {
					w.rejoin() // fenced
				}
				switch {
				case !w.alive, b.now.Before(w.frozen):
				case rnd.IntN(80) == 0:
					w.frozen = b.now.Add(time.Duration(rnd.IntN(9000)) * time.Millisecond)
				case rnd.IntN(400) == 0:
					w.alive = false
					if died++; rnd.IntN(2) == 0 {
						delete(b.entries, w.me.id) // it leaves
					}
				case rnd.IntN(3) > 0: // read, obey
					if rnd.IntN(40) == 0 {
						w.replica = !w.replica
					}
					was := w.me.joined
					w.others, _ = w.me.observe(b.view(w.replica), now)
					w.divisor = len(w.others) + 1
					for id := range b.entries {
						if id != w.me.id && w.me.expired(id, eraseAfter) {
							delete(b.entries, id)
						}
					}
					if w.me.joined && !was {
						joined++
					}
				case rnd.IntN(3) > 0: // speak, of what it keeps to
					w.beat++
					p := Presence{ID: w.me.id, Beat: w.beat, Joined: w.me.joined, Sees: w.me.joining(w.others)}
					b.write(p)
					switch confirmed := rnd.IntN(5) > 0; {
					case confirmed:
						w.said = b.now
						w.me.said(w.beat, now)
					case w.said.IsZero(): // the first of this stay
						w.rejoin()
					}
				}
				sum, sending := 0.0, 0
				for _, w := range workers {
					if w.sends(b.now) {
						sum += 1 / float64(w.divisor)
						sending++
					}
				}
				most = max(most, sending)
				require.LessOrEqual(t, sum, 1.000001, "seed %d, step %d: %d send", seed, step, sending)
			}
		}
	}
	require.Greater(t, joined, 150)
	require.Greater(t, died, 100)
	require.Greater(t, stepped, 500)
	require.Greater(t, most, 4)
}
