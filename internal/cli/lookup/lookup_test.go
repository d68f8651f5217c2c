package lookup

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/status"
	"orderpost/internal/testing/queuetest"
)

// An order that waits is not one of which nothing is known.
func TestAnOrderThatWaitsIsFound(t *testing.T) {
	s := queuetest.Start(t)
	q := queuetest.Open(t, s, "w1")
	at := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	for i, no := range []string{"A-1", "A-1", "A-2"} {
		in := settle.Intent{OrderNo: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no), ID: fmt.Sprint("i", i), Batch: "march", Lane: order.BulkLane}
		if i == 1 {
			in.NotBefore = at
		}
		_, err := q.Producer.Publish(t.Context(), in)
		require.NoError(t, err)
	}

	var out bytes.Buffer
	require.NoError(t, Show(t.Context(), q, "A-1", false, &out))
	require.Contains(t, out.String(), "waiting room   an intent waits for its turn (batch march)\n")
	require.Contains(t, out.String(), "waiting room   an intent waits for its time, "+at.Format(time.RFC3339)+" (batch march)\n")
	require.Contains(t, out.String(), "Nothing: it waits")
	require.ErrorContains(t, Show(t.Context(), q, "A-3", false, &out), "nothing is known about order_no A-3")

	require.NoError(t, imports.PauseImport(t.Context(), q, "march", "anna"))
	out.Reset()
	require.NoError(t, Show(t.Context(), q, "A-1", false, &out))
	require.Contains(t, out.String(), "its turn (batch march), held by anna\n")
	require.Contains(t, out.String(), "orderpost enqueue continue march")
	require.NotContains(t, out.String(), "Nothing: it waits")

	mostWaiting = 2 // too many wait: whether this one does is not known, which is not the same as no
	t.Cleanup(func() { mostWaiting = 200_000 })
	out.Reset()
	require.ErrorContains(t, Show(t.Context(), q, "A-1", false, &out), "whether it waits is not known: 3 intents wait, too many to look through")
	require.Contains(t, out.String(), "Look again when fewer orders wait")
	require.NotContains(t, out.String(), "nothing is known")
}

// What was cancelled and enqueued again waits, whatever its record advises.
func TestACancelledOrderThatWaitsAgain(t *testing.T) {
	var cancelled order.Record
	cancelled.SetOutcome(order.OutcomeCancelled)
	f := Finding{OrderNo: "A-1", Result: &cancelled, Waiting: []Waiting{{IntentID: "i2"}}}
	require.Equal(t, "Nothing: it waits, and a worker moves it into the queue.", f.steps()[0].Text)
	f.Waiting = nil
	require.Contains(t, f.steps()[0].Text, "Enqueue it again")
	found := status.Found{Entry: settle.Entry{Record: &cancelled}, Waiting: 3}
	steps := found.Advice("A-1")
	require.Equal(t, "orderpost order A-1", steps[len(steps)-1].Command)
	require.Contains(t, steps[len(steps)-1].Text, "the waiting room holds 3")
}
