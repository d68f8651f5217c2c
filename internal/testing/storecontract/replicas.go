package storecontract

import (
	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// barrierIsExact (R2): a replica may answer a batched read from its past, while single
// reads are answered by the leader. An answer that contains the barrier, which the leader
// gives, has everything that was confirmed before.
func barrierIsExact(t require.TestingT, b *Broker) {
	require.True(t, b.Store.Replicated())
	ctx, cancel := within()
	defer cancel()
	// batched reads in one request. It returns the sequences, nil if no replica answered.
	batched := func(tokens ...string) (seqs []uint64) {
		err := b.Store.Records(ctx, tokens, func(_ int, e settle.Entry, err error) error {
			seqs = append(seqs, e.Seq)
			return err
		})
		if err != nil {
			return nil
		}
		return seqs
	}
	first := put(t, b, record("R-1", "w1"), 0)
	require.True(t, b.Soon(func() bool { s := batched("R-1"); return len(s) == 1 && s[0] == first }))
	b.Lag()
	second := put(t, b, record("R-1", "w2"), first)
	third := put(t, b, record("R-2", "w3"), 0)
	last := put(t, b, record("R-1", "w4"), second)
	require.Equal(t, last, read(t, b, "R-1").Seq, "a single read is exact")
	require.Equal(t, third, read(t, b, "R-2").Seq)
	barrier, err := b.Store.Barrier(ctx)
	require.NoError(t, err)
	require.Equal(t, settle.Barrier{Token: "R-1", Seq: last}, barrier)
	stale := false
	for range 64 { // any replica may answer, even the leader
		s := batched("R-2", barrier.Token)
		if len(s) == 2 && s[1] >= barrier.Seq {
			require.Equal(t, third, s[0], "an answer with the barrier lacks what was confirmed before")
		}
		stale = stale || len(s) == 2 && s[1] < barrier.Seq
	}
	require.True(t, stale, "no replica that lags answered: the test did not try what it should")
	b.CatchUp()
	require.True(t, b.Soon(func() bool { s := batched("R-2", barrier.Token); return len(s) == 2 && s[1] >= barrier.Seq }))
}
