package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/testing/netcut"
)

func streamNames(t *testing.T, q *Queue) (names []string) {
	t.Helper()
	list := q.Conn.js.StreamNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	require.NoError(t, list.Err())
	return names
}

// A producer must not create streams on a broker that no worker has used. The
// orders would wait there for workers that never come.
func TestOnlyWorkersMakeStreams(t *testing.T) {
	s := startBroker(t)
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Missing, cfg.ConnectTimeout = s.URL, s.Token, RefuseMissing, 50*time.Millisecond
	_, err := Open(t.Context(), cfg, zerolog.Nop())
	var missing *MissingError
	require.ErrorAs(t, err, &missing)
	require.True(t, missing.Fresh)
	require.ErrorContains(t, err, "no stream ORDERS at "+s.URL)
	require.ErrorContains(t, err, "Start a worker first")
	require.ErrorContains(t, err, "ORDERPOST_NATS_URL")

	cfg.Missing = LeaveMissing
	q, err := Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	require.Empty(t, streamNames(t, q))
	parts, err := q.Topology.Inspect(t.Context())
	require.NoError(t, err)
	var missed []Part
	for _, p := range parts {
		missed = append(missed, p.Part)
		require.True(t, p.Missing(), p.Name)
	}
	require.Equal(t, []Part{PartIntents, PartResults, PartLetters, PartWaiting, PartJournal, PartFleet, PartConsumer}, missed)

	openQueue(t, s, "worker")
	cfg.Missing = RefuseMissing
	producer, err := Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	publish(t, producer, intent("A-1", "i1"))
}

// A worker that starts a moment later creates the streams in time.
func TestAProducerWaitsForAWorkerThatStarts(t *testing.T) {
	s := startBroker(t)
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Missing = s.URL, s.Token, RefuseMissing
	connected, opened := make(chan struct{}), make(chan error, 1)
	go func() {
		q, err := Open(t.Context(), cfg, zerolog.Nop(), nats.ConnectHandler(func(*nats.Conn) { close(connected) }))
		if err == nil {
			q.Close()
		}
		opened <- err
	}()
	<-connected
	openQueue(t, s, "worker")
	require.NoError(t, <-opened)
}

// A starting worker does not replace a lost stream by an empty one. Only a
// person may accept that its content is lost.
func TestALostStreamIsAskedFor(t *testing.T) {
	for _, lost := range []string{"ORDERS", "ORDERS_RESULTS", "ORDERS_DEAD", "ORDERS_WAITING"} {
		t.Run(lost, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "a")
			publish(t, q, intent("A-1", "i1"))
			d := pull(t, q, 1)[0]
			settleAs(t, q, d, report(order.Rejected, d.History))
			require.NoError(t, q.Conn.js.DeleteStream(t.Context(), lost))
			_, err := reopen(t, q, func(*Config) {})
			var missing *MissingError
			require.ErrorAs(t, err, &missing)
			require.Equal(t, []string{"stream " + lost}, missing.Parts)
			require.ErrorContains(t, err, "stream "+lost+" is missing at ")
			require.ErrorContains(t, err, "worker repair")
			require.NotContains(t, streamNames(t, q), lost)

			person, err := reopen(t, q, func(c *Config) { c.Missing, c.Worker = LeaveMissing, false })
			require.NoError(t, err)
			made, err := person.Topology.MakeLost(t.Context())
			require.NoError(t, err)
			require.NoError(t, person.Extents.AcceptLosses(t.Context(), "anna", made))
			require.Equal(t, []string{"stream " + lost}, made)
			_, err = reopen(t, q, func(*Config) {})
			require.NoError(t, err)
		})
	}
}

// A worker that died between creating two streams on a new broker left nothing
// behind that could be lost.
func TestTheFirstStartIsFinished(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	require.NoError(t, q.Conn.js.DeleteStream(t.Context(), "ORDERS_RESULTS"))
	_, err := reopen(t, q, func(*Config) {})
	require.NoError(t, err)
	require.Contains(t, streamNames(t, q), "ORDERS_RESULTS")
}

