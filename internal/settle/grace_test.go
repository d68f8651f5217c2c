package settle_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// patientTime is the real time, but a sleep lasts until the test ends it.
type patientTime struct {
	settle.Runtime
	asleep chan time.Duration
	wake   chan struct{}
}

func (r patientTime) Sleep(ctx context.Context, d time.Duration) error {
	r.asleep <- d
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.wake:
		return nil
	}
}

// R7: after a reconnect, the request of an order's former owner may still be on its way.
// Only an order that nobody was given before is posted at once.
func TestR7ARedeliveredOrderWaitsAfterAReconnect(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"))
	ds := pull(t, q, 3)
	first, redelivered, lost := ds[0], again(t, ds[1], q), ds[2]
	lost.CountLost = true // the broker was killed, and a mark says that somebody had it

	clock := patientTime{settle.RealTime(), make(chan time.Duration), make(chan struct{})}
	p := settle.New(settle.Config{Worker: "a", AttemptTimeout: time.Hour, Log: zerolog.Nop()}, q.Ledger.ExportStore(), clock)
	p.Worker.Reconnected()
	posted := make(chan string, 3)
	h := settle.NewHandler(p.Worker, settle.HandlerOptions{Submit: func(_ context.Context, s *order.Submission) *order.Report {
		posted <- s.Order.OrderNo()
		r := report(order.Accepted, s.History)
		return &r
	}})
	handle := func(d *settle.Delivery) (done chan struct{}) {
		done = make(chan struct{})
		go func() {
			defer close(done)
			h.Handle(t.Context(), t.Context(), d, nil)
		}()
		return done
	}
	for _, d := range []*settle.Delivery{first, redelivered, lost} {
		done, waited := handle(d), false
		select {
		case until := <-clock.asleep:
			waited = true
			require.InDelta(t, time.Hour, until, float64(time.Minute))
			require.Empty(t, posted, "posted before the grace was over")
			clock.wake <- struct{}{}
			<-done
		case <-done:
		}
		require.Equal(t, d.OrderNo(), <-posted)
		require.Equal(t, d != first, waited, d.OrderNo())
	}
}
