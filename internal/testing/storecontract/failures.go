package storecontract

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

func fullRefuses(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	seq := put(t, b, record("R-1", "w1"), 0)
	l := file(t, b, letter(b, "L-1", "i1"))
	mark, err := b.Store.PutHighWaterMark(ctx, "seen.1", settle.HighWaterMark{Stream: 7, Seq: 1}, 0)
	require.NoError(t, err)
	b.Fill()
	for _, expect := range []struct {
		no  string
		seq uint64
	}{{"R-1", seq}, {"R-2", 0}} {
		_, err = b.Store.PutRecord(ctx, expect.no, record(expect.no, "w2"), expect.seq)
		require.ErrorIs(t, err, settle.ErrStorage)
	}
	_, err = b.Store.PutLetter(ctx, "L-1", letter(b, "L-1", "i2"))
	require.ErrorIs(t, err, settle.ErrStorage)
	_, err = b.Store.PutHighWaterMark(ctx, "seen.1", settle.HighWaterMark{Stream: 7, Seq: 2}, mark)
	require.ErrorIs(t, err, settle.ErrStorage)
	require.Equal(t, seq, read(t, b, "R-1").Seq, "what is stored can be read")
	require.Equal(t, l, letterAt(t, b, "L-1", l.Seq))
	require.Nil(t, read(t, b, "R-2").Record)
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", l.Seq), "and removed")
	b.MakeRoom()
	put(t, b, record("R-1", "w3"), seq)
	file(t, b, letter(b, "L-1", "i3"))
}

// cutIsUnconfirmed: a request without an answer may have had its effect. Neither a write
// is called refused, nor does a read find nothing.
func cutIsUnconfirmed(t require.TestingT, b *Broker) {
	put(t, b, record("R-1", "w1"), 0)
	b.Cut()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := b.Store.PutRecord(ctx, "R-2", record("R-2", "w2"), 0)
	require.Error(t, err)
	require.NotErrorIs(t, err, settle.ErrStale)
	require.NotErrorIs(t, err, settle.ErrStorage)
	status, _, err := b.Store.PublishIntent(ctx, b.intent("A-1", "i1"))
	require.Error(t, err)
	require.NotErrorIs(t, err, settle.ErrFull)
	require.Equal(t, settle.PublishNone, status)
	_, err = b.Store.Record(ctx, "R-1")
	require.Error(t, err)
	_, err = b.Store.Letter(ctx, "L-1", 1)
	require.Error(t, err)
	require.Error(t, b.Store.Records(ctx, []string{"R-1"}, func(int, settle.Entry, error) error { return nil }))
	_, err = b.Store.PutLetter(ctx, "L-1", letter(b, "L-1", "i1"))
	require.Error(t, err)
	require.NotErrorIs(t, err, settle.ErrStorage)
	require.Error(t, b.Store.DeleteLetter(ctx, "L-1", 1))
	_, err = b.Store.LettersFrom(ctx, 1, 10)
	require.Error(t, err)
	_, err = b.Store.LastLetter(ctx)
	require.Error(t, err)
	require.Error(t, b.Store.DeleteIntent(ctx, 1))
	for _, p := range b.Store.PublishIntents(ctx, []*settle.Message{b.intent("A-2", "i2")}, func() error { return nil }) {
		require.Error(t, p.Err)
	}
}

// restartKeeps: besides what it keeps, a restarted broker has another ID, and has forgotten
// the IDs of intents that are gone.
func restartKeeps(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	seq := put(t, b, record("R-1", "w1"), 0)
	l := file(t, b, letter(b, "L-1", "i1"))
	mark, err := b.Store.PutHighWaterMark(ctx, "seen.1", settle.HighWaterMark{Stream: 7, Seq: 1}, 0)
	require.NoError(t, err)
	waits := b.Wait("A-9", "i9")
	gone := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	remove(t, b, gone)
	kept := publish(t, b, b.intent("A-2", "i2"), settle.Stored)
	next(t, b, kept, 1)
	birth, _, err := b.Store.Stream(ctx)
	require.NoError(t, err)

	id := b.Store.ServerID()
	b.Restart()
	require.True(t, b.Soon(func() bool {
		_, err := b.Store.Record(ctx, "R-1")
		return err == nil && b.Store.ServerID() != id
	}))

	require.Equal(t, settle.Entry{Record: record("R-1", "w1"), Seq: seq}, read(t, b, "R-1"))
	_, err = b.Store.PutRecord(ctx, "R-1", record("R-1", "late"), 0)
	require.ErrorIs(t, err, settle.ErrStale)
	require.Greater(t, put(t, b, record("R-1", "w2"), seq), seq)
	require.Equal(t, l, letterAt(t, b, "L-1", l.Seq))
	m, at, err := b.Store.HighWaterMark(ctx, "seen.1")
	require.NoError(t, err)
	require.Equal(t, settle.HighWaterMark{Stream: 7, Seq: 1}, m)
	require.Equal(t, mark, at)
	again, _, err := b.Store.Stream(ctx)
	require.NoError(t, err)
	require.Equal(t, birth, again)
	waiting, err := b.Store.WaitingAt(ctx, waits)
	require.NoError(t, err)
	require.NotNil(t, waiting)
	requireIs(t, b.intent("A-2", "i2"), intentOf(t, b, "A-2"), kept)
	require.Equal(t, kept, publish(t, b, b.intent("A-3", "i2"), settle.AlreadyKnown))
	require.Greater(t, publish(t, b, b.intent("A-1", "i1"), settle.Stored), kept, "the ID of what is gone is forgotten")
	seen := make(map[uint64]bool)
	for len(seen) < 2 { // in any order, and counted as far as the broker remembers
		got := b.Pull(1, long)
		require.Len(t, got, 1)
		require.False(t, seen[got[0].Seq])
		seen[got[0].Seq] = true
		require.NoError(t, got[0].Answer.Ack())
	}
	require.True(t, seen[kept], "it was not acknowledged")
}
