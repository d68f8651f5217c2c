package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// TestOrderStatuses reads many orders at once: settled, pending, both and neither,
// more than one request takes, and strange order numbers.
func TestOrderStatuses(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	var in []settle.Intent
	var numbers []string
	for i := range pageful + 50 {
		no := fmt.Sprintf("Ä %d/*>.%%", i)
		numbers = append(numbers, no)
		in = append(in, settle.Intent{OrderNo: no, Body: body(no), ID: fmt.Sprintf("b:%d", i), Batch: "b"})
	}
	publish(t, q, in[:pageful+20]...)
	for _, d := range pull(t, q, 10) {
		settleAs(t, q, d, report(order.Accepted, d.History))
	}
	require.Eventually(t, func() bool {
		p, err := q.Ledger.IsPending(t.Context(), numbers[9])
		return err == nil && !p
	}, waitForBroker, tickOfBroker)
	_, err := s.JetStream(t).Publish(t.Context(), "orders.results."+order.Token(numbers[pageful+49]), []byte(`{"outcome":"from the future"}`))
	require.NoError(t, err)

	got, err := OrderStatuses(t.Context(), q, numbers)
	require.NoError(t, err)
	for i, st := range got {
		switch {
		case i < 10:
			require.Equal(t, order.OutcomeAccepted, st.Record.Outcome(), numbers[i])
			require.Nil(t, st.Pending)
			require.NotZero(t, st.Seq)
		case i < pageful+20:
			require.Nil(t, st.Record)
			require.Equal(t, in[i].ID, st.Pending.ID)
			parsed, err := order.Parse(in[i].Body)
			require.NoError(t, err)
			require.Equal(t, parsed.BodyHash(), st.Pending.BodyHash)
		case i == pageful+49:
			require.ErrorIs(t, st.Unreadable, settle.ErrUnreadable)
		default:
			require.Nil(t, st.Record)
			require.Nil(t, st.Pending)
		}
	}
}

// TestOrderStatusesOfNotes: a note whose intent is stored is under way. One whose intent is
// gone is lost.
func TestOrderStatusesOfNotes(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	publish(t, q, settle.Intent{OrderNo: "A", Body: body("A"), ID: "a"})
	for _, d := range pull(t, q, 1) {
		require.NoError(t, q.Worker.NoteAttempt(t.Context(), d, d.History))
	}
	lost := func() bool {
		got, err := OrderStatuses(t.Context(), q, []string{"nobody", "A"})
		require.NoError(t, err)
		require.False(t, got[0].Lost)
		require.True(t, got[1].Record.Open())
		return got[1].Lost
	}
	require.False(t, lost())
	stream, err := s.JetStream(t).Stream(t.Context(), "ORDERS")
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context()))
	require.True(t, lost())
}

// How long a test waits for the broker, and how often it looks.
const (
	waitForBroker = 5 * time.Second
	tickOfBroker  = 5 * time.Millisecond
)

// pageful is how many orders one request asks for.
const pageful = 256
