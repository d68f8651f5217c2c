package enqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// An import that a producer made has no record, and is paused, resumed and cancelled
// all the same. So is what waits of no import.
func TestProducersImportsArePausedAndCancelled(t *testing.T) {
	q, settings := startStreams(t)
	enqueue := func(args ...string) int {
		got := run(t, settings, "", args...)
		t.Log(args, got.transcript())
		return got.code
	}
	for _, batch := range []string{"basket", ""} {
		for i := range 3 {
			no := fmt.Sprintf("%s-%d", batch, i)
			in := settle.Intent{OrderNo: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no), ID: no, Batch: batch, NotBefore: time.Now().Add(time.Hour)}
			_, err := q.Producer.Publish(t.Context(), in)
			require.NoError(t, err)
		}
		name := imports.ImportToken(batch)
		require.Equal(t, cli.ExitDone, enqueue("pause", name))
		held, err := imports.ReadHold(t.Context(), q, batch)
		require.NoError(t, err)
		require.NotEmpty(t, held)
		require.Equal(t, cli.ExitDone, enqueue("continue", name))
		besideWorker(t, q, func() { require.Equal(t, cli.ExitDone, enqueue("cancel", name)) })
		n, err := q.Waiting.Total(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	}
	require.Equal(t, cli.ExitPartial, enqueue("pause", "unknown"))
}

// Who means an order does not cancel the import that has its name.
func TestCancelAsksWhatANameMeans(t *testing.T) {
	q, settings := startStreams(t)
	for _, in := range []settle.Intent{{OrderNo: "march", ID: "1"}, {OrderNo: "A-1", ID: "2", Batch: "march", NotBefore: time.Now().Add(time.Hour)}} {
		in.Body = fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, in.OrderNo)
		_, err := q.Producer.Publish(t.Context(), in)
		require.NoError(t, err)
	}
	for _, flags := range [][]string{nil, {"--dry-run"}} {
		got := run(t, settings, "", append([]string{"cancel", "march"}, flags...)...)
		require.Equal(t, cli.ExitUsage, got.code)
		require.Contains(t, got.transcript(), "march is the name of an import, and the order_no of an order in the queue: add --import or --order")
	}
	require.Equal(t, cli.ExitUsage, run(t, settings, "", "cancel", "march", "--import", "--order").code)
	outcome := func(no string) order.Outcome {
		entry, err := q.Ledger.Lookup(t.Context(), no)
		require.NoError(t, err)
		return entry.Record.Outcome()
	}
	besideWorker(t, q, func() {
		require.Equal(t, cli.ExitDone, run(t, settings, "", "cancel", "march", "--order").code)
		require.Equal(t, order.OutcomeCancelled, outcome("march"))
		require.Equal(t, order.OutcomeNone, outcome("A-1"))
		require.Equal(t, cli.ExitDone, run(t, settings, "", "cancel", "march").code, "only the import is left")
		require.Equal(t, order.OutcomeCancelled, outcome("A-1"))
	})

	for i, no := range []string{"basket", "basket-2"} { // both wait
		_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: no, ID: fmt.Sprint("b", i), Batch: "basket", NotBefore: time.Now().Add(time.Hour), Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no)})
		require.NoError(t, err)
	}
	require.Equal(t, cli.ExitUsage, run(t, settings, "", "cancel", "basket").code)
	besideWorker(t, q, func() {
		require.Equal(t, cli.ExitDone, run(t, settings, "", "cancel", "basket", "--order").code)
	})
	require.Equal(t, []order.Outcome{order.OutcomeCancelled, order.OutcomeNone}, []order.Outcome{outcome("basket"), outcome("basket-2")})
}

// Without the journal an import is still paused, because that makes things safer. It
// does not go on.
func TestOnlyAPauseNeedsNoJournal(t *testing.T) {
	q, settings := startStreams(t)
	_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "A-1", ID: "1", Batch: "march", NotBefore: time.Now().Add(time.Hour), Body: []byte(`{"order_no":"A-1","timeout":30}`)})
	require.NoError(t, err)
	nc, err := nats.Connect(settings["ORDERPOST_NATS_URL"], nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "ORDERS_JOURNAL")
	require.NoError(t, err)
	cfg := stream.CachedInfo().Config
	cfg.MaxBytes = 1 // it is full
	_, err = js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	got := run(t, settings, "", "pause", "march")
	require.Equal(t, cli.ExitDone, got.code, got.errOut)
	require.Contains(t, got.errOut, "NOT in the journal")
	got = run(t, settings, "", "continue", "march")
	require.Equal(t, cli.ExitFailed, got.code, got.errOut)
	held, err := imports.ReadHold(t.Context(), q, "march")
	require.NoError(t, err)
	require.NotEmpty(t, held, "it went on without the journal")
}

// An empty name is the mistake of a script. "-" names what waits of no import.
func TestAnEmptyNameIsWrongUsage(t *testing.T) {
	_, settings := startStreams(t)
	for _, args := range []string{"pause", "continue", "cancel", "cancel --dry-run", "cancel --import", "cancel --order", "watch", "status", "results", "order", "sign", "--dry-run"} {
		got := run(t, settings, "", append(strings.Fields(args), "")...)
		require.Equal(t, cli.ExitUsage, got.code, "%s: %s", args, got.transcript())
		require.Contains(t, got.errOut, "enqueue: a name is empty; enqueue ", args)
	}
}
