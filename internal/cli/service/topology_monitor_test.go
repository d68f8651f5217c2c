package service_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/cli/service"
	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/testing/queuetest"
)

// openWatched starts a worker that looks often whether its streams are there.
func openWatched(t *testing.T, before func(*shop), change ...func(*service.Config)) *shop {
	t.Helper()
	return open(t, func(s *shop) {
		s.look = 20 * time.Millisecond
		if before != nil {
			before(s)
		}
	}, append([]func(*service.Config){ackWaitOf(time.Second)}, change...)...)
}

// ackWaitOf sets how long a claim lasts. A lost consumer is missed for as long.
func ackWaitOf(d time.Duration) func(*service.Config) {
	return func(c *service.Config) { c.Queue.AckWait = d }
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
	audit, err := audit.Audit(t.Context(), s.queue)
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
	s.unready("consumer workers of stream ORDERS: it has the filter orders.new.another, wanted none. Delete it (nats consumer rm ORDERS workers): the workers create it again")
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

// TestAWorkerKeepsItsConsumer: a consumer that gives up an intent, takes it away before its claim is over, or
// refuses what workers ask for, is set back.
func TestAWorkerKeepsItsConsumer(t *testing.T) {
	s := openWatched(t, nil)
	s.ready()
	js := s.broker.JetStream(s.t)
	config := func() jetstream.ConsumerConfig {
		c, err := js.Consumer(t.Context(), "ORDERS", "workers")
		require.NoError(t, err)
		return c.CachedInfo().Config
	}
	group := func(policy jetstream.PriorityPolicy) func(*jetstream.ConsumerConfig) {
		return func(c *jetstream.ConsumerConfig) { c.PriorityGroups, c.PriorityPolicy = []string{"a"}, policy }
	}
	was, published := config(), 0
	for what, change := range map[string]func(*jetstream.ConsumerConfig){
		"max_deliver is 1, wanted -1": func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 1 },
		"backoff is [":                func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{c.AckWait, time.Millisecond} },
		"headers_only is true":        func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true },
		"max_ack_pending is 1, ":      func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1 },
		"max_ack_pending is 1000, ":   func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 0 },
		"max_batch is 1, wanted 0":    func(c *jetstream.ConsumerConfig) { c.MaxRequestBatch = 1 },
		"max_expires is 1ms":          func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires = time.Millisecond },
		"max_bytes is 10, wanted 0":   func(c *jetstream.ConsumerConfig) { c.MaxRequestMaxBytes = 10 },
		"inactive_threshold is 1h0m0s": func(c *jetstream.ConsumerConfig) {
			c.InactiveThreshold = time.Hour
		},
		"priority_groups is [a], wanted []": group(jetstream.PriorityPolicyOverflow),
	} {
		s.editConsumer(change)
		s.eventually(func() bool {
			return strings.Contains(s.log.String(), "somebody changed consumer workers of stream ORDERS: "+what)
		}, "nobody is told: "+what)
		require.Equal(t, was, config(), what)
		s.publish(published, 3)
		published += 3
		s.shows(`orderpost_pending_orders 0`)
	}
	for _, policy := range []jetstream.PriorityPolicy{jetstream.PriorityPolicyPinned, jetstream.PriorityPolicyPrioritized} {
		s.editConsumer(group(policy))
		s.eventually(func() bool { return len(config().PriorityGroups) == 0 }, "priority groups stay")
		require.Equal(t, was, config())
	}
	s.publish(published, 3)
	s.shows(`orderpost_pending_orders 0`)
	s.ready()
}

// What the broker cannot change on a consumer is named, and the advice works.
func TestAWorkerNamesAConsumerThatCannotBeSetBack(t *testing.T) {
	t.Parallel()
	s, published := openWatched(t, nil), 0
	s.ready()
	js := s.broker.JetStream(t)
	for what, change := range map[string]func(*jetstream.ConsumerConfig){
		"its replay policy is original, wanted instant": func(c *jetstream.ConsumerConfig) { c.ReplayPolicy = jetstream.ReplayOriginalPolicy },
		"it is in memory, wanted on file":               func(c *jetstream.ConsumerConfig) { c.MemoryStorage = true },
		"its max_waiting is 1, wanted at least 512":     func(c *jetstream.ConsumerConfig) { c.MaxWaiting = 1 },
		"its deliver policy is new, wanted all":         func(c *jetstream.ConsumerConfig) { c.DeliverPolicy = jetstream.DeliverNewPolicy },
		"its ack policy is AckAll":                      func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy },
		"it is a push consumer, wanted a pull consumer": func(c *jetstream.ConsumerConfig) {
			c.DeliverSubject, c.MaxWaiting = "elsewhere", 0
		},
	} {
		consumer, err := js.Consumer(t.Context(), "ORDERS", "workers")
		require.NoError(t, err)
		odd := consumer.CachedInfo().Config
		change(&odd)
		s.eventually(func() bool { // unless the worker is quicker
			require.NoError(t, js.DeleteConsumer(t.Context(), "ORDERS", "workers"))
			if odd.DeliverSubject != "" {
				_, err = js.CreatePushConsumer(t.Context(), "ORDERS", odd)
			} else {
				_, err = js.CreateConsumer(t.Context(), "ORDERS", odd)
			}
			return err == nil
		}, "the consumer is not replaced")
		s.unready(what)
		s.unready("Delete it (nats consumer rm ORDERS workers): the workers create it again")
		require.NoError(t, js.DeleteConsumer(t.Context(), "ORDERS", "workers"))
		s.ready()
		s.publish(published, 3)
		published += 3
		s.shows(`orderpost_pending_orders 0`)
	}
}

