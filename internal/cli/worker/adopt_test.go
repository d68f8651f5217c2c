package worker

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/fleet"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// brokerOf runs a broker in a data folder, without a worker.
func brokerOf(t *testing.T, dir string) *queuetest.Broker {
	t.Helper()
	return queuetest.Start(t, func(c *embedded.Config) { c.Dir = dir })
}

func runWith(t *testing.T, environ map[string]string, change map[string]string, args string) (int, string) {
	t.Helper()
	environ = maps.Clone(environ)
	maps.Copy(environ, change)
	var out bytes.Buffer
	code := Run(t.Context(), strings.Fields(args), environ, strings.NewReader(""), &out, &out)
	return code, out.String()
}

func TestAdopt(t *testing.T) {
	environ := map[string]string{"ORDERPOST_DATA_DIR": t.TempDir(), "USER": "anna", "ORDERPOST_API_URL": "https://api.example.com", "ORDERPOST_ACCOUNT_LABEL": "shop"}
	q := queuetest.Open(t, brokerOf(t, environ["ORDERPOST_DATA_DIR"]), "w1")
	code, out := runWith(t, environ, nil, "adopt --yes")
	require.Zero(t, code, out)
	require.Contains(t, out, "belong to no API yet")

	trial := fleet.Identity{URL: "http://127.0.0.1:8089"}
	require.NoError(t, fleet.New(q).ClaimIdentity(t.Context(), trial, "w1", zerolog.Nop()))
	_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "A-1", ID: "i1", Body: []byte(`{"order_no":"A-1","timeout":30}`)})
	require.NoError(t, err)
	require.NoError(t, fleet.New(q).Appear(t.Context(), fleet.Presence{ID: "1", Worker: "w1"}))

	code, out = runWith(t, environ, nil, "adopt")
	require.Equal(t, cli.ExitUsage, code, out)
	require.Contains(t, out, "give --yes")
	code, out = runWith(t, environ, map[string]string{"ORDERPOST_API_URL": ""}, "adopt --yes")
	require.Equal(t, cli.ExitUsage, code, out)
	require.Contains(t, out, "ORDERPOST_API_URL")
	have, err := fleet.New(q).Claimed(t.Context())
	require.NoError(t, err)
	require.Equal(t, trial, have.Identity, "nothing was changed")

	code, out = runWith(t, environ, nil, "adopt --yes")
	require.Zero(t, code, out)
	for _, want := range []string{
		"The orders of this broker belong to  http://127.0.0.1:8089, since ", " by w1\n",
		"These settings post to               https://api.example.com (shop)\n",
		"        1 pending orders", "        0 results and notes", "        0 dead letters", "worker w1 is running",
		"belong to https://api.example.com (shop) from now on; " + annaHere + " decided it.",
	} {
		require.Contains(t, out, want)
	}
	have, err = fleet.New(q).Claimed(t.Context())
	require.NoError(t, err)
	require.Equal(t, annaHere, have.By)
	require.NoError(t, fleet.New(q).ClaimIdentity(t.Context(), have.Identity, "w1", zerolog.Nop()))
	code, out = runWith(t, environ, nil, "adopt --yes")
	require.Zero(t, code, out)
	require.Contains(t, out, "already. Nothing was changed.")
}

