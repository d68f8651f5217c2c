package chaos

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
)

// outcomes reads the results while they come. A soak keeps them only for a minute, so
// that the disk can be flat.
type outcomes struct {
	reading jetstream.ConsumeContext

	mu      sync.Mutex
	settled map[string]order.Outcome
	took    []float64 // milliseconds from the queue to the outcome, since latencies was called
	last    uint64
}

func (r *rig) watchOutcomes(ctx context.Context) (*outcomes, error) {
	o := &outcomes{settled: make(map[string]order.Outcome)}
	c, err := r.js.OrderedConsumer(ctx, readStreams[0], jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy, MaxResetAttempts: -1})
	if err != nil {
		return nil, err
	}
	o.reading, err = c.Consume(o.note)
	return o, err
}

func (o *outcomes) note(m jetstream.Msg) {
	var rec order.Record
	meta, err := m.Metadata()
	if err != nil || json.Unmarshal(m.Data(), &rec) != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = meta.Sequence.Stream
	if out := rec.Outcome(); out != order.OutcomeNone {
		o.settled[rec.OrderNo] = out
		o.took = append(o.took, float64(rec.SettledAt.Sub(rec.EnqueuedAt).Microseconds())/1000)
	}
}

// latencies returns how long orders took that were settled since the last call.
func (o *outcomes) latencies() []float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	took := o.took
	o.took = nil
	return took
}

func (o *outcomes) stop() { o.reading.Stop() }

// compare counts the orders, and those that were lost or doubled.
func (o *outcomes) compare(ctx context.Context, r *rig, v *soakVerdict) error {
	if err := catchUp(ctx, r.js, readStreams[0], func() uint64 { o.mu.Lock(); defer o.mu.Unlock(); return o.last }); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for no := range r.intents.all() {
		out, created := o.settled[no], r.api.Created(no)
		if v.Orders++; out == order.OutcomeNone || (created > 0) != (out == order.OutcomeAccepted) {
			v.Lost++
		}
		if created > 1 {
			v.Doubled++
		}
	}
	return nil
}
