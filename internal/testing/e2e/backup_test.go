package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/worker"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// snapshot is a stream as the nats tool saves it.
type snapshot struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	chunks [][]byte
}

// ask sends a request to JetStream's interface, and reads its answer.
func ask(t *testing.T, nc *nats.Conn, subject string, body, answer any) {
	t.Helper()
	data, err := json.Marshal(body)
	require.NoError(t, err)
	msg, err := nc.Request(subject, data, patience)
	require.NoError(t, err, subject)
	var refused struct {
		Error *struct{ Description string } `json:"error"`
	}
	require.NoError(t, json.Unmarshal(msg.Data, &refused), "%s: %s", subject, msg.Data)
	require.Nil(t, refused.Error, "%s: %s", subject, msg.Data)
	require.NoError(t, json.Unmarshal(msg.Data, answer))
}

// backup does what `nats stream backup` does, consumers included.
func backup(t *testing.T, nc *nats.Conn, stream string) *snapshot {
	t.Helper()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	require.NoError(t, err)
	s := &snapshot{}
	ask(t, nc, "$JS.API.STREAM.SNAPSHOT."+stream, map[string]any{"deliver_subject": sub.Subject}, s)
	for {
		chunk, err := sub.NextMsg(patience)
		require.NoError(t, err)
		if len(chunk.Data) == 0 {
			return s
		}
		s.chunks = append(s.chunks, chunk.Data)
		if chunk.Reply != "" { // the server waits for us
			require.NoError(t, chunk.Respond(nil))
		}
	}
}

// restore does what `nats stream restore` does.
func restore(t *testing.T, nc *nats.Conn, stream string, s *snapshot) {
	t.Helper()
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	ask(t, nc, "$JS.API.STREAM.RESTORE."+stream, s, &to)
	for _, chunk := range s.chunks {
		_, err := nc.Request(to.Subject, chunk, patience)
		require.NoError(t, err)
	}
	done, err := nc.Request(to.Subject, nil, patience)
	require.NoError(t, err)
	require.NotContains(t, string(done.Data), `"error"`)
}

// rows is a file of orders with the given number prefix.
func rows(t *testing.T, prefix string, n int) string {
	t.Helper()
	text := "order_no,timeout\n"
	for i := range n {
		text += fmt.Sprintf("%s-%d,60\n", prefix, i)
	}
	return writeFile(t, text)
}

// backedUp is a server with settled and pending orders, and a way to begin
// anew on an empty one with what was saved.
type backedUp struct {
	*secured
	t        *testing.T
	settings map[string]string
	api      string
	worker   *process
	saved    map[string]*snapshot
}

func newBackedUp(t *testing.T, more map[string]string) *backedUp {
	t.Helper()
	b := &backedUp{secured: startSecured(t), t: t, saved: make(map[string]*snapshot)}
	b.settings, b.api = api(t)
	maps.Copy(b.settings, more)
	b.worker = startWorker(t, b.as("worker", b.settings))
	return b
}

func (b *backedUp) do(run cli.RunFunc, role string, args ...string) string {
	b.t.Helper()
	code, out, errOut := runProgram(b.t, run, b.as(role, nil), args...)
	require.Equal(b.t, cli.ExitDone, code, "%s: %s", args, errOut)
	return out
}

func (b *backedUp) save(streams ...string) {
	b.t.Helper()
	nc := b.connect(b.t, "admin")
	for _, stream := range streams {
		b.saved[stream] = backup(b.t, nc, stream)
	}
	nc.Close()
}

// lose ends the worker and the server, and restores what was saved on an empty
// one, in the order of docs/operations.md.
func (b *backedUp) lose() {
	b.t.Helper()
	require.Equal(b.t, cli.ExitDone, b.worker.end())
	b.conf.vars["NATS_STORE_DIR"] = b.t.TempDir()
	b.startServer(b.t)
	nc := b.connect(b.t, "admin")
	for _, stream := range []string{"KV_ORDERPOST", "ORDERS_RESULTS", "ORDERS_DEAD", "ORDERS_JOURNAL", "ORDERS_WAITING", "ORDERS"} {
		restore(b.t, nc, stream, b.saved[stream])
	}
	nc.Close()
}

