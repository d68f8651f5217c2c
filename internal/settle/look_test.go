package settle_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// inCluster is a store of a cluster of one server. It notes for which deliveries more
// time was asked.
type inCluster struct {
	settle.Store
	mu       sync.Mutex
	extended []string
}

func (*inCluster) Replicated() bool { return true }

func (s *inCluster) Extend(reply, answer string) error {
	s.mu.Lock()
	s.extended = append(s.extended, reply)
	s.mu.Unlock()
	return s.Store.Extend(reply, answer)
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

// replicas is a store whose first batched reads are answered by a replica
// without any record.
type replicas struct {
	settle.Store
	behind     int
	barrierErr error
	noBarrier  bool
	alone      bool // it says that it is the only one

	batches int
	singles atomic.Int64
	asked   [][]string
}

func (r *replicas) Replicated() bool { return !r.alone }

func (r *replicas) Barrier(ctx context.Context) (settle.Barrier, error) {
	if r.barrierErr != nil || r.noBarrier {
		return settle.Barrier{}, r.barrierErr
	}
	return r.Store.Barrier(ctx)
}

func (r *replicas) Records(ctx context.Context, tokens []string, found func(int, settle.Entry, error) error) error {
	r.batches++
	r.asked = append(r.asked, tokens)
	if r.batches > r.behind {
		return r.Store.Records(ctx, tokens, found)
	}
	for i := range tokens {
		if err := found(i, settle.Entry{}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (r *replicas) Record(ctx context.Context, token string) (settle.Entry, error) {
	r.singles.Add(1)
	return r.Store.Record(ctx, token)
}

// R2: a replica that lacks a confirmed result is not believed. The worker asks
// the replicas again, and then the leader.
func TestR2AReplicaThatIsBehindIsNotBelieved(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"))
	for _, d := range pull(t, q, 2) {
		settleAs(t, q, d, report(order.Accepted, d.History))
	}
	requireDrained(t, q)
	publish(t, q, intent("A-1", "i3"), intent("A-2", "i4"), intent("A-3", "i5"))
	ds := pull(t, q, 3)
	real := q.Store()
	check := func(r *replicas) (works []settle.Work) {
		r.Store = real
		q.Ledger.ExportSetStore(r)
		require.NoError(t, q.Worker.Check(t.Context(), ds))
		for _, d := range ds {
			works = append(works, d.Work)
		}
		return works
	}
	want := []settle.Work{settle.WorkRepeat, settle.WorkRepeat, settle.WorkSubmit}
	for name, c := range map[string]struct {
		*replicas
		batches, singles int
	}{
		"up to date":      {&replicas{}, 1, 0},
		"behind twice":    {&replicas{behind: 2}, 3, 0},
		"cut off":         {&replicas{behind: 100}, 4, 3},
		"no record":       {&replicas{noBarrier: true}, 0, 3},
		"a silent leader": {&replicas{barrierErr: errors.New("no answer")}, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.replicas
			require.Equal(t, want, check(r))
			require.Equal(t, c.batches, r.batches)
			require.EqualValues(t, c.singles, r.singles.Load())
			for _, tokens := range r.asked {
				require.Len(t, tokens, 3, "the last record is one of theirs: it is not asked for twice")
			}
		})
	}

	// The last record is about another order and unreadable. It is a barrier nevertheless.
	_, err := s.JetStream(t).Publish(t.Context(), "orders.results.A-4", []byte("not JSON"))
	require.NoError(t, err)
	r := &replicas{behind: 1}
	require.Equal(t, want, check(r))
	require.Equal(t, 2, r.batches)
	require.Zero(t, r.singles.Load())
	require.Equal(t, []string{"A-4"}, r.asked[0][3:])

	require.Equal(t, []settle.Work{settle.WorkSubmit, settle.WorkSubmit, settle.WorkSubmit}, check(&replicas{behind: 1, alone: true}),
		"without the barrier accepted orders are posted again")
}

// R2: with replicas, too, an unreadable record stops its order and is not
// overwritten.
func TestR2AnUnreadableRecordInABatchIsNotWrittenOver(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	r := &replicas{Store: q.Store()}
	q.Ledger.ExportSetStore(r)
	_, err := s.JetStream(t).Publish(t.Context(), "orders.results.A-1", []byte("not JSON"))
	require.NoError(t, err)
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"))
	ds := pull(t, q, 2)
	require.NoError(t, q.Worker.Check(t.Context(), ds))
	require.Positive(t, r.batches)
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
}
