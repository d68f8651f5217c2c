package fleet

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/patient"
)

// TestHoldOfProcesses: within a second after the command said so nobody sends,
// through a restart of the broker and of every worker; the held fleet takes no
// messages, and no order loses an attempt by it.
func TestHoldOfProcesses(t *testing.T) {
	t.Parallel()
	const orders = 1200
	r := newRig(t, map[string]string{"ORDERPOST_RATE_LIMIT": "120", "ORDERPOST_ACK_WAIT": "10s", "ORDERPOST_REQUEST_TIMEOUT": "5s"}) // nobody is asked twice because the machine is busy
	all := r.startMany(3)
	r.shares(3, 40)
	r.publish("A", orders)
	r.eventually(func() bool { return r.created() >= 60 }, "orders flow")
	require.Contains(t, r.command("hold", "--reason", "maintenance"), "The fleet is held")
	confirmed, stalled := time.Now(), patient.WatchStalls(t)
	r.eventually(func() bool {
		for _, p := range r.members() {
			if p.Open {
				return false
			}
		}
		return true
	}, "every worker says that it is held")
	var quiet time.Time // a worker that saw the gate open may only be about to send a pull, which lasts a second
	r.eventually(func() bool {
		if quiet.IsZero() || r.consumer().NumWaiting > 0 {
			quiet = time.Now()
		}
		return time.Since(quiet) > time.Second
	}, "the pulls of the moment before the hold end")
	r.eventually(func() bool { return r.inHand() == 0 }, "the held fleet gives back what it has")
	idle, delivered := time.Now(), r.consumer().Delivered.Consumer
	before := r.created()
	require.Less(t, before, orders, "the hold came too late to be seen")

	r.broker.Stop()
	r.broker.Restart(t)
	r.eventually(func() bool { return len(r.members()) == 3 }, "all are back")
	for i, c := range all {
		t.Logf("%s ended in %s", c.Name, c.End(patience).Round(time.Millisecond))
		all[i] = r.start(c.Name)
	}
	r.eventually(func() bool {
		list := r.members()
		for _, p := range list {
			if p.Open || len(p.Reasons) == 0 || p.Since.Before(confirmed) {
				return false
			}
		}
		return len(list) == 3
	}, "the new workers are held")
	r.eventually(func() bool { return time.Since(confirmed) > 3*time.Second }, "time for requests that must not come")
	require.Zero(t, r.inHand())
	require.Equal(t, delivered, r.consumer().Delivered.Consumer, "the held fleet took messages")
	steps := r.attempts()
	last := steps[len(steps)-1].At
	t.Logf("the last request arrived %s after the hold was confirmed", last.Sub(confirmed).Round(time.Millisecond))
	require.Less(t, last.Sub(confirmed), time.Second+stalled(), "a second, or as much longer as this machine stood still")
	require.True(t, last.Before(idle), "the held fleet sent something")

	r.command("resume")
	for no, rec := range r.settled(orders) {
		require.Equal(t, 1, rec.Attempts, no)
	}
}

// inHand is how many orders the workers say that they have.
func (r *rig) inHand() int {
	n := 0
	for _, p := range r.members() {
		n += p.InFlight
	}
	return n
}

// consumer is what the broker knows of the deliveries.
func (r *rig) consumer() *jetstream.ConsumerInfo {
	r.t.Helper()
	consumer, err := r.broker.JetStream(r.t).Consumer(r.t.Context(), "ORDERS", "workers")
	require.NoError(r.t, err)
	return consumer.CachedInfo()
}
