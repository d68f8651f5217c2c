package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// TestStandings reads many orders at once: settled, pending, both and neither,
// more than one request takes, and strange order numbers.
func TestStandings(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	var in []settle.Intent
	var numbers []string
	for i := range lookupSize + 50 {
		no := fmt.Sprintf("Ä %d/*>.%%", i)
		numbers = append(numbers, no)
		in = append(in, settle.Intent{OrderNo: no, Body: body(no), ID: fmt.Sprintf("b:%d", i), Batch: "b"})
	}
	publish(t, q, in[:lookupSize+20]...)
	for _, d := range pull(t, q, 10) {
		settleAs(t, q, d, report(order.Accepted, d.History))
	}
	require.NoError(t, q.nc.Flush())
	require.Eventually(t, func() bool {
		p, err := q.IsPending(t.Context(), numbers[9])
		return err == nil && !p
	}, waitForBroker, tickOfBroker)
	msg := nats.NewMsg(q.n.resPre + order.Token(numbers[lookupSize+49]))
	msg.Data = []byte(`{"outcome":"from the future"}`)
	_, err := q.js.PublishMsg(t.Context(), msg)
	require.NoError(t, err)

	for _, replicas := range []int{1, 3} { // with replicas intents are read at the leader, results behind a barrier
		q.replicas = replicas
		got, err := q.Standings(t.Context(), numbers)
		require.NoError(t, err)
		for i, st := range got {
			switch {
			case i < 10:
				require.Equal(t, order.OutcomeAccepted, st.Record.Outcome(), numbers[i])
				require.Nil(t, st.Pending)
				require.NotZero(t, st.Seq)
			case i < lookupSize+20:
				require.Nil(t, st.Record)
				require.Equal(t, in[i].ID, st.Pending.ID)
				parsed, err := order.Parse(in[i].Body)
				require.NoError(t, err)
				require.Equal(t, parsed.BodyHash(), st.Pending.BodyHash)
			case i == lookupSize+49:
				require.ErrorIs(t, st.Unreadable, settle.ErrUnreadable)
			default:
				require.Nil(t, st.Record)
				require.Nil(t, st.Pending)
			}
		}
	}
}

// TestImportIsWrittenByOne: a writer that did not see the last word is told.
func TestImportIsWrittenByOne(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	none, err := q.Import(t.Context(), "märz 1")
	require.NoError(t, err)
	require.Nil(t, none)
	first := &Import{Batch: "märz 1", Rows: 10}
	require.NoError(t, q.SaveImport(t.Context(), first))
	require.ErrorIs(t, q.SaveImport(t.Context(), &Import{Batch: "märz 1"}), ErrImportChanged)
	other, err := q.Import(t.Context(), "märz 1")
	require.NoError(t, err)
	other.Done = 5
	require.NoError(t, q.SaveImport(t.Context(), other))
	require.ErrorIs(t, q.SaveImport(t.Context(), first), ErrImportChanged)
	all, err := q.Imports(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, 5, all[0].Done)
	require.False(t, all[0].Complete())
}

// How long a test waits for the broker, and how often it looks.
const (
	waitForBroker = 5 * time.Second
	tickOfBroker  = 5 * time.Millisecond
)
