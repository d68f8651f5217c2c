package service_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/cli/service"
	"orderpost/internal/testing/netcut"
)

// A reconnect leads a worker to a server that is too old, while an order is at the API. The
// worker posts nothing more and says why. Once a newer server answers, it goes on; no order
// is lost or doubled.
func TestAWorkerThatMeetsATooOldBrokerStopsAndLosesNothing(t *testing.T) {
	t.Parallel()
	var as *netcut.Impostor
	var release func()
	s := openWatched(t, func(s *shop) { release = s.hold(1) }, func(c *service.Config) {
		var err error
		as, err = netcut.NewImpostor(strings.TrimPrefix(c.Queue.URL, "nats://"), "2.15.2")
		require.NoError(t, err)
		t.Cleanup(as.Close)
		c.Queue.URL = as.URL()
		c.Submit.RequestTimeout, c.Queue.AttemptTimeout = time.Second, time.Second // what is given again waits so long after a reconnect
	})
	s.shows(`orderpost_in_flight_requests 1`, `orderpost_broker_info{verdict="ok",version="2.15.2"} 1`)
	as.Become("2.12.9")
	s.unready("nats-server 2.12.9 is older than")
	s.shows(`orderpost_broker_info{verdict="refused",version="2.12.9"} 1`)
	release()
	s.eventually(s.queue.Conn.Connected, "the producer does not come back")
	s.publish(1, 4)
	s.shows(`orderpost_pending_orders 5`) // at least one look at the queue after they came
	require.Zero(t, s.api.Created("SECRET-NO-1"), "an order was posted while the broker was refused")
	require.Contains(t, s.log.find("the broker at nats://", "level"), "error")
	as.Become("2.15.2")
	s.ready()
	s.shows(`orderpost_pending_orders 0`)
	for _, no := range []string{"SECRET-NO-0", "SECRET-NO-1", "SECRET-NO-2", "SECRET-NO-3", "SECRET-NO-4"} {
		require.Equal(t, 1, s.api.Created(no), no)
	}
	audit, err := audit.Audit(t.Context(), s.queue)
	require.NoError(t, err)
	require.True(t, audit.Balanced(), "%+v", audit)
}
