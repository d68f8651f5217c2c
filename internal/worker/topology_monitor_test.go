package worker_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/queue/queuetest"
	"orderpost/internal/worker"
)

// openWatched starts a worker that looks often whether its streams are there.
func openWatched(t *testing.T, before func(*shop), change ...func(*worker.Config)) *shop {
	t.Helper()
	return open(t, func(s *shop) {
		s.look = 20 * time.Millisecond
		if before != nil {
			before(s)
		}
	}, append([]func(*worker.Config){ackWaitOf(time.Second)}, change...)...)
}

// ackWaitOf sets how long a claim lasts. A lost consumer is missed for as long.
func ackWaitOf(d time.Duration) func(*worker.Config) {
	return func(c *worker.Config) { c.Queue.AckWait = d }
}

// unready waits until the worker is not ready for a reason with this text.
func (s *shop) unready(text string) {
	s.t.Helper()
	s.eventually(func() bool {
		r := s.readiness()
		return !r.Ready && !r.GateOpen && strings.Contains(strings.Join(r.Reasons, " "), text)
	}, "still ready, or for another reason than: "+text)
}

func (s *shop) ready() {
	s.t.Helper()
	s.eventually(func() bool { r := s.readiness(); return r.Ready && r.GateOpen }, "not ready again")
}

func (s *shop) repair() {
	s.t.Helper()
	q := queuetest.Open(s.t, s.broker, "anna", queuetest.AsCommand, func(c *queue.Config) { c.Missing = queue.LeaveMissing })
	made, err := q.Topology.MakeLost(s.t.Context())
	require.NoError(s.t, err)
	require.NoError(s.t, q.Extents.AcceptLosses(s.t.Context(), "anna", made))
}

// A consumer can be made anew. What it had delivered comes again, and is told
// from what nobody was ever given.
func TestALostConsumerIsMadeAnewByWorkers(t *testing.T) {
	t.Parallel()
	var release func()
	s := openWatched(t, func(s *shop) { release = s.hold(1) }, ackWaitOf(5*time.Second))
	s.shows(`orderpost_in_flight_requests 1`, `orderpost_stream_present{stream="consumer"} 1`)
	js := s.broker.JetStream(s.t)
	require.NoError(t, js.DeleteConsumer(t.Context(), "ORDERS", "workers"))
	s.unready("consumer workers of stream ORDERS is missing at the broker; the workers create it again")
	s.shows(`orderpost_stream_present{stream="consumer"} 0`)
	release()
	s.publish(1, 4)
	s.ready()
	s.shows(`orderpost_stream_present{stream="consumer"} 1`, `orderpost_pending_orders 0`)
	for _, no := range []string{"SECRET-NO-0", "SECRET-NO-1", "SECRET-NO-2", "SECRET-NO-3", "SECRET-NO-4"} {
		require.Equal(t, 1, s.api.Created(no), no)
	}
	audit, err := books.Audit(t.Context(), s.queue)
	require.NoError(t, err)
	require.True(t, audit.Balanced(), "%+v", audit)
	require.Equal(t, "consumer", s.log.find("consumer workers of stream ORDERS is missing", "part"))
	require.Equal(t, "consumer", s.log.find("consumer workers of stream ORDERS was created again", "part"))
}

// editConsumer changes the workers' consumer, as somebody may with nats consumer edit.
func (s *shop) editConsumer(change func(*jetstream.ConsumerConfig)) {
	s.t.Helper()
	js := s.broker.JetStream(s.t)
	consumer, err := js.Consumer(s.t.Context(), "ORDERS", "workers")
	require.NoError(s.t, err)
	changed := consumer.CachedInfo().Config
	change(&changed)
	_, err = js.UpdateConsumer(s.t.Context(), "ORDERS", changed)
	require.NoError(s.t, err)
}

// R7: AckWait is changed under a worker. It gives up what it holds by the former one.
func TestR7AWorkerNoticesAnotherAckWait(t *testing.T) {
	var release func()
	s := openWatched(t, func(s *shop) { release = s.hold(1) }, ackWaitOf(20*time.Second))
	s.shows(`orderpost_in_flight_requests 1`, `orderpost_lease_losses_total 0`)
	s.editConsumer(func(c *jetstream.ConsumerConfig) { c.AckWait = 10 * time.Second })
	s.shows(`orderpost_lease_losses_total 1`)
	s.eventually(func() bool { return s.log.find("consumer workers of stream ORDERS has another AckWait", "to") == "10s" }, "nobody is told")
	release()
}

