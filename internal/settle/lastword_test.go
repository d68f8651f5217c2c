package settle_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

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
