package settle_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// R7: after a reconnect, the request of an order's former owner may still be on its way. Only an
// order that nobody was given before is posted at once. The others go back until then: in the slots
// of a worker they would keep out what may be posted.
func TestR7ARedeliveredOrderIsGivenBackAfterAReconnect(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"), intent("A-4", "i4"), intent("A-5", "i5"))
	ds := pull(t, q, 5)
	first, redelivered, lost, suspect, invalid := ds[0], again(t, ds[1], q), ds[2], again(t, again(t, ds[3], q), q), again(t, ds[4], q)
	lost.CountLost = true // the broker was killed, and a mark says that somebody had it
	invalid.Invalid = errors.New("not JSON")

	clock := laterTime{settle.RealTime(), new(atomic.Int64)}
	p := settle.New(settle.Config{Worker: "a", AttemptTimeout: time.Hour, Log: zerolog.Nop()}, q.Store(), clock)
	needs := func(want settle.Work, ds ...*settle.Delivery) {
		t.Helper()
		require.NoError(t, p.Worker.Check(t.Context(), ds))
		for _, d := range ds {
			require.Equal(t, want, d.Work, d.OrderNo())
		}
	}
	needs(settle.WorkSubmit, first, redelivered, lost)
	needs(settle.WorkSuspect, suspect)
	p.Worker.Reconnected()
	needs(settle.WorkSubmit, first)
	needs(settle.WorkInvalid, invalid)
	needs(settle.WorkNotYet, redelivered, lost, suspect)
	clock.ahead.Store(int64(time.Hour))
	needs(settle.WorkSubmit, redelivered, lost)
	needs(settle.WorkSuspect, suspect)

	p.Worker.Reconnected()
	needs(settle.WorkNotYet, redelivered, lost, suspect)
	for _, d := range []*settle.Delivery{redelivered, lost, suspect} {
		require.InDelta(t, time.Hour, d.ExportWait(), float64(time.Minute))
		unexplained := d.History.Lost
		settle.NewHandler(p.Worker, settle.HandlerOptions{}).Handle(t.Context(), t.Context(), d, nil) // returns at once, and posts nothing
		require.Equal(t, unexplained, lookup(t, q, d.OrderNo()).Lost, "a note explains the delivery that went back")
	}
}
