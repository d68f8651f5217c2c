package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/cli"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/orderpost"
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

// lose ends the worker and the server, and restores a backup on an empty one. Nothing is posted before
// a person accepts that.
func (b *backedUp) lose(file string) {
	b.t.Helper()
	require.Equal(b.t, cli.ExitDone, b.worker.end())
	b.conf.vars["NATS_STORE_DIR"] = b.t.TempDir()
	b.startServer(b.t)
	code, _, errOut := runProgram(b.t, orderpost.Run, b.as("worker", nil), "restore", file)
	require.Equal(b.t, cli.ExitFailed, code)
	require.Contains(b.t, errOut, "must be an administrator")
	require.Contains(b.t, b.do(orderpost.Run, "admin", "restore", file), "Workers post nothing until")
	q := b.queue(b.t, "admin")
	a, err := audit.Audit(b.t.Context(), q)
	require.NoError(b.t, err)
	require.True(b.t, a.Balanced(), a.Offenders)
	q.Close()
	before := ledger(b.t, b.api)
	b.worker = startWorker(b.t, b.as("worker", b.settings))
	b.worker.saw(&b.worker.errOut, "restored from a backup")
	require.Equal(b.t, before, ledger(b.t, b.api))
	require.Contains(b.t, b.do(worker.Run, "worker", "repair", "--yes", "--by", "anna"), "were restored from a backup of")
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

// TestABackupUnderLoad: what was posted while and after the backup was made is posted no second time, and
// no order is lost or without an outcome. What waited is no exception.
func TestABackupUnderLoad(t *testing.T) {
	t.Parallel()
	b := newBackedUp(t, map[string]string{"ORDERPOST_ON_UNSURE": "park"})
	b.do(enqueue.Run, "producer", rows(t, "BEFORE", 5), "--wait")
	change(t, b.api, `{"latency": "5ms"}`)
	b.do(enqueue.Run, "producer", rows(t, "LOAD", 2000), "--batch", "load")
	file := filepath.Join(t.TempDir(), "backup")
	b.do(orderpost.Run, "admin", "backup", file)
	q := b.queue(t, "operator")
	drained(t, q)
	q.Close()
	b.requireOnce(2005)

	b.lose(file)
	q = b.queue(t, "operator")
	drained(t, q)
	b.requireOnce(2005)
	outcomes, again := make(map[order.Outcome]int), uint64(0)
	for _, r := range collect(t, q) {
		outcomes[r.Outcome()]++
		again += uint64(r.Settled - 1) // it was in the restored queue, and waited in the copy: R13's gap, once the broker has forgotten its id
	}
	require.Equal(t, 2005, outcomes[order.OutcomeAccepted]+outcomes[order.OutcomeUnknown], outcomes)
	require.GreaterOrEqual(t, outcomes[order.OutcomeAccepted], 5)
	requireBalanced(t, q, 2005+again)
	b.do(enqueue.Run, "producer", rows(t, "AFTER", 2), "--wait")
	b.requireOnce(2007)
	require.Equal(t, cli.ExitDone, b.worker.end())
}

// TestAnEncryptedBackup shows no body, and opens with the key alone.
func TestAnEncryptedBackup(t *testing.T) {
	t.Parallel()
	b := newBackedUp(t, nil)
	b.do(enqueue.Run, "producer", rows(t, "SECRET", 5), "--wait")
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	file, key := filepath.Join(t.TempDir(), "backup"), writeFile(t, identity.String()+"\n")
	b.do(orderpost.Run, "admin", "backup", file, "--recipient", identity.Recipient().String())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(text), "SECRET")
	run := func(args ...string) (int, string) {
		folder := map[string]string{"ORDERPOST_DATA_DIR": filepath.Join(t.TempDir(), "data")}
		code, _, errOut := runProgram(t, orderpost.Run, folder, args...)
		return code, errOut
	}
	code, errOut := run("restore", file)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "it is encrypted: give --identity")
	code, errOut = run("restore", file, "--identity", key)
	require.Equal(t, cli.ExitDone, code, errOut)
	var armored strings.Builder // as age -a writes it
	w := armor.NewWriter(&armored)
	_, err = w.Write(text)
	require.NoError(t, errors.Join(err, w.Close()))
	code, errOut = run("restore", writeFile(t, armored.String()), "--identity", key)
	require.Equal(t, cli.ExitDone, code, errOut)
	code, errOut = run("restore", file, "--identity", writeFile(t, "-----BEGIN OPENSSH PRIVATE KEY-----\n"))
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "has no private keys of age")
	code, errOut = run("backup", "-")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "give the name of a file")
	code, errOut = run("backup", file)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "exists: give another name")
	code, errOut = run("backup", file+"2", "--recipient", "age1")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "is no public key of age")
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
