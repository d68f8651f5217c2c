package queue

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// reopen opens the queue again with changed settings.
func reopen(t *testing.T, q *Queue, change func(*Config)) (*Queue, error) {
	t.Helper()
	cfg := q.cfg
	change(&cfg)
	again, err := Open(t.Context(), cfg, zerolog.Nop())
	if err == nil {
		t.Cleanup(again.Close)
	}
	return again, err
}

func TestTopologyIsIdempotent(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	for _, want := range q.streams() {
		stream, err := q.js.Stream(t.Context(), want.Name)
		require.NoError(t, err)
		unsafe, safe := compareStream(stream.CachedInfo().Config, want)
		require.Empty(t, unsafe)
		require.Empty(t, safe, "the broker gives back what was asked for")
	}
	_, err := reopen(t, q, func(*Config) {})
	require.NoError(t, err)
}

func TestAStreamUnderWhichThePromiseFailsIsReportedFieldByField(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	bad := q.streams()[1]
	bad.Name, bad.Subjects = "OTHER_RESULTS", []string{"other.results.*"}
	bad.Discard, bad.MaxAge, bad.MaxMsgSize = jetstream.DiscardOld, time.Hour, 1000
	_, err := q.js.CreateStream(t.Context(), bad)
	require.NoError(t, err)
	_, err = reopen(t, q, func(c *Config) { c.StreamPrefix, c.SubjectPrefix, c.Bucket = "OTHER", "other", "OTHER" })
	var topology *TopologyError
	require.ErrorAs(t, err, &topology)
	require.Equal(t, "OTHER_RESULTS", topology.Stream)
	var fields []string
	for _, d := range topology.Differences {
		fields = append(fields, d.Field)
	}
	require.ElementsMatch(t, []string{"discard", "max_age", "max_msg_size"}, fields)
	stream, err := q.js.Stream(t.Context(), "OTHER_RESULTS")
	require.NoError(t, err)
	require.Equal(t, time.Hour, stream.CachedInfo().Config.MaxAge, "nothing was changed")
}

func TestOnlyAWorkerChangesLimits(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	limit := func() int64 {
		stream, err := q.js.Stream(t.Context(), q.n.intents)
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

// TestAWorkerHardensOlderStreams: in older versions, results could be purged,
// and one message with the header Nats-Rollup could empty the bucket.
func TestAWorkerHardensOlderStreams(t *testing.T) {
	broker := startBroker(t)
	nc, err := nats.Connect(broker.URL, nats.Token(broker.Token), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	cfg := DefaultConfig()
	older := (&Queue{cfg: cfg, n: cfg.names()}).streams()[1]
	older.DenyPurge = false
	_, err = js.CreateStream(t.Context(), older)
	require.NoError(t, err)
	bucket, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: cfg.Bucket, History: 1})
	require.NoError(t, err)
	_, err = bucket.Put(t.Context(), "fleet.hold", []byte("{}"))
	require.NoError(t, err)

	openQueue(t, broker, "a")
	results, err := js.Stream(t.Context(), older.Name)
	require.NoError(t, err)
	require.Error(t, results.Purge(t.Context()))
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV." + cfg.Bucket + ".import.a", Header: nats.Header{"Nats-Rollup": {"all"}}})
	require.ErrorContains(t, err, "rollup not permitted")
	_, err = bucket.Get(t.Context(), "fleet.hold")
	require.NoError(t, err)
}

// Versions are numbers: 10 is newer than 9.
func TestANewerTopologyIsLeftAlone(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	set := func(version string) {
		cfg := q.streams()[0]
		cfg.Metadata = map[string]string{versionKey: version}
		_, err := q.js.UpdateStream(t.Context(), cfg)
		require.NoError(t, err)
	}
	for _, version := range []string{"2", "10", "1.5"} {
		set(version)
		_, err := reopen(t, q, func(*Config) {})
		require.ErrorContains(t, err, "use a newer orderpost", version)
	}
	set("0")
	_, err := reopen(t, q, func(*Config) {})
	require.NoError(t, err)
	stream, err := q.js.Stream(t.Context(), q.n.intents)
	require.NoError(t, err)
	require.Equal(t, "1", stream.CachedInfo().Config.Metadata[versionKey])
}

// A worker with the default of one replica must not take two away.
func TestReplicasAreOnlyEverAdded(t *testing.T) {
	want := (&Queue{cfg: DefaultConfig(), n: DefaultConfig().names()}).streams()[0]
	have := want
	have.Replicas = 3
	unsafe, safe := compareStream(have, want)
	require.Empty(t, unsafe)
	require.Empty(t, safe)
	_, safe = compareStream(want, have)
	require.Equal(t, []Difference{{"num_replicas", 1, 3}}, safe)
}

// The embedded broker makes the folders of these streams before it creates them.
func TestStreamNamesAreThoseThatAWorkerCreates(t *testing.T) {
	q := openQueue(t, startBroker(t), "w")
	require.NoError(t, q.OpenWaiting(t.Context()))
	var names []string
	for name := range q.js.StreamNames(t.Context()).Name() {
		names = append(names, name)
	}
	require.ElementsMatch(t, names, q.cfg.StreamNames())
}
