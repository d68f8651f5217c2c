package notify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// importFile imports n orders as enqueue does, into the queue itself.
func importFile(t *testing.T, q *queue.Queue, batch string, n int, change ...func(*importer.Options)) {
	t.Helper()
	var text strings.Builder
	text.WriteString("order_no,timeout\n")
	for i := range n {
		fmt.Fprintf(&text, "%s-%d,30\n", batch, i)
	}
	o := importer.Options{File: batch + ".csv", Sending: importer.Sending{Direct: true}}
	o.Batch = batch
	for _, c := range change {
		c(&o)
	}
	f, err := importer.Open(strings.NewReader(text.String()), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	checked, err := f.Check(t.Context())
	require.NoError(t, err)
	_, err = f.Publish(t.Context(), q, checked)
	require.NoError(t, err)
}

// works settles orders of the queue, one for each verdict, in their order.
func works(t *testing.T, q *queue.Queue, verdicts ...order.Verdict) {
	t.Helper()
	for i, d := range queuetest.Pull(t, q, len(verdicts)) {
		r := queuetest.Report(verdicts[i], order.History{Unsure: verdicts[i] == order.Unsure})
		_, err := q.Worker.Settle(t.Context(), d, &r, order.Decide(&r, order.Facts{Policy: order.Park}))
		require.NoError(t, err)
		d.Release()
	}
}

// told returns the events of a type that the receiver took: their IDs, and their data.
func told[T any](t *testing.T, e *hookServer, kind string) (ids []string, all []T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, g := range e.taken {
		if g.Type != kind {
			continue
		}
		var body struct {
			Data T `json:"data"`
		}
		require.NoError(t, json.Unmarshal([]byte(e.bodies[i]), &body))
		ids, all = append(ids, g.ID), append(all, body.Data)
	}
	return ids, all
}

// awaitTold waits until as many events of a type were taken.
func awaitTold[T any](t *testing.T, e *hookServer, kind string, n int) ([]string, []T) {
	t.Helper()
	require.Eventually(t, func() bool { ids, _ := told[T](t, e, kind); return len(ids) >= n }, time.Minute, 5*time.Millisecond)
	ids, all := told[T](t, e, kind)
	require.Len(t, ids, n)
	return ids, all
}

func ofTypes(types ...string) func(*Config) {
	return func(c *Config) { c.Types, c.Begin = types, beginNow }
}

// awaitLooked waits until the sender keeps which imports are told.
func awaitLooked(t *testing.T, q *queue.Queue, open int) {
	t.Helper()
	require.Eventually(t, func() bool { k := kept(t, q); return k.Imports != nil && len(k.Imports.Open) == open }, time.Minute, 5*time.Millisecond)
}

// TestAnImportIsSettled is told once, when the last of its orders is; one that was before the first sender
// began is not told.
func TestAnImportIsSettled(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e := newHookServer(t)
	importFile(t, q, "before", 1)
	works(t, q, order.Accepted)
	importFile(t, q, "march", 3)
	stop := run(t, newTestSender(t, q, e.URL, ofTypes("import.*")))
	awaitLooked(t, q, 1)
	works(t, q, order.Accepted, order.Accepted)
	works(t, q, order.Rejected)
	ids, all := awaitTold[Import](t, e, TypeImport, 1)
	got := all[0]
	require.Equal(t, []any{"march", "march.csv", 3, 3}, []any{got.Import, got.File, got.Rows, got.Orders})
	require.Equal(t, map[string]int{"accepted": 2, "rejected": 1}, got.Outcomes)
	require.Equal(t, map[string]int{"stored": 3}, got.Counts)
	require.Equal(t, Results{"orderpost enqueue results march", "/import?batch=march"}, got.Results)
	requireSchema(t, e)
	awaitLooked(t, q, 0)
	stop()

	// What happens while no sender runs is told by the next one, and nothing twice.
	importFile(t, q, "april", 2)
	works(t, q, order.Accepted, order.Accepted)
	importFile(t, q, "may", 2)
	stop = run(t, newTestSender(t, q, e.URL, ofTypes("import.*")))
	_, all = awaitTold[Import](t, e, TypeImport, 2)
	require.Equal(t, "april", all[1].Import)
	works(t, q, order.Accepted, order.Accepted)
	_, all = awaitTold[Import](t, e, TypeImport, 3)
	require.Equal(t, "may", all[2].Import)
	awaitLooked(t, q, 0)
	again, _ := told[Import](t, e, TypeImport)
	require.Equal(t, ids[0], again[0])
	stop()
	last, _ := e.last()
	require.Empty(t, last["march-0"], "no other type was asked for")
}

// TestAnImportIsToldAgainWithTheSameID, if the sender died before it kept that it was told.
func TestAnImportIsToldAgainWithTheSameID(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e := newHookServer(t)
	stop := run(t, newTestSender(t, q, e.URL, ofTypes(TypeImport)))
	awaitLooked(t, q, 0)
	importFile(t, q, "march", 1)
	awaitLooked(t, q, 1)
	before := kept(t, q)
	works(t, q, order.Accepted)
	ids, _ := awaitTold[Import](t, e, TypeImport, 1)
	stop()
	before.Owner = ""
	require.NoError(t, q.Bucket().Put(t.Context(), senderKey, before))
	run(t, newTestSender(t, q, e.URL, ofTypes(TypeImport)))
	again, _ := awaitTold[Import](t, e, TypeImport, 2)
	require.Equal(t, ids[0], again[1])
}

// TestImportsThatEndOtherwise: one that a person cancels, one whose orders were all settled before, and
// one that enqueues what failed again, which is told a second time. A correction by a person is none.
func TestImportsThatEndOtherwise(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	queuetest.Trimming(t, q)
	e := newHookServer(t)
	run(t, newTestSender(t, q, e.URL, ofTypes(TypeImport), func(c *Config) { c.Imports = []string{"m*"} }))
	awaitLooked(t, q, 0)
	importFile(t, q, "march", 2)
	importFile(t, q, "other", 1)
	works(t, q, order.Unsure, order.Rejected, order.Rejected)
	ids, all := awaitTold[Import](t, e, TypeImport, 1)
	require.Equal(t, map[string]int{"unknown": 1, "rejected": 1}, all[0].Outcomes)

	_, err := q.Operator.Resolve(t.Context(), "march-0", "", order.OutcomeAccepted, settle.Person{Name: "ann"})
	require.NoError(t, err)
	importFile(t, q, "march", 2, func(o *importer.Options) { o.RetryFailed = true })
	works(t, q, order.Accepted)
	again, all := awaitTold[Import](t, e, TypeImport, 2)
	require.NotEqual(t, ids[0], again[1])
	require.Equal(t, map[string]int{"accepted": 1}, all[1].Outcomes)
	require.Equal(t, map[string]int{"retried": 1, "settled_accepted": 1}, all[1].Counts)

	importFile(t, q, "march", 2, func(o *importer.Options) { o.Batch = "may" })
	_, all = awaitTold[Import](t, e, TypeImport, 3)
	require.Equal(t, []any{"may", 2, 0, map[string]int{}}, []any{all[2].Import, all[2].Rows, all[2].Orders, all[2].Outcomes})
	require.Equal(t, map[string]int{"settled_accepted": 2}, all[2].Counts)

	importFile(t, q, "mine", 2)
	_, err = imports.CancelBatch(t.Context(), q, "mine", "ann") // no worker runs
	require.NoError(t, err)
	works(t, q, order.Accepted, order.Accepted)
	_, all = awaitTold[Import](t, e, TypeImport, 4)
	require.Equal(t, "mine", all[3].Import)
	require.False(t, all[3].CancelledAt.IsZero())
	requireSchema(t, e)
}

// TestAReceiverThatRefusesAnImport hears of it later, and of others meanwhile.
func TestAReceiverThatRefusesAnImport(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e := newHookServer(t)
	s := newTestSender(t, q, e.URL, ofTypes("*"))
	run(t, s)
	awaitLooked(t, q, 0)
	e.answers(func(g got) (int, http.Header) {
		if g.Type == TypeImport {
			return 400, nil
		}
		return 204, nil
	})
	importFile(t, q, "march", 1)
	works(t, q, order.Accepted)
	require.Eventually(t, func() bool { return s.Stats().Attempts["4xx"] >= 2 }, time.Minute, 5*time.Millisecond)
	e.await(t, map[string]string{"march-0": "accepted"})
	e.answers(nil)
	awaitTold[Import](t, e, TypeImport, 1)
}