// A consumer that somebody changed or paused hands out nothing, and nobody would know why.
func TestAWorkerNoticesAConsumerThatPassesOverIntents(t *testing.T) {
	s := openWatched(t, nil)
	s.ready()
	js := s.broker.JetStream(s.t)
	s.editConsumer(func(c *jetstream.ConsumerConfig) { c.FilterSubject = "orders.new.another" })
	s.unready("consumer workers of stream ORDERS: it has the filter orders.new.another, wanted none. Set that back; or stop the workers, delete the consumer, and start one, which creates it again")
	s.publish(0, 3)
	s.editConsumer(func(c *jetstream.ConsumerConfig) { c.FilterSubject = "" })
	s.ready()
	s.shows(`orderpost_pending_orders 0`)
	_, err := js.PauseConsumer(t.Context(), "ORDERS", "workers", time.Now().Add(time.Hour))
	require.NoError(t, err)
	s.eventually(func() bool {
		return strings.Contains(strings.Join(s.readiness().Reasons, " "), "somebody paused it until ")
	}, "nobody is told")
	_, err = js.ResumeConsumer(t.Context(), "ORDERS", "workers")
	require.NoError(t, err)
	s.ready()
}

// A consumer that gives up an intent after a delivery, or takes it away before its claim is over,
// is set back.
func TestAWorkerKeepsItsConsumer(t *testing.T) {
	s := openWatched(t, nil)
	s.ready()
	js := s.broker.JetStream(s.t)
	for _, change := range []func(*jetstream.ConsumerConfig){
		func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 1 },
		func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{c.AckWait, time.Millisecond} },
	} {
		s.editConsumer(change)
		s.eventually(func() bool {
			c, err := js.Consumer(t.Context(), "ORDERS", "workers")
			return err == nil && c.CachedInfo().Config.MaxDeliver == -1 && len(c.CachedInfo().Config.BackOff) == 0
		}, "it is left as somebody changed it")
	}
	s.eventually(func() bool { return s.log.find("somebody changed max_deliver or backoff", "level") == "warn" }, "nobody is told")
	s.publish(0, 3)
	s.shows(`orderpost_pending_orders 0`)
}

// A stream that somebody edited may drop what it must keep.
func TestAWorkerNoticesAStreamThatMayLoseOrders(t *testing.T) {
	s := openWatched(t, nil)
	s.ready()
	js := s.broker.JetStream(s.t)
	stream, err := js.Stream(t.Context(), "ORDERS")
	require.NoError(t, err)
	was := stream.CachedInfo().Config
	changed := was
	changed.Discard, changed.DiscardNewPerSubject, changed.MaxMsgs = jetstream.DiscardOld, false, 2
	_, err = js.UpdateStream(t.Context(), changed)
	require.NoError(t, err)
	s.unready("stream ORDERS: ")
	s.unready("Set that back: nats stream edit ORDERS")
	_, err = js.UpdateStream(t.Context(), was)
	require.NoError(t, err)
	s.ready()
}

// Orders go on without the journal, and a worker creates it again.
func TestALostJournalIsMadeAnewAndStopsNothing(t *testing.T) {
	s := openWatched(t, nil)
	s.ready()
	js := s.broker.JetStream(s.t)
	require.NoError(t, js.DeleteStream(t.Context(), "ORDERS_JOURNAL"))
	s.publish(0, 3)
	s.eventually(func() bool {
		require.True(t, s.readiness().GateOpen)
		_, err := js.Stream(t.Context(), "ORDERS_JOURNAL")
		return err == nil
	}, "the journal was not made anew")
	s.shows(`orderpost_pending_orders 0`)
}

// What a stream held cannot be made anew: the worker stops, says so, and leaves
// it to a person.
func TestALostStreamIsLeftToAPerson(t *testing.T) {
	for part, lost := range map[string]string{"intents": "ORDERS", "results": "ORDERS_RESULTS", "dead_letters": "ORDERS_DEAD", "waiting": "ORDERS_WAITING"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			s := openWatched(t, nil)
			s.publish(0, 3)
			s.shows(`orderpost_orders_total{outcome="accepted"} 3`, `orderpost_stream_present{stream="`+part+`"} 1`)
			js := s.broker.JetStream(s.t)
			require.NoError(t, js.DeleteStream(t.Context(), lost))
			s.unready("stream " + lost + " is missing at the broker. Restore what is missing from a backup")
			s.shows(`orderpost_stream_present{stream="` + part + `"} 0`)
			require.Equal(t, part, s.log.find("stream "+lost+" is missing at the broker; nothing is posted", "part"))
			f, err := fleet.New(s.queue).Read(t.Context())
			require.NoError(t, err)
			s.eventually(func() bool {
				f, err = fleet.New(s.queue).Read(t.Context())
				return err == nil && len(f.Members) == 1 && strings.Contains(strings.Join(f.Members[0].Reasons, " "), "stream "+lost+" is missing")
			}, "the fleet is not told")
			_, err = js.Stream(t.Context(), lost)
			require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "no worker made it anew")

			s.repair()
			s.ready()
			s.shows(`orderpost_streams_replaced_total{stream="`+part+`"} 1`, `orderpost_stream_present{stream="`+part+`"} 1`)
			require.Equal(t, part, s.log.find("stream "+lost+" was created again while this worker ran", "part"))
			s.publish(3, 2)
			s.shows(`orderpost_orders_total{outcome="accepted"} 5`, `orderpost_pending_orders 0`)
		})
	}
}

