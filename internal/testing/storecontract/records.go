package storecontract

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

var aTime = time.Date(2026, 11, 24, 8, 0, 0, 123456789, time.UTC)

// record is a record with a value of each kind.
func record(no, writeID string) *order.Record {
	r := &order.Record{OrderNo: no, Reason: "refused by status 422", Status: 422, Response: "\x00é", IntentID: "i1", WriteID: writeID,
		Position: order.Position{EnqueuedAt: aTime, Seq: 9, Birth: 7}, SettledAt: aTime.Add(time.Second), Moved: []string{"i0"}, Settled: 2, Delivered: 3}
	r.History = order.History{Attempts: 2, LastAttemptAt: aTime}
	r.SetOutcome(order.OutcomeRejected)
	return r
}

func put(t require.TestingT, b *Broker, r *order.Record, expect uint64) uint64 {
	ctx, cancel := within()
	defer cancel()
	seq, err := b.Store.PutRecord(ctx, r.OrderNo, r, expect)
	require.NoError(t, err)
	return seq
}

func read(t require.TestingT, b *Broker, no string) settle.Entry {
	ctx, cancel := within()
	defer cancel()
	e, err := b.Store.Record(ctx, no)
	require.NoError(t, err)
	return e
}

func recordIsReadAsLastWritten(t require.TestingT, b *Broker) {
	require.Equal(t, settle.Entry{}, read(t, b, "R-1"), "absent")
	written := record("R-1", "w1")
	seq := put(t, b, written, 0)
	written.Word = order.Retrying // the writer's own copy
	e := read(t, b, "R-1")
	require.Equal(t, seq, e.Seq)
	require.Equal(t, record("R-1", "w1"), e.Record)
	e.Record.Word = order.Retrying // the reader's own copy
	require.Equal(t, record("R-1", "w1"), read(t, b, "R-1").Record)
	require.Equal(t, settle.Entry{}, read(t, b, "R-2"), "another one")
	for i := range 3 {
		seq = put(t, b, record("R-1", fmt.Sprint("again", i)), seq)
		require.Equal(t, seq, read(t, b, "R-1").Seq, "a single read is never stale")
	}
}

func recordIsConditional(t require.TestingT, b *Broker) {
	first := put(t, b, record("R-1", "w1"), 0)
	other := put(t, b, record("R-2", "w2"), 0)
	require.Greater(t, other, first, "sequences rise, whatever the token")
	second := put(t, b, record("R-1", "w3"), first)
	require.Greater(t, second, other)
	for _, stale := range []struct {
		token  string
		expect uint64
	}{{"R-1", 0}, {"R-1", first}, {"R-1", other}, {"R-1", second + 1}, {"R-2", first}, {"R-2", second}, {"R-3", first}, {"R-3", second}} {
		_, err := b.Store.PutRecord(context.Background(), stale.token, record(stale.token, "late"), stale.expect)
		require.ErrorIs(t, err, settle.ErrStale, "%+v", stale)
	}
	require.Equal(t, "w3", read(t, b, "R-1").Record.WriteID)
	require.Equal(t, second, read(t, b, "R-1").Seq)
	require.Equal(t, other, read(t, b, "R-2").Seq)
	require.Nil(t, read(t, b, "R-3").Record)
}

func batchAnswersForEach(t require.TestingT, b *Broker) {
	const n = settle.ReadBatch + 1 // with the barrier
	tokens, seqs := make([]string, n), make([]uint64, n)
	for i := range n {
		tokens[i] = fmt.Sprint("R-", i)
		if i%16 == 0 {
			seqs[i] = put(t, b, record(tokens[i], "w1"), 0)
		}
	}
	seqs[16] = put(t, b, record("R-16", "w2"), seqs[16])
	ctx, cancel := within()
	defer cancel()
	require.True(t, b.Soon(func() bool { // a replica may lag
		next, same := 0, true
		require.NoError(t, b.Store.Records(ctx, tokens, func(i int, e settle.Entry, err error) error {
			require.NoError(t, err)
			require.Equal(t, next, i, "the answers come in the order of the tokens")
			next++
			require.Equal(t, e.Record == nil, e.Seq == 0)
			require.False(t, e.Record != nil && e.Record.OrderNo != tokens[i], "the record of another token")
			same = same && e.Seq == seqs[i]
			return nil
		}))
		require.Equal(t, n, next)
		return same
	}))
	enough := errors.New("enough")
	calls := 0
	require.ErrorIs(t, b.Store.Records(ctx, tokens, func(int, settle.Entry, error) error { calls++; return enough }), enough)
	require.Equal(t, 1, calls, "found's own error ends it")
}

func markIsConditional(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	holds := func(key string, want settle.HighWaterMark, wantSeq uint64) {
		m, seq, err := b.Store.HighWaterMark(ctx, key)
		require.NoError(t, err)
		require.Equal(t, want, m)
		require.Equal(t, wantSeq, seq)
	}
	holds("seen.1", settle.HighWaterMark{}, 0)
	one, two := settle.HighWaterMark{Stream: 7, Seq: 1}, settle.HighWaterMark{Stream: 7, Seq: 2}
	first, err := b.Store.PutHighWaterMark(ctx, "seen.1", one, 0)
	require.NoError(t, err)
	holds("seen.1", one, first)
	holds("seen.2", settle.HighWaterMark{}, 0)
	second, err := b.Store.PutHighWaterMark(ctx, "seen.1", two, first)
	require.NoError(t, err)
	require.Greater(t, second, first)
	for _, expect := range []uint64{0, first, second + 1} {
		_, err := b.Store.PutHighWaterMark(ctx, "seen.1", one, expect)
		require.ErrorIs(t, err, settle.ErrStale)
	}
	_, err = b.Store.PutHighWaterMark(ctx, "seen.2", one, second)
	require.ErrorIs(t, err, settle.ErrStale, "the sequence of another key")
	holds("seen.1", two, second)
	holds("seen.2", settle.HighWaterMark{}, 0)
}