// The fleet command looks at what is there, says what is not, and makes nothing.
func TestFleetAndRepairOnABrokerThatLostStreams(t *testing.T) {
	environ := map[string]string{"ORDERPOST_DATA_DIR": t.TempDir(), "USER": "anna", "ORDERPOST_NATS_CONNECT_TIMEOUT": "50ms"}
	s := brokerOf(t, environ["ORDERPOST_DATA_DIR"])
	code, out := runWith(t, environ, nil, "fleet")
	require.Equal(t, cli.ExitFailed, code, out)
	require.Contains(t, out, "Missing: stream ORDERS\n")
	require.Contains(t, out, "Start a worker, which creates them")
	code, out = runWith(t, environ, nil, "hold")
	require.Equal(t, cli.ExitUnreachable, code, out)
	require.Contains(t, out, "no stream ORDERS at nats://127.0.0.1:")

	q := queuetest.Open(t, s, "w1")
	_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "A-1", ID: "i1", Body: []byte(`{"order_no":"A-1","timeout":30}`)})
	require.NoError(t, err)
	code, out = runWith(t, environ, nil, "repair --yes")
	require.Zero(t, code, out)
	require.Contains(t, out, "No stream is missing, none lost its end, and no intent is stranded. Nothing was changed.")

	nc, err := nats.Connect(s.URL, nats.Token(s.Token), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	consumer, err := js.Consumer(t.Context(), "ORDERS", "workers")
	require.NoError(t, err)
	msg, err := consumer.Next()
	require.NoError(t, err)
	require.NoError(t, msg.DoubleAck(t.Context())) // as no worker does
	code, out = runWith(t, environ, nil, "repair --yes")
	require.Zero(t, code, out)
	require.Contains(t, out, "An intent is stored without an outcome or its dead letter, and the broker delivers it to nobody: orders.new.A-1, message 1.")
	require.Contains(t, out, "The broker delivers what is stored again, as soon as a worker has made its consumer; "+annaHere+" decided it.")
	_, err = js.Consumer(t.Context(), "ORDERS", "workers")
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	q = queuetest.Open(t, s, "w1") // makes it again
	require.NoError(t, q.Pull(t.Context(), 1, time.Minute, func(ds []*settle.Delivery) {
		for _, d := range ds {
			require.Equal(t, "A-1", d.OrderNo())
			d.Release()
		}
	}))
	code, out = runWith(t, environ, nil, "repair --yes --redeliver")
	require.Zero(t, code, out)
	require.NotContains(t, out, "An intent is stored without")
	require.Contains(t, out, "The broker delivers what is stored again")
	_, err = js.Consumer(t.Context(), "ORDERS", "workers")
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	queuetest.Open(t, s, "w1")

	require.NoError(t, js.DeleteStream(t.Context(), "ORDERS_RESULTS"))
	code, out = runWith(t, environ, nil, "fleet --json")
	require.Equal(t, cli.ExitFailed, code, out)
	require.Contains(t, out, `"missing":["stream ORDERS_RESULTS"]`)
	require.Contains(t, out, "stream ORDERS_RESULTS is missing. Restore what is missing from a backup (orderpost restore FILE --missing), or accept that what it held is lost: orderpost worker repair")
	code, out = runWith(t, environ, nil, "repair")
	require.Equal(t, cli.ExitUsage, code, out)
	_, err = js.Stream(t.Context(), "ORDERS_RESULTS")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	code, out = runWith(t, environ, nil, "repair --yes")
	require.Zero(t, code, out)
	require.Contains(t, out, "stream ORDERS_RESULTS is missing: the outcomes of earlier orders are lost")
	require.Contains(t, out, "Created stream ORDERS_RESULTS; "+annaHere+" decided it.")
	code, out = runWith(t, environ, nil, "fleet")
	require.Zero(t, code, out)
	require.NotContains(t, out, "Missing")

	require.NoError(t, js.DeleteStream(t.Context(), "KV_ORDERPOST"))
	code, out = runWith(t, environ, nil, "hold")
	require.Equal(t, cli.ExitUnreachable, code, out)
	require.Contains(t, out, "bucket ORDERPOST is missing at ")
	code, out = runWith(t, environ, nil, "repair --yes")
	require.Zero(t, code, out)
	require.Contains(t, out, "bucket ORDERPOST is missing: the fleet's holds, limit and lanes, the pauses of imports and what was approved are lost.")
	code, out = runWith(t, environ, nil, "fleet")
	require.Zero(t, code, out)
	require.Contains(t, out, "the bucket was lost: set the\n  limit", "a hold that was lost does not end unseen")

	require.NoError(t, js.DeleteStream(t.Context(), "ORDERS_DEAD"))
	require.NoError(t, js.DeleteStream(t.Context(), "ORDERS_JOURNAL"))
	code, out = runWith(t, environ, nil, "repair --yes")
	require.Zero(t, code, out)
	require.Contains(t, out, "Created stream ORDERS_DEAD; "+annaHere+" decided it.")
	journal, err := js.Stream(t.Context(), "ORDERS_JOURNAL")
	require.NoError(t, err)
	require.Equal(t, uint64(2), journal.CachedInfo().State.Msgs, "the repair and its result")
}