// A broker that came back empty may be another one: nothing is made there.
func TestABrokerThatComesBackEmptyIsLeftToAPerson(t *testing.T) {
	t.Parallel()
	s := openWatched(t, nil)
	s.publish(0, 3)
	s.shows(`orderpost_orders_total{outcome="accepted"} 3`)
	s.broker.Stop()
	require.NoError(t, os.RemoveAll(filepath.Join(s.broker.Dir, "jetstream")))
	s.broker.Restart(t)
	s.unready("the broker has lost all streams (stream ORDERS, stream ORDERS_RESULTS, stream ORDERS_DEAD, stream ORDERS_WAITING, bucket ORDERPOST)")
	s.shows(`orderpost_broker_connected 1`, `orderpost_stream_present{stream="fleet"} 0`)
	list := s.broker.JetStream(s.t).StreamNames(t.Context())
	for name := range list.Name() {
		require.Fail(t, "a worker made the stream "+name)
	}
	require.NoError(t, list.Err())

	s.repair()
	s.ready()
	s.publish(3, 2)
	s.shows(`orderpost_orders_total{outcome="accepted"} 5`)
}

// A person's hold does not end because somebody deleted the bucket: the workers stop until a
// person repairs it. What they know is written again: the API and the high-water mark.
func TestALostBucketIsLeftToAPerson(t *testing.T) {
	s := openWatched(t, nil)
	s.publish(0, 2)
	s.shows(`orderpost_orders_total{outcome="accepted"} 2`)
	js := s.broker.JetStream(s.t)
	require.NoError(t, js.DeleteStream(t.Context(), "KV_ORDERPOST"))
	s.unready("bucket ORDERPOST is missing at the broker. Restore what is missing from a backup")
	_, err := js.Stream(t.Context(), "KV_ORDERPOST")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "no worker made it anew")
	s.repair()
	s.ready()
	s.eventually(func() bool {
		f, err := fleet.New(s.queue).Read(t.Context())
		return err == nil && f.Identity != nil && len(f.Members) == 1
	}, "the bucket does not say whose orders these are")
	var mark struct{ Seq uint64 }
	require.NoError(t, s.queue.Bucket().Walk(t.Context(), "seen.", func(e queue.Entry) error { return json.Unmarshal(e.Value, &mark) }))
	require.EqualValues(t, 2, mark.Seq)
	s.publish(2, 2)
	s.shows(`orderpost_orders_total{outcome="accepted"} 4`)
}

func (s *shop) reasons() (out []string) {
	for _, b := range s.readiness().Held {
		out = append(out, b.Reason)
	}
	return out
}

// A running worker whose orders were given to another API by a person does not
// post them to its own any more.
func TestAWorkerWhoseFleetMovedOnStops(t *testing.T) {
	s := openWatched(t, nil)
	s.publish(0, 1)
	s.shows(`orderpost_orders_total{outcome="accepted"} 1`)
	have, err := fleet.New(s.queue).Claimed(t.Context())
	require.NoError(t, err)
	other := fleet.Identity{URL: "https://api.example.com"}
	require.NoError(t, fleet.New(s.queue).TakeOver(t.Context(), have, fleet.Takeover{By: "anna", At: time.Now(), From: have.Identity, To: other}))
	s.eventually(func() bool {
		return strings.Contains(strings.Join(s.reasons(), " "), "the fleet posts to https://api.example.com since")
	}, "it goes on")
	require.Equal(t, "anna", s.log.find("the fleet posts to https://api.example.com since", "by"))
	s.publish(1, 1)
	have, err = fleet.New(s.queue).Claimed(t.Context())
	require.NoError(t, err)
	require.NoError(t, fleet.New(s.queue).TakeOver(t.Context(), have, fleet.Takeover{By: "anna", At: time.Now(), From: have.Identity, To: *have.From}))
	s.shows(`orderpost_orders_total{outcome="accepted"} 2`)
}