// editStream changes a stream, as somebody may with nats stream edit.
func editStream(t *testing.T, js jetstream.JetStream, name string, change func(*jetstream.StreamConfig)) (was jetstream.StreamConfig) {
	t.Helper()
	stream, err := js.Stream(t.Context(), name)
	require.NoError(t, err)
	was = stream.CachedInfo().Config
	changed := was
	change(&changed)
	_, err = js.UpdateStream(t.Context(), changed)
	require.NoError(t, err)
	return was
}

// TestAWorkerKeepsItsStreams: limits and permissions that would stop outcomes, or lose keys, are set back.
func TestAWorkerKeepsItsStreams(t *testing.T) {
	s := openWatched(t, nil)
	s.ready()
	js := s.broker.JetStream(t)
	for i, c := range []struct {
		stream, what string
		change       func(*jetstream.StreamConfig)
	}{
		{"ORDERS_RESULTS", "max_bytes is 100, wanted -1", func(c *jetstream.StreamConfig) { c.MaxBytes = 100 }},
		{"ORDERS_RESULTS", "max_msgs is 1, wanted -1", func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 }},
		{"ORDERS_DEAD", "max_msgs is 1, wanted -1", func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 }},
		{"ORDERS_WAITING", "max_bytes is 100, wanted -1", func(c *jetstream.StreamConfig) { c.MaxBytes = 100 }},
		{"KV_ORDERPOST", "max_bytes is 100, wanted -1", func(c *jetstream.StreamConfig) { c.MaxBytes = 100 }},
		{"KV_ORDERPOST", "max_msg_size is 100, wanted 1048576", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 100 }},
		{"KV_ORDERPOST", "allow_rollup_hdrs is true, wanted false", func(c *jetstream.StreamConfig) { c.AllowRollup = true }},
		{"KV_ORDERPOST", "subject_delete_marker_ttl is 1h0m0s, wanted 0s", func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = time.Hour }},
		{"ORDERS", "duplicate_window is 100ms, wanted 2m0s", func(c *jetstream.StreamConfig) { c.Duplicates = 100 * time.Millisecond }},
		{"ORDERS", "consumer_limits is {1h0m0s 0}", func(c *jetstream.StreamConfig) { c.ConsumerLimits.InactiveThreshold = time.Hour }},
	} {
		was := editStream(t, js, c.stream, c.change)
		now := was
		s.eventually(func() bool {
			stream, err := js.Stream(t.Context(), c.stream)
			require.NoError(t, err)
			now = stream.CachedInfo().Config
			now.AllowMsgTTL, now.Metadata = was.AllowMsgTTL, was.Metadata // a marker's TTL sets them for good
			return assert.ObjectsAreEqual(was, now)
		}, c.stream+" stays as it was changed: "+c.what)
		s.eventually(func() bool { return strings.Contains(s.log.String(), c.what) }, "nobody is told: "+c.what)
		s.publish(3*i, 3)
		s.shows(`orderpost_pending_orders 0`)
	}
	s.ready()
}

// The intents have the limits that the worker which started last has set, or a person since.
func TestAWorkerLeavesTheLimitsOfTheIntents(t *testing.T) {
	s := openWatched(t, nil)
	s.ready()
	js := s.broker.JetStream(t)
	editStream(t, js, "ORDERS", func(c *jetstream.StreamConfig) { c.MaxMsgs = 1_000_000 })
	editStream(t, js, "ORDERS_DEAD", func(c *jetstream.StreamConfig) { c.MaxMsgs = 1_000_000 })
	s.eventually(func() bool { return strings.Contains(s.log.String(), "somebody changed stream ORDERS_DEAD") }, "nobody looked")
	require.NotContains(t, s.log.String(), "somebody changed stream ORDERS:")
}

// TestAllowMsgTTLStopsNothing: JetStream cannot unset it, and no message has a TTL.
func TestAllowMsgTTLStopsNothing(t *testing.T) {
	s := openWatched(t, nil)
	s.ready()
	js := s.broker.JetStream(t)
	for _, name := range []string{"ORDERS", "ORDERS_RESULTS", "ORDERS_DEAD", "ORDERS_WAITING", "ORDERS_JOURNAL", "KV_ORDERPOST"} {
		editStream(t, js, name, func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true })
	}
	editStream(t, js, "ORDERS_DEAD", func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	s.eventually(func() bool { return strings.Contains(s.log.String(), "somebody changed stream ORDERS_DEAD") }, "nobody looked")
	s.publish(0, 3)
	s.shows(`orderpost_pending_orders 0`)
	s.ready()
	again := queuetest.Open(t, s.broker, "b")
	require.NotNil(t, again, "a worker that starts accepts it, too")
}

// What JetStream cannot unset is named, with advice that works.
func TestAWorkerNamesAStreamThatCannotBeSetBack(t *testing.T) {
	for what, change := range map[string]func(*jetstream.StreamConfig){
		"deny_purge is true, wanted false":  func(c *jetstream.StreamConfig) { c.DenyPurge = true },
		"deny_delete is true, wanted false": func(c *jetstream.StreamConfig) { c.DenyDelete = true },
		"sealed is true, wanted false":      func(c *jetstream.StreamConfig) { c.Sealed = true },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := openWatched(t, nil)
			s.ready()
			editStream(t, s.broker.JetStream(t), "ORDERS_WAITING", change)
			s.unready(what)
			s.unready("The server cannot change that on an existing stream: back up ORDERS_WAITING, delete it, and restore it with another configuration; see OrderpostStreamsMissing in docs/runbook.md")
		})
	}
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