// An intent that a lost consumer delivered counts as delivered before, because
// it may have been posted (R3).
func TestR3ALostConsumerForgetsWhatItDelivered(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"), intent("A-2", "i2"))
	_, err := b.Worker.BeginPull(t.Context()) // like the pull before
	require.NoError(t, err)
	first := pull(t, a, 1)[0]
	require.Equal(t, "A-1", first.OrderNo())
	require.False(t, first.CountLost)
	for lost := false; !lost; { // a flush that is under way may give the next one the state of the deleted one (nats-server 2.15, consumerFileStore.delete)
		require.NoError(t, a.Conn.js.DeleteConsumer(t.Context(), "ORDERS", "workers"))
		for _, q := range []*Queue{a, b} {
			q.Worker.ForgetDeliveries()
		}
		require.NoError(t, b.Topology.ReviveConsumer(t.Context()))
		info, err := b.Topology.workersConsumer(t.Context())
		require.NoError(t, err)
		lost = info.Delivered.Stream == 0
	}
	require.NoError(t, a.Topology.ReviveConsumer(t.Context()), "another worker was first")
	again := map[string]bool{}
	for _, d := range pull(t, b, 2) {
		again[d.OrderNo()] = d.CountLost
	}
	require.Equal(t, map[string]bool{"A-1": true, "A-2": false}, again)
}

// While other workers run, they create a lost consumer again. They know when
// the claims from the lost one have ended (R7).
func TestR7AWorkerThatStartsLeavesTheConsumerToTheOthers(t *testing.T) {
	t.Parallel()
	s := startBroker(t)
	a := openQueue(t, s, "a")
	require.NoError(t, a.bucket.Put(t.Context(), "presence.a", ""))
	require.NoError(t, a.Conn.js.DeleteConsumer(t.Context(), "ORDERS", "workers"))
	waits, opened := make(chan struct{}, 100), make(chan error, 1)
	log := zerolog.New(lineFunc(func() { waits <- struct{}{} })).Level(zerolog.WarnLevel)
	go func() {
		cfg := a.Conn.cfg
		cfg.Name = "b"
		q, err := Open(t.Context(), cfg, log)
		if err == nil {
			q.Close()
		}
		opened <- err
	}()
	<-waits
	_, err := a.Conn.js.Consumer(t.Context(), "ORDERS", "workers")
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	require.NoError(t, a.Topology.ReviveConsumer(t.Context()))
	require.NoError(t, <-opened)
}

// R7: a running worker that the broker lost for a while is not present. One that starts
// meanwhile, with a lower AckWait, waits until claims have ended, and finds it.
func TestR7AckWaitIsNotLoweredUnderAWorkerThatIsCutOff(t *testing.T) {
	t.Parallel()
	s := startBroker(t)
	a := openQueue(t, s, "a") // it has not announced itself again
	waits := make(chan struct{}, 1)
	lower := a.Conn.cfg
	lower.Name, lower.AckWait = "b", 5*time.Second
	start := func(ctx context.Context) error {
		_, err := Open(ctx, lower, zerolog.New(lineFunc(func() { waits <- struct{}{} })).Level(zerolog.WarnLevel))
		return err
	}
	ctx, stop := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() { opened <- start(ctx) }()
	<-waits
	stop()
	require.ErrorIs(t, <-opened, context.Canceled)

	go func() { opened <- start(t.Context()) }()
	<-waits
	require.NoError(t, a.bucket.Put(t.Context(), "presence.a", ""))
	require.ErrorContains(t, <-opened, "ORDERPOST_ACK_WAIT: is 5s here and 30s in the fleet, whose worker a relies on it")
	c, err := a.Topology.workersConsumer(t.Context())
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, c.Config.AckWait)
}

// A bucket with replicas that was just created has no leader yet. The first
// worker of a cluster asks again who is present before it creates the consumer.
func TestAWorkerWaitsForItsBucketsLeader(t *testing.T) {
	s := startBroker(t)
	a := openQueue(t, s, "a")
	require.NoError(t, a.Conn.js.DeleteConsumer(t.Context(), "ORDERS", "workers"))
	bucket, err := a.Conn.js.Stream(t.Context(), "KV_ORDERPOST")
	require.NoError(t, err)
	answersReads := func(yes bool) error {
		c := bucket.CachedInfo().Config
		c.AllowDirect = yes
		_, err := a.Conn.js.UpdateStream(t.Context(), c)
		return err
	}
	var asked atomic.Int32
	openCut(t, s, "b", &netcut.Dialer{Decide: func(subject string, _ []byte) netcut.Cut {
		if subject == "$JS.API.DIRECT.GET.KV_ORDERPOST" {
			if n := asked.Add(1); n <= 2 {
				_ = answersReads(n == 2) // without an answer, b would not open
			}
		}
		return netcut.Pass
	}})
	require.GreaterOrEqual(t, asked.Load(), int32(2))
	_, err = a.Conn.js.Consumer(t.Context(), "ORDERS", "workers")
	require.NoError(t, err)
}

// lineFunc is called for each line of a log.
type lineFunc func()

func (f lineFunc) Write(p []byte) (int, error) { f(); return len(p), nil }

