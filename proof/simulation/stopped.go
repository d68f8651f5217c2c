package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// stopped returns how many cancellations of a schedule are stopped: one in twenty
// schedules has one. Like waits, it does not use the schedule's generator.
func stopped(s *Schedule) int {
	if rand.New(rand.NewPCG(s.Seed, 0x73746f70)).Float64() < 0.05 {
		return 1
	}
	return 0
}

// stoppedPerson is the number of the first person whose cancellation is stopped.
const stoppedPerson = 200

// stopCancellation lets a person cancel an order soon after it was submitted. Her command
// is stopped for longer than deliveries are paused, at any step. It is not killed: what is
// cancelled then, although a worker posted it and died, nobody learns.
func (w *world) stopCancellation(person int) {
	no := w.orders[w.e.rng.IntN(len(w.orders))]
	step, stopped, patient := 1+w.e.rng.IntN(16), w.e.between(59*time.Second, 66*time.Second), w.e.chance(0.5)
	w.process("anna-"+no, streamOf(ofPerson, person, 0, 0), w.e.between(0, 5*time.Second), func(h *host) {
		h.crashIn, h.freezeIn, h.freezeFor = 0, step, stopped
		cfg := w.protocol
		if cfg.Worker = h.name; patient {
			cfg.Patience = waitsOn{}
		}
		h.q = settle.New(cfg, givesUp{store{w, h}}, runtime{w.e, h})
		w.cancel(h, no)
	})
}

// givesUp does what queue's writer does for a caller whose time is over: the caller gets no
// answer, and the write is sent.
type givesUp struct{ store }

func (s givesUp) PutRecord(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
	seq, err := s.store.PutRecord(ctx, token, r, expect)
	if ctx.Err() != nil {
		return 0, errLink
	}
	return seq, err
}

// waitsOn makes a command patient. It waits for no outage.
type waitsOn struct{}

// Transient implements settle.Patience.
func (waitsOn) Transient(error) bool { return false }

// Wait implements settle.Patience.
func (p waitsOn) Wait() settle.Wait { return p }

// Backoff implements settle.Wait.
func (waitsOn) Backoff(context.Context, error) error { return nil }

// Done implements settle.Wait.
func (waitsOn) Done() {}
