package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/cli"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// TestBooksBalanceUnderFaults is the main job: thousands of orders, two
// workers, an API that drops, delays, throttles and refuses. Nothing is lost,
// nothing is created twice, every refusal is a dead letter with its reason.
func TestBooksBalanceUnderFaults(t *testing.T) {
	t.Parallel()
	const rows = 3000
	settings, url := api(t, "--seed", "11", "--fault-503", "0.03", "--fault-503-after", "0.02",
		"--fault-drop-before", "0.02", "--fault-drop-after", "0.03", "--fault-429", "0.0005",
		"--fault-slow", "0.01", "--slow-delay", "200ms", "--fault-refuse", "0.03", "--max-faults-per-order", "4")
	settings["ORDERPOST_BREAKER_RATIO"] = "0" // the faults are scattered; an outage is another test
	host := startWorker(t, settings)
	joined := startWorker(t, settings)
	file := writeOrders(t, rows)

	code, out, errOut := importFile(t, settings, file)
	require.Equal(t, cli.ExitDone, code, errOut)
	require.Contains(t, out, "3000 enqueued")
	q := openStreams(t, settings)
	drained(t, q)

	created := ledger(t, url)
	records := collect(t, q)
	require.Len(t, records, rows)
	seen := compare(t, q, records, created)
	require.Positive(t, seen[order.OutcomeAccepted])
	require.Positive(t, seen[order.OutcomeRejected], "the sandbox refuses 3 %% of the orders")
	requireBalanced(t, q, rows)
	require.Contains(t, host.errOut.String(), "order settled")
	require.Contains(t, joined.errOut.String(), "order settled", "the second worker got nothing to do")

	require.Equal(t, cli.ExitDone, joined.end())
	require.Equal(t, cli.ExitDone, host.end())
	for _, p := range []*process{host, joined} {
		require.NotContains(t, p.errOut.String(), settings["ORDERPOST_API_KEY"])
		require.NotContains(t, p.errOut.String(), settings["ORDERPOST_API_SECRET"])
	}
}

func collect(t *testing.T, q *queue.Queue) map[string]*order.Record {
	t.Helper()
	records := make(map[string]*order.Record)
	require.NoError(t, queue.EachRecord(t.Context(), q, func(r *order.Record) error {
		require.NotContains(t, records, r.OrderNo, "two results for one order")
		records[r.OrderNo] = r
		return nil
	}))
	return records
}

// compare holds every result against the sandbox's ledger.
func compare(t *testing.T, q *queue.Queue, records map[string]*order.Record, created map[string]ledgerEntry) map[order.Outcome]int {
	t.Helper()
	seen := make(map[order.Outcome]int)
	for no, r := range records {
		seen[r.Outcome()]++
		entry := created[no]
		require.LessOrEqual(t, entry.Created, 1, "%s was created twice", no)
		switch r.Outcome() {
		case order.OutcomeAccepted:
			require.Equal(t, 1, entry.Created, "%s is recorded as accepted", no)
		case order.OutcomeRejected:
			require.Zero(t, entry.Created, "%s is recorded as rejected", no)
			letter, err := q.Ledger.Letter(t.Context(), no)
			require.NoError(t, err)
			require.NotNil(t, letter, no)
			require.Contains(t, letter.Reason, "422")
			require.Contains(t, string(letter.Body), no)
		case order.OutcomeUnknown:
			require.True(t, r.Unsure, no)
		default:
			require.Failf(t, "unexpected outcome", "%s: %s", no, r.Word)
		}
	}
	for no, e := range created {
		if e.Created > 0 {
			require.Contains(t, records, no, "created, and not recorded")
		}
	}
	return seen
}

func requireBalanced(t *testing.T, q *queue.Queue, intents uint64) {
	t.Helper()
	audit, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, audit.Balanced(), "%+v", audit)
	withdrawn := uint64(0) // these never reached the queue
	require.NoError(t, queue.EachRecord(t.Context(), q, func(r *order.Record) error {
		if r.Unqueued {
			withdrawn++
		}
		return nil
	}))
	require.Equal(t, intents, audit.Intents+withdrawn)
}

// TestInvalidIntentsAreDeadLettered: what can never be sent is filed with its
// original bytes and the reason, whatever a producer publishes.
func TestInvalidIntentsAreDeadLettered(t *testing.T) {
	settings, url := api(t)
	worker := startWorker(t, settings)
	q := openStreams(t, settings)
	bad := map[string]struct{ body, reason string }{
		"not-json":    {`{"order_no":"not-json",`, ""},
		"not-object":  {`["not-object"]`, "object"},
		"no-order-no": {`{"timeout":30}`, "order_no"},
		"no-timeout":  {`{"order_no":"no-timeout"}`, "timeout"},
		"other":       {`{"order_no":"another","timeout":30}`, "subject"},
		"inexact":     {`{"order_no":"inexact","timeout":30,"id":9007199254740993}`, "9007199254740993"},
	}
	for no, b := range bad {
		published, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: no, Body: []byte(b.body)})
		require.NoError(t, err)
		require.Equal(t, settle.Stored, published)
	}
	drained(t, q)
	for no, b := range bad {
		letter, err := q.Ledger.Letter(t.Context(), no)
		require.NoError(t, err)
		require.NotNil(t, letter, no)
		require.Equal(t, order.OutcomeInvalid, letter.Outcome, no)
		require.Equal(t, b.body, string(letter.Body), no)
		require.Contains(t, letter.Error, b.reason, no)
		require.Zero(t, letter.Attempts, no)
	}
	require.Empty(t, ledger(t, url))
	requireBalanced(t, q, uint64(len(bad)))
	require.Equal(t, cli.ExitDone, worker.end())
}

func TestSettingsAreRefusedAllAtOnce(t *testing.T) {
	p := start(t, "worker", startedWorker, map[string]string{
		"ORDERPOST_API_URL": "https://api.example.com/v1", "ORDERPOST_API_KEY": "k",
		"ORDERPOST_CONCURRENCY": "many", "ORDERPOST_LOG_LEVEL": "loud",
	})
	require.Equal(t, cli.ExitUsage, p.wait())
	for _, want := range []string{"ORDERPOST_API_URL", "/v1", "ORDERPOST_API_SECRET", `ORDERPOST_CONCURRENCY: "many" is not a whole number`, "ORDERPOST_LOG_LEVEL"} {
		require.Contains(t, p.errOut.String(), want)
	}
	require.Equal(t, 1, strings.Count(p.errOut.String(), "the configuration cannot be used"))
}
