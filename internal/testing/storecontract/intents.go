package storecontract

import (
	"context"
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// intent is the message of an intent. Without an ID the broker knows no duplicates of it.
func (b *Broker) intent(no, id string) *settle.Message {
	m := &settle.Message{Subject: b.Subject(no), Header: settle.Header{"Order-Batch": {"b"}}, Data: fmt.Appendf(nil, `{"order_no":%q}`, no)}
	if id != "" {
		m.Header.Set(settle.HeaderIntentID, id)
	}
	return m
}

func publish(t require.TestingT, b *Broker, m *settle.Message, want settle.PublishStatus) uint64 {
	ctx, cancel := within()
	defer cancel()
	status, seq, err := b.Store.PublishIntent(ctx, m)
	require.NoError(t, err)
	require.Equal(t, want, status, "%s %s", m.Subject, m.Header.Get(settle.HeaderIntentID))
	return seq
}

func intentOf(t require.TestingT, b *Broker, no string) *settle.Message {
	ctx, cancel := within()
	defer cancel()
	m, err := b.Store.Intent(ctx, no)
	require.NoError(t, err)
	among, err := b.Store.Intents(ctx, []string{no, "none"})
	require.NoError(t, err)
	require.Nil(t, among[1])
	if require.Equal(t, m == nil, among[0] == nil); m != nil {
		require.Equal(t, []any{m.Seq, m.IntentID()}, []any{among[0].Seq, among[0].IntentID()})
	}
	return m
}

// pending is intentOf where there must be one.
func pending(t require.TestingT, b *Broker, no string) *settle.Message {
	m := intentOf(t, b, no)
	require.NotNil(t, m, no)
	return m
}

func intentAt(t require.TestingT, b *Broker, seq uint64) *settle.Message {
	ctx, cancel := within()
	defer cancel()
	m, err := b.Store.IntentAt(ctx, seq)
	require.NoError(t, err)
	return m
}

func remove(t require.TestingT, b *Broker, seq uint64) {
	ctx, cancel := within()
	defer cancel()
	require.NoError(t, b.Store.DeleteIntent(ctx, seq))
}

// requireIs requires that a stored message is what was published.
func requireIs(t require.TestingT, published, stored *settle.Message, seq uint64) {
	require.NotNil(t, stored)
	require.Equal(t, seq, stored.Seq)
	require.Equal(t, published.Subject, stored.Subject)
	require.Equal(t, published.Data, stored.Data)
	require.False(t, stored.Time.IsZero())
	for name, values := range published.Header {
		require.Equal(t, values, stored.Header[name])
	}
}

func oneIntentForEach(t require.TestingT, b *Broker) {
	require.Nil(t, intentOf(t, b, "A-1"))
	require.Nil(t, intentAt(t, b, 1))
	m := b.intent("A-1", "i1")
	first := publish(t, b, m, settle.Stored)
	requireIs(t, m, intentOf(t, b, "A-1"), first)
	requireIs(t, m, intentAt(t, b, first), first)
	publish(t, b, b.intent("A-1", "i2"), settle.AlreadyPending)
	publish(t, b, b.intent("A-1", ""), settle.AlreadyPending)
	requireIs(t, m, intentOf(t, b, "A-1"), first)
	require.Nil(t, intentOf(t, b, "A-2"))
	second := publish(t, b, b.intent("A-2", "i2"), settle.Stored) // its ID was not taken
	require.Greater(t, second, first)
	requireIs(t, m, intentOf(t, b, "A-1"), first)
}

func intentIsKnown(t require.TestingT, b *Broker) {
	first := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	second := publish(t, b, b.intent("A-2", "i2"), settle.Stored)
	require.Equal(t, first, publish(t, b, b.intent("A-1", "i1"), settle.AlreadyKnown), "while it is pending")
	require.Equal(t, first, publish(t, b, b.intent("A-2", "i1"), settle.AlreadyKnown), "under another order_no")
	require.Equal(t, second, publish(t, b, b.intent("A-3", "i2"), settle.AlreadyKnown))
	require.Nil(t, intentOf(t, b, "A-3"))
	remove(t, b, first)
	require.Equal(t, first, publish(t, b, b.intent("A-1", "i1"), settle.AlreadyKnown), "though it is gone")
	require.Nil(t, intentOf(t, b, "A-1"))
	publish(t, b, b.intent("A-1", ""), settle.Stored)
	publish(t, b, b.intent("A-3", ""), settle.Stored) // nothing is known about no ID
}

func intentIsRemoved(t require.TestingT, b *Broker) {
	first := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	second := publish(t, b, b.intent("A-2", "i2"), settle.Stored)
	remove(t, b, second)
	remove(t, b, second) // it is gone
	require.Nil(t, intentOf(t, b, "A-2"))
	require.Nil(t, intentAt(t, b, second))
	requireIs(t, b.intent("A-1", "i1"), intentOf(t, b, "A-1"), first)
	third := publish(t, b, b.intent("A-2", "i3"), settle.Stored)
	require.Greater(t, third, second, "no sequence comes twice")
	remove(t, b, second)
	requireIs(t, b.intent("A-2", "i3"), intentOf(t, b, "A-2"), third)
}

func severalIntents(t require.TestingT, b *Broker) {
	known := publish(t, b, b.intent("K-1", "k1"), settle.Stored)
	remove(t, b, known)
	before := publish(t, b, b.intent("P-1", "p1"), settle.Stored)
	ctx, cancel := within()
	defer cancel()
	asked := 0
	may := func() error { asked++; return nil }
	all := func(ms []*settle.Message, want ...settle.PublishStatus) (seqs []uint64) {
		asked = 0
		for i, p := range b.Store.PublishIntents(ctx, ms, may) {
			require.NoError(t, p.Err)
			require.Equal(t, want[i], p.Status, "%d", i)
			seqs = append(seqs, p.Seq)
		}
		require.Len(t, seqs, len(want))
		require.NotZero(t, asked, "nothing is sent without asking")
		return seqs
	}
	all([]*settle.Message{b.intent("A-1", "i1"), b.intent("A-2", "i2")}, settle.Stored, settle.Stored)
	require.Less(t, pending(t, b, "A-1").Seq, pending(t, b, "A-2").Seq, "in their order")
	seqs := all([]*settle.Message{b.intent("A-3", "i3"), b.intent("K-1", "k1"), b.intent("P-1", "p2"), b.intent("A-3", "i4"), b.intent("A-4", "i5")},
		settle.Stored, settle.AlreadyKnown, settle.AlreadyPending, settle.AlreadyPending, settle.Stored)
	require.Equal(t, known, seqs[1])
	require.Equal(t, before, pending(t, b, "P-1").Seq)
	require.Equal(t, "i3", pending(t, b, "A-3").Header.Get(settle.HeaderIntentID))
	require.NotNil(t, intentOf(t, b, "A-4"))
}

func mayIsAsked(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	over := errors.New("the lease is over")
	for _, p := range b.Store.PublishIntents(ctx, []*settle.Message{b.intent("A-1", "i1"), b.intent("A-2", "i2")}, func() error { return over }) {
		require.ErrorIs(t, p.Err, over)
	}
	require.Nil(t, intentOf(t, b, "A-1"))
	require.Nil(t, intentOf(t, b, "A-2"))
	publish(t, b, b.intent("A-1", "i1"), settle.Stored) // the broker never heard of it
}

func waitingIsRemoved(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	id := func(seq uint64) string {
		m, err := b.Store.WaitingAt(ctx, seq)
		require.NoError(t, err)
		if m == nil {
			return ""
		}
		require.Equal(t, seq, m.Seq)
		return m.Header.Get(settle.HeaderIntentID)
	}
	first, second := b.Wait("A-1", "i1"), b.Wait("A-1", "i2") // any number of an order_no
	require.Greater(t, second, first)
	require.Equal(t, []string{"i1", "i2", ""}, []string{id(first), id(second), id(second + 1)})
	require.NoError(t, b.Store.DeleteWaiting(ctx, first))
	require.NoError(t, b.Store.DeleteWaiting(ctx, first), "it is gone")
	require.Equal(t, []string{"", "i2"}, []string{id(first), id(second)})
	require.Greater(t, b.Wait("A-1", "i3"), second)
	require.Nil(t, intentOf(t, b, "A-1"), "what waits is not in the queue")
}

func waitingIsPurged(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	subjects := make(map[uint64]string)
	var subject string
	var mine []uint64
	for i := range 8 {
		seq := b.Wait(fmt.Sprint("A-", i), fmt.Sprint("i", i))
		m, err := b.Store.WaitingAt(ctx, seq)
		require.NoError(t, err)
		if subjects[seq] = m.Subject; i == 0 {
			subject = m.Subject
		}
		if m.Subject == subject {
			mine = append(mine, seq)
		}
	}
	require.Greater(t, len(mine), 2)
	for range 2 { // the answer to the first may have been lost
		require.NoError(t, b.Store.PurgeWaiting(ctx, subject, mine[1]))
	}
	for seq, under := range subjects {
		m, err := b.Store.WaitingAt(ctx, seq)
		require.NoError(t, err)
		require.Equal(t, under == subject && seq <= mine[1], m == nil, "%d under %s", seq, under)
	}
}

func streamHasABirth(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	birth, _, err := b.Store.Stream(ctx)
	require.NoError(t, err)
	require.NotZero(t, birth)
	seq := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	again, last, err := b.Store.Stream(ctx)
	require.NoError(t, err)
	require.Equal(t, birth, again, "marks and positions name their stream by it")
	require.Equal(t, seq, last)
	for _, birthOf := range []func(context.Context) (int64, error){b.Store.WaitingBirth, b.Store.ResultsBirth} {
		birth, err := birthOf(ctx)
		require.NoError(t, err)
		require.NotZero(t, birth)
	}
	require.Equal(t, b.Store.ServerID(), b.Store.ServerID())
	require.NotEmpty(t, b.Store.ServerID())
}
