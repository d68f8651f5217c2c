package settle_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// R4: a newer letter replaces an older one. If the worker is killed in between,
// the old letter still has its own body.
func TestR4AReplacedLetterNeverMixesBodies(t *testing.T) {
	s := startBroker(t, func(c *embedded.Config) { c.MaxPayload = 1 << 20 })
	q := openQueue(t, s, "a")
	big := func(id string, fill byte) *settle.Letter {
		return &settle.Letter{OrderNo: "A-1", Outcome: order.OutcomeRejected, IntentID: id, Subject: "orders.new.A-1",
			FiledAt: time.Now().UTC(), Body: bytes.Repeat([]byte{fill}, 1<<20-1000)}
	}
	first, second := big("i1", 'a'), big("i2", 'b')
	publish(t, q, intent("A-1", "i2"))
	d := pull(t, q, 1)[0]
	require.NoError(t, q.ExportFileLetter(t.Context(), d, first))
	require.ErrorIs(t, q.ExportStore().PutLetter(t.Context(), "A-1", second, &settle.Letter{Seq: 99}), settle.ErrStale) // its tail is there, its head is not
	require.Equal(t, first.Body, letterOf(t, q, "A-1").Body)

	require.NoError(t, q.ExportFileLetter(t.Context(), d, second))
	got := letterOf(t, q, "A-1")
	require.Equal(t, second.Body, got.Body)
	require.Equal(t, "i1", got.Earlier[0].IntentID)
	info, err := jetStream(t, s).Stream(t.Context(), "ORDERS_DEAD")
	require.NoError(t, err)
	require.EqualValues(t, 2, info.CachedInfo().State.Msgs, "one letter in two parts")
}

// R4, R7: a worker whose claim has ended files no letter. The order may have
// been accepted meanwhile, and nobody would remove the letter.
func TestR4NoLetterIsFiledOnceTheClaimIsOver(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	stored := settleAs(t, q, d, report(order.Rejected, d.History))
	require.Equal(t, order.OutcomeRejected, stored.Record.Outcome())
	requireDrained(t, q)
	require.NoError(t, q.ExportStore().DeleteLetter(t.Context(), "A-1", letterOf(t, q, "A-1")))
	d.Lease().ExportEndNow()
	require.NoError(t, q.ExportComplete(t.Context(), d, stored, nil), "left to the next owner")
	c, err := q.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.Letters)
}