// requireOnce: each of so many orders exists once at the API, and was asked
// for no second time.
func (b *backedUp) requireOnce(n int) {
	b.t.Helper()
	created := ledger(b.t, b.api)
	require.Len(b.t, created, n)
	for _, e := range created {
		require.Equal(b.t, 1, e.Created, e.OrderNo)
	}
}

// TestBackupBetweenOrders: streams that are saved one after the other while
// orders flow are restored on an empty server. What was settled in between has
// its result, what a worker had been given is known, and no order is created twice.
func TestBackupBetweenOrders(t *testing.T) {
	t.Parallel()
	b := newBackedUp(t, nil)
	b.do(enqueue.Run, "producer", rows(t, "BEFORE", 5), "--wait")
	b.do(worker.Run, "operator", "hold", "--reason", "backup")
	b.waitForNoPull(t)
	b.do(enqueue.Run, "producer", rows(t, "BETWEEN", 3), "--direct")
	b.save("ORDERS_WAITING", "ORDERS")
	b.do(worker.Run, "operator", "resume")
	q := b.queue(t, "operator")
	drained(t, q)
	b.save("ORDERS_RESULTS", "ORDERS_DEAD", "ORDERS_JOURNAL", "KV_ORDERPOST")
	q.Close()

	b.lose()
	b.worker = startWorker(t, b.as("worker", b.settings))
	q = b.queue(t, "operator")
	drained(t, q)
	b.do(enqueue.Run, "producer", rows(t, "AFTER", 2), "--wait")
	b.requireOnce(10)
	for no, r := range collect(t, q) {
		require.Equal(t, order.OutcomeAccepted, r.Outcome(), no)
		require.Equal(t, 1, r.Attempts, "%s was sent again", no)
	}
	requireBalanced(t, q, 10)
	require.Equal(t, cli.ExitDone, b.worker.end())
}

// TestOrdersSettledAfterABackup come back as pending, and nothing tells. Held
// and withdrawn, as docs/operations.md says, none is sent again.
func TestOrdersSettledAfterABackup(t *testing.T) {
	t.Parallel()
	b := newBackedUp(t, nil)
	b.do(worker.Run, "operator", "hold", "--reason", "backup")
	b.waitForNoPull(t)
	b.do(enqueue.Run, "producer", rows(t, "LATE", 3), "--batch", "late")
	b.save("ORDERS_WAITING", "ORDERS", "ORDERS_RESULTS", "ORDERS_DEAD", "ORDERS_JOURNAL", "KV_ORDERPOST")
	b.do(worker.Run, "operator", "resume")
	q := b.queue(t, "operator")
	drained(t, q)
	q.Close()
	b.requireOnce(3)

	b.lose()
	b.do(worker.Run, "operator", "hold", "--reason", "restored from a backup")
	b.worker = startWorker(t, b.as("worker", b.settings))
	q = b.queue(t, "operator")
	require.Eventually(t, func() bool { // what was moved while the streams were saved is restored in both
		counts, err := q.Census.Count(t.Context())
		return err == nil && counts.Pending+counts.Waiting == 3
	}, patience, pause)
	require.Contains(t, b.do(enqueue.Run, "operator", "cancel", "late"), "3")
	b.do(worker.Run, "operator", "resume")
	b.do(enqueue.Run, "producer", rows(t, "NEW", 1), "--wait")
	b.requireOnce(4)
	requireBalanced(t, q, 4)
	require.Equal(t, cli.ExitDone, b.worker.end())
}

