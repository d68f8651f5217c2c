package chaos

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
	"orderpost/internal/settle"
	"orderpost/internal/sign"
	"orderpost/internal/testing/queuetest"
)

// ledgers is a quiet installation in which each of three orders was withdrawn
// by a person, and so certainly not created: real streams, a real sandbox, and
// books that balance until a test plants a fault in them.
func ledgers(t *testing.T) (*queue.Queue, *sandbox.Server, *intents, func(orderNo string)) {
	t.Helper()
	q := queuetest.Open(t, queuetest.Start(t), "test")
	in := newIntents()
	for _, no := range []string{"A-1", "A-2", "A-3"} {
		_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: no, ID: no, Body: []byte(`{"order_no":"` + no + `","timeout":60}`)})
		require.NoError(t, err)
		in.confirm(order.OutcomeNone, no)
		withdraw(t, q, no)
	}
	api, err := sandbox.New(sandbox.Config{Keys: map[string]string{apiKey: apiSecret}, Logger: zerolog.Nop(),
		Settings: sandbox.Settings{Duplicates: sandbox.CreateTwice}})
	require.NoError(t, err)
	url, err := api.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.Close() })
	at := time.Now()
	return q, api, in, func(no string) {
		at = at.Add(time.Millisecond) // the same order at the same time would have the same signature
		post(t, url, no, at)
	}
}

// post creates an order behind orderpost's back.
func post(t *testing.T, url, no string, at time.Time) {
	t.Helper()
	o, err := order.Parse([]byte(`{"order_no":"` + no + `","timeout":60}`))
	require.NoError(t, err)
	signer, err := sign.New(apiSecret)
	require.NoError(t, err)
	stamped, signature, err := signer.Sign(nil, o, at.UnixMilli())
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/order/create", bytes.NewReader(stamped))
	require.NoError(t, err)
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {apiKey}, "X-Signature": {signature}}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, string(body))
}

// troubled is a run during all of which one fault stands.
func troubled() *summary {
	s := &summary{}
	s.begin("kill-worker", 5)
	return s
}

func TestBooksThatBalance(t *testing.T) {
	q, api, in, _ := ledgers(t)
	s := troubled()
	require.NoError(t, s.compare(t.Context(), q, &rig{api: api, intents: in}))
	require.Zero(t, s.Lost+s.Doubled+s.Unexplained)
	require.True(t, s.Balanced, s.Problems)
	require.Equal(t, 3, s.Confirmed)
	require.Equal(t, map[string]int{"cancelled": 3}, s.Outcomes)
	require.Equal(t, []*faultTally{{Fault: "kill-worker", Injected: 1, InFlight: 5}}, s.Faults)
	require.ErrorContains(t, s.verdict(), "shows nothing", "a run without a single created order proves nothing")
}

// TestPlantedFaultsAreFound: a check that cannot fail is worth nothing.
func TestPlantedFaultsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		plant                      func(q *queue.Queue, in *intents, create func(string))
		lost, doubled, unexplained int
		problem                    string
	}{
		"a lost intent": {func(_ *queue.Queue, in *intents, _ func(string)) { in.confirm(order.OutcomeNone, "A-4") },
			1, 0, 0, "A-4: confirmed at"},
		"an order that exists although it was withdrawn": {func(_ *queue.Queue, _ *intents, create func(string)) { create("A-1") },
			0, 0, 0, "A-1: created, but recorded as cancelled"},
		"a doubled order": {func(_ *queue.Queue, _ *intents, create func(string)) { create("A-2"); create("A-2") },
			0, 1, 0, "A-2: created 2 times"},
		"an order that nobody asked for": {func(_ *queue.Queue, _ *intents, create func(string)) { create("B-1") },
			0, 0, 1, "B-1: created, but nobody published it"},
		"the wrong outcome": {func(_ *queue.Queue, in *intents, _ func(string)) {
			delete(in.confirmed, "A-3")
			in.confirm(order.OutcomeInvalid, "A-3")
		}, 0, 0, 1, "A-3: ended as cancelled instead of invalid"},
		"an outcome of nobody's": {func(_ *queue.Queue, in *intents, _ func(string)) { delete(in.confirmed, "A-3") },
			0, 0, 1, `"A-3": has the outcome cancelled`},
		"a correction without an outcome": {func(_ *queue.Queue, in *intents, _ func(string)) { in.corrected("A-1") },
			1, 0, 0, "A-1: 2 submissions were confirmed, and 1 have an outcome (cancelled, intent A-1)"},
		"an intent that nobody settles": {func(q *queue.Queue, in *intents, _ func(string)) {
			_, err := q.Producer.Publish(context.Background(), settle.Intent{OrderNo: "A-5", ID: "A-5", Body: []byte(`{"order_no":"A-5","timeout":60}`)})
			require.NoError(t, err)
			in.confirm(order.OutcomeNone, "A-5")
		}, 1, 0, 0, "A-5: confirmed at"},
	} {
		t.Run(name, func(t *testing.T) {
			q, api, in, create := ledgers(t)
			s := troubled()
			c.plant(q, in, create)
			require.NoError(t, s.compare(t.Context(), q, &rig{api: api, intents: in}))
			require.Equal(t, [3]int{c.lost, c.doubled, c.unexplained}, [3]int{s.Lost, s.Doubled, s.Unexplained}, s.Problems)
			require.False(t, s.Balanced)
			require.Error(t, s.verdict())
			require.Contains(t, strings.Join(s.Problems, "\n"), c.problem)
			require.Equal(t, [2]int{c.lost, c.doubled}, [2]int{s.Faults[0].Lost, s.Faults[0].Doubled}, "the fault that stood is named")
		})
	}
}

// withdraw cancels an order, and is the worker that settles it.
func withdraw(t *testing.T, q *queue.Queue, no string) {
	t.Helper()
	_, err := imports.CancelOrder(t.Context(), q, no, "test")
	require.NoError(t, err)
	view, err := fleet.New(q).Read(t.Context())
	require.NoError(t, err)
	q.Ledger.SetCancellations(view.Cancelled)
	d := queuetest.Pull(t, q, 1)[0]
	require.Equal(t, settle.WorkCancelled, d.Work)
	queuetest.Settle(t, q, d, order.Report{End: order.EndCancelled, Reason: "withdrawn by a person", History: d.History})
}
