package settle_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// inCluster is a store of a cluster of one server. It notes what was asked for in a batch.
type inCluster struct {
	settle.Store
	asked [][]string
}

func (*inCluster) Replicated() bool { return true }

func (s *inCluster) Records(ctx context.Context, tokens []string, found func(int, settle.Entry, error) error) error {
	s.asked = append(s.asked, tokens)
	return s.Store.Records(ctx, tokens, found)
}

func asCluster(q *queue.Queue) *inCluster {
	s := &inCluster{Store: q.Store()}
	q.Ledger.ExportSetStore(s)
	return s
}

// A worker that was frozen, or whose consumer has another leader, does not know that an order
// was given to another one. It sees so by the record, and posts nothing.
func TestR7AnAttemptLooksAgain(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"), intent("A-2", "i2"))
	ds := pull(t, a, 2)
	first, other := ds[0], ds[1]
	settleAs(t, b, again(t, first, b), report(order.Accepted, first.History))

	first.ExportLookedJustNow()
	require.NoError(t, a.Worker.Fence(t.Context(), first), "it has just looked")
	first.ExportLookedLongAgo()
	require.ErrorIs(t, a.Worker.Fence(t.Context(), first), order.ErrLeaseLost)
	require.False(t, first.Lease().Valid())

	other.ExportLookedLongAgo()
	require.NoError(t, a.Worker.Fence(t.Context(), other), "nobody wrote its record")
	err := a.Worker.NoteAttempt(t.Context(), other, other.History)
	require.NoError(t, err)
	other.ExportLookedLongAgo()
	require.NoError(t, a.Worker.Fence(t.Context(), other), "it wrote its record itself")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other.ExportLookedLongAgo()
	a.Ledger.ExportSetStore(silent{a.Store()})
	err = a.Worker.Fence(ctx, other)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, order.ErrLeaseLost, "the worker is stopping, and the claim holds")
}

// silent is a store whose leader of the results does not answer.
type silent struct{ settle.Store }

func (silent) Record(ctx context.Context, _ string) (settle.Entry, error) {
	return settle.Entry{}, ctx.Err()
}

// A delivery that waits for another one's attempt is given back in a cluster, too. The note
// that it leaves names a delivery as late as itself: its own.
func TestR7ADeliveryThatWaitsIsGivenBack(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	owner := pull(t, a, 1)[0]
	attempting(t, a, owner)

	waiting := again(t, owner, b)
	require.Equal(t, settle.WorkClaimed, waiting.Work)
	asCluster(b)
	require.NoError(t, b.Worker.HandBack(t.Context(), waiting, 0))
	require.Equal(t, waiting.Delivered+1, pull(t, b, 1)[0].Delivered)
}

// A leader of the consumer that has changed may give an intent to two workers as a first
// delivery. With replicas the note says which of them posts it under park; one server
// gives it to one worker, and the mark is enough.
func TestR2WithReplicasTheNoteSaysWhoPosts(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	begun, err := b.Worker.BeginPull(t.Context()) // it has read the marks
	require.NoError(t, err)
	publish(t, a, intent("A-1", "i1"))
	first := pull(t, a, 1)[0]
	m, err := b.Store().Intent(t.Context(), "A-1")
	require.NoError(t, err)
	asCluster(a)
	asCluster(b)
	second := b.Worker.Arrived(t.Context(), begun, []settle.Arrival{{Message: m, Reply: "another", Delivered: 1}})[0]
	require.False(t, second.Redelivered())
	proven, err := a.Worker.BeginAttempt(t.Context(), first, first.History)
	require.NoError(t, err)
	require.True(t, proven)
	_, err = b.Worker.BeginAttempt(t.Context(), second, second.History)
	require.ErrorIs(t, err, order.ErrLeaseLost)
}

// A former owner that gives an order back finds the note of a later delivery. It sends no
// NAK, which would end that one's claim.
func TestR7AFormerOwnerWhoseNoteGivesWayGivesNothingBack(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	first := pull(t, a, 1)[0]
	second := again(t, first, b)
	require.NoError(t, b.Worker.NoteBegun(t.Context(), second))
	r := order.Report{End: order.EndHandBack, History: first.History}
	_, err := a.Worker.Settle(t.Context(), first, &r, order.Decide(&r, order.Facts{}))
	require.NoError(t, err)
	var got []*settle.Delivery
	require.NoError(t, b.Pull(t.Context(), 1, 300*time.Millisecond, func(ds []*settle.Delivery) { got = append(got, ds...) }))
	require.Empty(t, got, "the order was taken from its owner")
}

// R2: with replicas, too, an unreadable record stops its order and is not
// overwritten.
func TestR2AnUnreadableRecordInABatchIsNotWrittenOver(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	store := asCluster(q)
	_, err := s.JetStream(t).Publish(t.Context(), "orders.results.A-1", []byte("not JSON"))
	require.NoError(t, err)
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"))
	ds := pull(t, q, 2)
	require.NoError(t, q.Worker.Check(t.Context(), ds))
	for _, d := range ds {
		require.Zero(t, d.Last)
		if d.OrderNo() == "A-1" {
			require.Equal(t, settle.WorkNone, d.Work)
			require.ErrorIs(t, q.Worker.GiveUp(t.Context(), d), settle.ErrUnreadable)
		}
	}
	standings, err := q.Ledger.LastWords(t.Context(), []string{"A-1", "A-2"})
	require.NoError(t, err)
	require.ErrorIs(t, standings[0].Unreadable, settle.ErrUnreadable)
	require.Zero(t, standings[0].Entry)
	require.NotEmpty(t, store.asked)
	for _, tokens := range store.asked {
		require.Len(t, tokens, 2, "the barrier is the record of one of them: it is not asked for twice")
	}
}