// TestOrdersGivenToAWorkerBeforeABackup: the streams were saved while a worker took orders that were
// in the backup of ORDERS already. The bucket, saved last, knows how far they had been given
// away, also of a stream that was restored: they count as possibly posted.
func TestOrdersGivenToAWorkerBeforeABackup(t *testing.T) {
	b := newBackedUp(t, map[string]string{"ORDERPOST_ON_UNSURE": "park", "ORDERPOST_DRAIN_TIMEOUT": "1s"})
	b.do(worker.Run, "operator", "hold", "--reason", "backup")
	b.waitForNoPull(t)
	b.do(enqueue.Run, "producer", rows(t, "GIVEN", 3), "--direct")
	b.save("ORDERS_WAITING", "ORDERS")
	change(t, b.api, `{"fault-slow": 1, "slow-delay": "10m"}`)
	b.do(worker.Run, "operator", "resume")
	q := b.queue(t, "operator")
	require.Eventually(t, func() bool {
		f, err := fleet.New(q).Read(t.Context())
		return err == nil && len(f.Members) == 1 && f.Members[0].InFlight == 3
	}, patience, pause)
	q.Close()
	b.save("ORDERS_RESULTS", "ORDERS_DEAD", "ORDERS_JOURNAL", "KV_ORDERPOST")

	b.lose()
	change(t, b.api, `{"fault-slow": 0}`)
	b.worker = startWorker(t, b.as("worker", b.settings))
	q = b.queue(t, "operator")
	drained(t, q)
	records := collect(t, q)
	require.Len(t, records, 3)
	for no, r := range records {
		require.Equal(t, order.OutcomeUnknown, r.Outcome(), no)
	}
	require.Equal(t, cli.ExitDone, b.worker.end())
}

// TestABucketThatIsRestoredAlone lacks what people did since: a hold, withdrawals, pauses. The workers
// saw it come further, and post nothing. Whoever accepts it finds the fleet held.
func TestABucketThatIsRestoredAlone(t *testing.T) {
	b := newBackedUp(t, nil)
	b.do(enqueue.Run, "producer", rows(t, "BEFORE", 1), "--wait")
	b.save("KV_ORDERPOST")
	q := b.queue(t, "operator")
	for range 100 { // more than the workers write between two looks
		require.NoError(t, fleet.New(q).SetHold(t.Context(), fleet.Hold{By: "anna", Reason: "month end", Since: time.Now()}))
	}
	b.do(worker.Run, "operator", "hold", "--reason", "month end")
	nc := b.connect(t, "admin")
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // what the worker has seen after that, it remembers
		journal, err := js.Stream(t.Context(), "ORDERS_JOURNAL")
		extents, getErr := q.Bucket().Get(t.Context(), "extents")
		var seen map[string]queue.Extent
		return err == nil && getErr == nil && json.Unmarshal(extents.Value, &seen) == nil && seen["ORDERS_JOURNAL"].Last == journal.CachedInfo().State.LastSeq
	}, patience, pause)

	require.NoError(t, js.DeleteStream(t.Context(), "KV_ORDERPOST"))
	restore(t, nc, "KV_ORDERPOST", b.saved["KV_ORDERPOST"])
	b.worker.saw(&b.worker.errOut, "bucket ORDERPOST end")
	b.do(enqueue.Run, "producer", rows(t, "HELD", 2), "--direct")

	out := b.do(worker.Run, "worker", "repair", "--yes", "--by", "anna")
	require.Contains(t, out, "the fleet's holds, limit and lanes, the pauses of imports and what was approved are lost")
	f, err := fleet.New(q).Read(t.Context())
	require.NoError(t, err)
	require.NotNil(t, f.Hold, "the hold is lost, and nobody holds")
	b.requireOnce(1)
	b.do(worker.Run, "operator", "resume")
	drained(t, q)
	b.requireOnce(3)
	require.Equal(t, cli.ExitDone, b.worker.end())
}

// What JetStream cannot unset on a stream is unset when the stream is restored from a backup,
// as docs/runbook.md says.
func TestASealedStreamIsRestoredWithAnotherConfiguration(t *testing.T) {
	t.Parallel()
	b := newBackedUp(t, nil)
	b.do(enqueue.Run, "producer", rows(t, "A", 3), "--wait")
	require.Equal(t, cli.ExitDone, b.worker.end())
	nc := b.connect(t, "admin")
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "ORDERS_RESULTS")
	require.NoError(t, err)
	want := stream.CachedInfo().Config
	sealed := want
	sealed.Sealed = true
	_, err = js.UpdateStream(t.Context(), sealed)
	require.NoError(t, err)
	saved := backup(t, nc, "ORDERS_RESULTS")
	saved.Config, err = json.Marshal(want)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), "ORDERS_RESULTS"))
	restore(t, nc, "ORDERS_RESULTS", saved)
	b.worker = startWorker(t, b.as("worker", b.settings))
	b.do(enqueue.Run, "producer", rows(t, "B", 3), "--wait")
	require.Contains(t, b.do(enqueue.Run, "operator", "order", "A-0"), "accepted")
}
