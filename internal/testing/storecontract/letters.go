package storecontract

import (
	"bytes"
	"context"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// letter is a letter whose body and headers are no text.
func letter(b *Broker, no, intentID string) *settle.Letter {
	return &settle.Letter{OrderNo: no, Outcome: order.OutcomeRejected, Reason: "refused", Status: 422, History: order.History{Attempts: 1, LastAttemptAt: aTime},
		IntentID: intentID, FiledAt: aTime, Subject: b.Subject(no) + "\xff", Headers: map[string][]string{"Plain": {"1", "2"}, "Odd\xff": {"\xfe"}},
		Earlier: []settle.Earlier{{IntentID: "i0", Outcome: order.OutcomeUnknown, At: aTime}}, Body: []byte("{\x00\xff")}
}

func file(t require.TestingT, b *Broker, l, replaces *settle.Letter) *settle.Letter {
	ctx, cancel := within()
	defer cancel()
	require.NoError(t, b.Store.PutLetter(ctx, l.OrderNo, l, replaces))
	stored := letterOf(t, b, l.OrderNo)
	require.NotNil(t, stored)
	require.NotZero(t, stored.Seq)
	return stored
}

func letterOf(t require.TestingT, b *Broker, no string) *settle.Letter {
	ctx, cancel := within()
	defer cancel()
	l, err := b.Store.Letter(ctx, no)
	require.NoError(t, err)
	return l
}

func letterIsReadAsWritten(t require.TestingT, b *Broker) {
	require.Nil(t, letterOf(t, b, "L-1"))
	stored := file(t, b, letter(b, "L-1", "i1"), nil)
	stored.Seq = 0
	require.Equal(t, letter(b, "L-1", "i1"), stored)
	require.Nil(t, letterOf(t, b, "L-2"))
}

func letterIsConditional(t require.TestingT, b *Broker) {
	first := file(t, b, letter(b, "L-1", "i1"), nil)
	other := file(t, b, letter(b, "L-2", "i2"), nil)
	second := file(t, b, letter(b, "L-1", "i3"), first)
	require.Greater(t, other.Seq, first.Seq)
	require.Greater(t, second.Seq, other.Seq)
	for _, replaces := range []*settle.Letter{nil, first, other} {
		require.ErrorIs(t, b.Store.PutLetter(context.Background(), "L-1", letter(b, "L-1", "late"), replaces), settle.ErrStale)
	}
	require.ErrorIs(t, b.Store.PutLetter(context.Background(), "L-3", letter(b, "L-3", "late"), first), settle.ErrStale)
	require.Equal(t, second, letterOf(t, b, "L-1"))
	require.Equal(t, other, letterOf(t, b, "L-2"))
	require.Nil(t, letterOf(t, b, "L-3"))
}

func letterIsRemoved(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	first := file(t, b, letter(b, "L-1", "i1"), nil)
	other := file(t, b, letter(b, "L-2", "i2"), nil)
	second := file(t, b, letter(b, "L-1", "i3"), first)
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", first), "it is gone")
	require.Equal(t, second, letterOf(t, b, "L-1"))
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", second))
	require.Nil(t, letterOf(t, b, "L-1"))
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", second), "it is gone")
	require.Equal(t, other, letterOf(t, b, "L-2"))
	require.ErrorIs(t, b.Store.PutLetter(ctx, "L-1", letter(b, "L-1", "late"), second), settle.ErrStale, "what was removed is not there to be replaced")
	require.Greater(t, file(t, b, letter(b, "L-1", "i4"), nil).Seq, second.Seq, "it is absent again")
}

// longBodyStays: JetStream stores the end of a body that does not fit into one message
// apart, where another letter with the same end finds it, too.
func longBodyStays(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	long := func(id string) *settle.Letter {
		l := letter(b, "L-1", id)
		l.Body = bytes.Repeat([]byte{0xff}, int(b.Store.MaxPayload()))
		return l
	}
	body := long("").Body
	first := file(t, b, long("i1"), nil)
	require.True(t, bytes.Equal(body, first.Body))
	isWhole := func() {
		l := letterOf(t, b, "L-1")
		require.NotNil(t, l)
		require.True(t, bytes.Equal(body, l.Body))
	}
	second := file(t, b, long("i2"), first)
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", first), "it is gone")
	isWhole()
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", second))
	third := file(t, b, long("i3"), nil)
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", second), "it is gone")
	isWhole()
	short := file(t, b, letter(b, "L-1", "i4"), third)
	require.Equal(t, letter(b, "L-1", "i4").Body, short.Body)
}