// Orders go on without the journal. A worker that starts creates it again, other programs
// open without it, and an act says that it is missing.
func TestALostJournalIsMadeByAWorkerThatStarts(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	publish(t, q, intent("A-1", "i1"))
	require.NoError(t, q.Conn.js.DeleteStream(t.Context(), "ORDERS_JOURNAL"))
	person, err := reopen(t, q, func(c *Config) { c.Missing, c.Worker = RefuseMissing, false })
	require.NoError(t, err)
	require.ErrorIs(t, person.AppendJournal(t.Context(), "hold.all.-.x.intention", []byte("{}")), ErrNoJournal)
	require.NotContains(t, streamNames(t, q), "ORDERS_JOURNAL")

	_, err = reopen(t, q, func(*Config) {})
	require.NoError(t, err)
	require.NoError(t, person.AppendJournal(t.Context(), "hold.all.-.x.intention", []byte("{}")))
	require.NoError(t, person.AppendJournal(t.Context(), "hold.all.-.x.intention", []byte("{}")), "again is once")
	state, err := q.Journal().State(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, state.Messages)
}

// A journal whose leader is away answers nobody, and is not lost: an act waits for it.
func TestAJournalWithoutALeaderIsWaitedFor(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	person, err := reopen(t, q, func(c *Config) { c.Worker, c.BrokerWait = false, time.Minute })
	require.NoError(t, err)
	stream, err := q.Conn.js.Stream(t.Context(), "ORDERS_JOURNAL")
	require.NoError(t, err)
	cfg := stream.CachedInfo().Config
	answers := func(subjects ...string) {
		t.Helper()
		cfg.Subjects = subjects
		_, err := q.Conn.js.UpdateStream(t.Context(), cfg)
		require.NoError(t, err)
	}
	own := cfg.Subjects
	answers("elsewhere")
	done := make(chan error, 1)
	go func() { done <- person.AppendJournal(t.Context(), "hold.all.-.x.intention", []byte("{}")) }()
	select {
	case err := <-done:
		require.NoError(t, err, "it gave up")
		t.Fatal("stored nowhere")
	case <-time.After(2 * againPause):
	}
	answers(own...)
	require.NoError(t, <-done)
}

// TestTheJournalKeepsItsOperatorsLimits: how long entries are kept is not for a
// worker to change.
func TestTheJournalKeepsItsOperatorsLimits(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	stream, err := q.Conn.js.Stream(t.Context(), "ORDERS_JOURNAL")
	require.NoError(t, err)
	want := stream.CachedInfo().Config
	want.MaxAge, want.MaxBytes = 24*time.Hour, 1<<20
	_, err = q.Conn.js.UpdateStream(t.Context(), want)
	require.NoError(t, err)
	_, err = reopen(t, q, func(*Config) {})
	require.NoError(t, err)
	stream, err = q.Conn.js.Stream(t.Context(), "ORDERS_JOURNAL")
	require.NoError(t, err)
	require.Equal(t, want.MaxAge, stream.CachedInfo().Config.MaxAge)
	require.Equal(t, want.MaxBytes, stream.CachedInfo().Config.MaxBytes)
}

// Results that somebody compresses stay so (docs/decisions.md), also where a worker changes something else of their stream.
func TestWhatSomebodyCompressesStaysCompressed(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	stream, err := q.Conn.js.Stream(t.Context(), q.Conn.n.results)
	require.NoError(t, err)
	want := stream.CachedInfo().Config
	want.Compression, want.Description = jetstream.S2Compression, "mine"
	_, err = q.Conn.js.UpdateStream(t.Context(), want)
	require.NoError(t, err)
	_, err = reopen(t, q, func(*Config) {})
	require.NoError(t, err)
	stream, err = q.Conn.js.Stream(t.Context(), q.Conn.n.results)
	require.NoError(t, err)
	require.Equal(t, jetstream.S2Compression, stream.CachedInfo().Config.Compression)
	require.NotEqual(t, "mine", stream.CachedInfo().Config.Description)
}

// Another program may make the bucket, with other settings, between the look for it and its
// making.
func TestABucketThatAnotherProgramMadeIsTaken(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	_, err := q.Conn.js.UpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: q.Conn.n.bucket, History: 1, Storage: jetstream.FileStorage})
	require.NoError(t, err)
	require.NoError(t, q.Topology.makeStreams(t.Context(), q.Conn.cfg.streams()[5:]))
	stream, err := q.Conn.js.Stream(t.Context(), q.bucket.stream())
	require.NoError(t, err)
	require.False(t, stream.CachedInfo().Config.AllowRollup)
	require.EqualValues(t, maxValue, stream.CachedInfo().Config.MaxMsgSize)
}
