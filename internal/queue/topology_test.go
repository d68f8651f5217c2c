package queue

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// reopen opens the queue again with changed settings.
func reopen(t *testing.T, q *Queue, change func(*Config)) (*Queue, error) {
	t.Helper()
	cfg := q.Conn.cfg
	change(&cfg)
	again, err := Open(t.Context(), cfg, zerolog.Nop())
	if err == nil {
		t.Cleanup(again.Close)
	}
	return again, err
}

func TestTopologyIsIdempotent(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	for _, spec := range q.Conn.cfg.streams() {
		want := spec.config
		stream, err := q.Conn.js.Stream(t.Context(), want.Name)
		require.NoError(t, err)
		unsafe, safe := compareStream(stream.CachedInfo().Config, want)
		require.Empty(t, unsafe)
		require.Empty(t, safe, "the broker gives back what was asked for")
	}
	_, err := reopen(t, q, func(*Config) {})
	require.NoError(t, err)
}

// Two workers that start at once find a stream missing, and both create it. The broker must
// refuse the second, and not take it for the same once more (nats-server #8449).
func TestAStreamIsMadeOnce(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	created := func() (all []time.Time) {
		for _, spec := range q.Conn.cfg.streams() {
			stream, err := q.Conn.js.Stream(t.Context(), spec.config.Name)
			require.NoError(t, err)
			all = append(all, stream.CachedInfo().Created)
		}
		return all
	}
	before := created()
	for _, spec := range q.Conn.cfg.streams() {
		require.ErrorIs(t, q.Topology.createStream(t.Context(), spec.config), jetstream.ErrStreamNameAlreadyInUse)
	}
	require.NoError(t, q.Topology.makeStreams(t.Context(), q.Conn.cfg.streams()))
	require.Equal(t, before, created())
}

func TestAStreamUnderWhichThePromiseFailsIsReportedFieldByField(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	bad := q.Conn.cfg.streams()[1].config
	bad.Name, bad.Subjects = "OTHER_ORDERS_RESULTS", []string{"OTHER.orders.results.*"}
	bad.Discard, bad.MaxAge, bad.MaxMsgSize = jetstream.DiscardOld, time.Hour, 1000
	bad.Sources = []*jetstream.StreamSource{{Name: "STAGING_ORDERS_RESULTS"}}
	bad.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "OTHER.orders.results.*", Destination: "OTHER.orders.results.x"}
	_, err := q.Conn.js.CreateStream(t.Context(), bad)
	require.NoError(t, err)
	_, err = reopen(t, q, func(c *Config) { c.Prefix = "OTHER" })
	var topology *TopologyError
	require.ErrorAs(t, err, &topology)
	require.Equal(t, "OTHER_ORDERS_RESULTS", topology.Stream)
	var fields []string
	for _, d := range topology.Differences {
		fields = append(fields, d.Field)
	}
	require.ElementsMatch(t, []string{"discard", "max_age", "max_msg_size", "sources", "subject_transform"}, fields)
	stream, err := q.Conn.js.Stream(t.Context(), "OTHER_ORDERS_RESULTS")
	require.NoError(t, err)
	require.Equal(t, time.Hour, stream.CachedInfo().Config.MaxAge, "nothing was changed")
}

func TestOnlyAWorkerChangesLimits(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	limit := func() int64 {
		stream, err := q.Conn.js.Stream(t.Context(), q.Conn.n.intents)
		require.NoError(t, err)
		return stream.CachedInfo().Config.MaxMsgs
	}
	_, err := reopen(t, q, func(c *Config) { c.MaxIntents, c.Worker = 7, false })
	require.NoError(t, err)
	require.EqualValues(t, -1, limit())
	_, err = reopen(t, q, func(c *Config) { c.MaxIntents = 7 })
	require.NoError(t, err)
	require.EqualValues(t, 7, limit())
}

// TestAWorkerHardensStreams: somebody made the streams by hand. Results could be purged,
// messages could have any size, and one message with the header Nats-Rollup could empty the
// bucket.
func TestAWorkerHardensStreams(t *testing.T) {
	broker := startBroker(t)
	nc, err := nats.Connect(broker.URL, nats.Token(broker.Token), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	cfg := DefaultConfig()
	for _, spec := range cfg.streams() {
		loose := spec.config
		loose.DenyPurge, loose.MaxMsgSize, loose.AllowRollup = false, -1, spec.part == PartFleet
		_, err = js.CreateStream(t.Context(), loose)
		require.NoError(t, err)
	}
	bucket, err := js.KeyValue(t.Context(), cfg.names().bucket)
	require.NoError(t, err)
	_, err = bucket.Put(t.Context(), "fleet.hold", []byte("{}"))
	require.NoError(t, err)

	openQueue(t, broker, "a")
	journal, err := js.Stream(t.Context(), "ORDERS_JOURNAL")
	require.NoError(t, err)
	require.Error(t, journal.Purge(t.Context()))
	limited, err := js.Stream(t.Context(), "ORDERS")
	require.NoError(t, err)
	require.EqualValues(t, settle.MaxIntentSize, limited.CachedInfo().Config.MaxMsgSize)
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV." + cfg.names().bucket + ".import.a", Header: nats.Header{"Nats-Rollup": {"all"}}})
	require.ErrorContains(t, err, "rollup not permitted")
	_, err = bucket.Get(t.Context(), "fleet.hold")
	require.NoError(t, err)
}

// The embedded broker makes the folders of these streams before it creates them.
func TestStreamNamesAreThoseThatAWorkerCreates(t *testing.T) {
	q := openQueue(t, startBroker(t), "w")
	var names []string
	for name := range q.Conn.js.StreamNames(t.Context()).Name() {
		names = append(names, name)
	}
	require.ElementsMatch(t, names, q.Conn.cfg.StreamNames())
}

func TestAPrefixBeginsEveryName(t *testing.T) {
	cfg := DefaultConfig()
	require.Equal(t, []string{"ORDERS", "ORDERS_RESULTS", "ORDERS_DEAD", "ORDERS_WAITING", "ORDERS_JOURNAL", "KV_ORDERPOST"}, cfg.StreamNames())
	cfg.Prefix = "EU"
	require.NoError(t, cfg.Validate())
	require.Equal(t, []string{"EU_ORDERS", "EU_ORDERS_RESULTS", "EU_ORDERS_DEAD", "EU_ORDERS_WAITING", "EU_ORDERS_JOURNAL", "KV_EU_ORDERPOST"}, cfg.StreamNames())
	require.Equal(t, "EU.orders.new.", cfg.names().newPre)
	cfg.Prefix = "EU.west"
	require.ErrorContains(t, cfg.Validate(), "ORDERPOST_PREFIX:")

	cfg = DefaultConfig()
	cfg.MaxIntents, cfg.MaxBytes = 0, -2 // a broker takes both for no limit
	require.ErrorContains(t, cfg.Validate(), "ORDERPOST_MAX_INTENTS: 0: give a number above 0, or -1")
	require.ErrorContains(t, cfg.Validate(), "ORDERPOST_MAX_BYTES: -2: give")
}
