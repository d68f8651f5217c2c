package door

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// TestWhatIsInvalidIsNamed: where, what and what to do, before anything is sent.
func TestWhatIsInvalidIsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := body("A", "1")
	for name, c := range map[string]struct {
		o           Order
		where, code string
	}{
		"no JSON":        {Order{Body: []byte("{")}, "", "invalid_json"},
		"no order_no":    {Order{Body: []byte(`{"timeout":30}`)}, "order_no", "missing_field"},
		"timeout a text": {Order{Body: []byte(`{"order_no":"A","timeout":"30"}`)}, "timeout", "wrong_type"},
		"too large":      {Order{Body: fmt.Appendf(nil, `{"order_no":"A","timeout":30,"x":%q}`, strings.Repeat("x", order.MaxBody))}, "", "too_large"},
		"deep":           {Order{Body: []byte(`{"order_no":"A","timeout":30,"items":[{"price":9007199254740993}]}`)}, "items[0].price", "number_not_exact"},
		"line in the id": {Order{Body: good, ID: "a\r\nNats-TTL: 1s"}, "id", "bad_id"},
		"blank":          {Order{Body: good, Source: "shop "}, "source", "bad_source"},
		"long":           {Order{Body: good, Batch: strings.Repeat("b", 1025)}, "batch", "bad_batch"},
		"lane":           {Order{Body: good, Lane: "at"}, "lane", "bad_lane"},
		"far":            {Order{Body: good, NotBefore: time.Now().Add(400 * 24 * time.Hour)}, "not_before", "bad_not_before"},
		"late":           {Order{Body: good, Deadline: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)}, "deadline", "bad_deadline"},
	} {
		_, err := r.Submit(t.Context(), c.o)
		var bad *InvalidError
		require.ErrorAs(t, err, &bad, name)
		require.Equal(t, [2]string{c.where, c.code}, [2]string{bad.Where, bad.Code}, name)
		require.NotEmpty(t, bad.Seen, name)
	}
	counts, err := r.worker.Census.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, counts.LastIntent)
}

// TestWhoSubmitsBehindTheEndIsToldSo, and does not take it for an outage, which would end.
func TestWhoSubmitsBehindTheEndIsToldSo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Close()
	for name, o := range map[string]Order{"with an ID": one("A", "a"), "without": {Body: body("B", "1")}} {
		_, err := r.Submit(t.Context(), o)
		require.ErrorIs(t, err, ErrClosed, name)
		require.NotErrorIs(t, err, ErrUnavailable, name)
		require.EqualError(t, err, "closed, nothing was stored", name)
	}
}

// TestOneRepetitionDoesNotRefuseTheOthers: callers share batches, in which repetitions,
// other submissions and two of one order stand beside new orders.
func TestOneRepetitionDoesNotRefuseTheOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 40 {
		r.submit(one(fmt.Sprintf("old-%d", i), fmt.Sprintf("old-%d", i)), Stored)
	}
	var orders []Order
	for i := range 40 {
		orders = append(orders, Order{Body: body(fmt.Sprintf("new-%d", i), "1")}, // without an id: nothing is looked up before
			Order{Body: body(fmt.Sprintf("new-%d", i), "1")},
			one(fmt.Sprintf("old-%d", i), fmt.Sprintf("old-%d", i)),
			one(fmt.Sprintf("old-%d", i), "another"))
	}
	i := 0
	for got, err := range r.SubmitAll(t.Context(), slices.Values(orders)) {
		switch i % 4 {
		case 0:
			require.NoError(t, err)
			require.Equal(t, Stored, got.Status)
			require.NotEmpty(t, got.ID)
		case 2:
			require.NoError(t, err)
			require.Equal(t, Receipt{OrderNo: fmt.Sprintf("old-%d", i/4), ID: got.OrderNo, Status: Same}, got)
		default:
			require.ErrorIs(t, err, ErrPending, "order %d", i)
		}
		i++
	}
	require.Equal(t, len(orders), i)
	counts, err := r.worker.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 80, counts.LastIntent)
}

// TestALoopThatIsLeftAsksForNoMore of endless orders, and a sequence that blocks does not
// keep the receipts that are there.
func TestALoopThatIsLeftAsksForNoMore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	asked, ended := 0, make(chan struct{})
	endless := func(yield func(Order) bool) {
		defer close(ended)
		for asked = 0; yield(one(fmt.Sprint(asked), "")); asked++ {
		}
	}
	for got, err := range r.SubmitAll(t.Context(), endless) {
		require.NoError(t, err)
		require.Equal(t, "0", got.OrderNo)
		break
	}
	<-ended
	require.LessOrEqual(t, asked, mostAhead+2)

	answered := make(chan struct{})
	slow := func(yield func(Order) bool) {
		if yield(one("first", "")) {
			<-answered // as from somebody who waits for the answer before the next line
			yield(one("second", ""))
		}
	}
	var got []string
	for receipt, err := range r.SubmitAll(t.Context(), slow) {
		require.NoError(t, err)
		if got = append(got, receipt.OrderNo); len(got) == 1 {
			close(answered)
		}
	}
	require.Equal(t, []string{"first", "second"}, got)
}

// TestABrokerThatIsAway: at once if the queue does not wait, and stored after all if it
// does. Nothing was stored in between.
func TestABrokerThatIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	patient := New(connect(t, r.broker, func(c *queue.Config) { c.BrokerWait = time.Minute }), nil)
	t.Cleanup(patient.Close)
	r.broker.Stop()
	require.Eventually(t, func() bool { return !r.q.Conn.Connected() }, time.Minute, time.Millisecond)
	for _, id := range []string{"", "s1"} {
		_, err := r.Submit(t.Context(), one("A", id))
		require.ErrorIs(t, err, ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := patient.Submit(ctx, one("A", "s1"))
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = r.Outcome(t.Context(), "A", "s1")
	require.ErrorIs(t, err, ErrUnavailable)
}
