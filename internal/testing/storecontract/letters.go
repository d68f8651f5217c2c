package storecontract

import (
	"bytes"
	"context"
	"errors"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// letter is a letter whose body and headers are no text.
func letter(b *Broker, no, intentID string) *settle.Letter {
	return &settle.Letter{OrderNo: no, Outcome: order.OutcomeRejected, Reason: "refused", Status: 422, History: order.History{Attempts: 1, LastAttemptAt: aTime},
		IntentID: intentID, FiledAt: aTime, Subject: b.Subject(no) + "\xff", Headers: map[string][]string{"Plain": {"1", "2"}, "Odd\xff": {"\xfe"}}, Body: []byte("{\x00\xff")}
}

// file stores a letter and returns it as it is read.
func file(t require.TestingT, b *Broker, l *settle.Letter) *settle.Letter {
	ctx, cancel := within()
	defer cancel()
	seq, err := b.Store.PutLetter(ctx, l.OrderNo, l)
	require.NoError(t, err)
	require.NotZero(t, seq)
	stored := letterAt(t, b, l.OrderNo, seq)
	require.NotNil(t, stored)
	require.Equal(t, seq, stored.Seq)
	require.Equal(t, l.OrderNo, stored.FiledUnder)
	return stored
}

func letterAt(t require.TestingT, b *Broker, no string, seq uint64) *settle.Letter {
	ctx, cancel := within()
	defer cancel()
	l, err := b.Store.Letter(ctx, no, seq)
	for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // megabytes, and a machine that is busy
		l, err = b.Store.Letter(ctx, no, seq)
	}
	require.NoError(t, err)
	return l
}

func letterIsReadAsWritten(t require.TestingT, b *Broker) {
	require.Nil(t, letterAt(t, b, "L-1", 1))
	stored := file(t, b, letter(b, "L-1", "i1"))
	require.Nil(t, letterAt(t, b, "L-2", stored.Seq), "it is filed under another token")
	require.Nil(t, letterAt(t, b, "L-1", stored.Seq+1))
	stored.Seq, stored.FiledUnder = 0, ""
	require.Equal(t, letter(b, "L-1", "i1"), stored)
}

func lettersStayBesideOneAnother(t require.TestingT, b *Broker) {
	first := file(t, b, letter(b, "L-1", "i1"))
	other := file(t, b, letter(b, "L-2", "i2"))
	second := file(t, b, letter(b, "L-1", "i3"))
	again := file(t, b, letter(b, "L-1", "i3"))
	require.Greater(t, other.Seq, first.Seq)
	require.Greater(t, second.Seq, other.Seq)
	require.Greater(t, again.Seq, second.Seq, "nothing is recognised as stored")
	require.Equal(t, first, letterAt(t, b, "L-1", first.Seq))
	require.Equal(t, second, letterAt(t, b, "L-1", second.Seq))
}

func letterIsRemoved(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	first := file(t, b, letter(b, "L-1", "i1"))
	other := file(t, b, letter(b, "L-2", "i2"))
	second := file(t, b, letter(b, "L-1", "i3"))
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", other.Seq), "there is none under this token")
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", second.Seq+1), "there is none yet")
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", first.Seq))
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", first.Seq), "it is gone")
	require.Nil(t, letterAt(t, b, "L-1", first.Seq))
	require.Equal(t, other, letterAt(t, b, "L-2", other.Seq))
	require.Equal(t, second, letterAt(t, b, "L-1", second.Seq))
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", second.Seq))
	require.Greater(t, file(t, b, letter(b, "L-1", "i4")).Seq, second.Seq, "no sequence is given again")
}

func lettersAreListed(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	list := func(from uint64, most int) []settle.LetterRef {
		refs, err := b.Store.LettersFrom(ctx, from, most)
		require.NoError(t, err)
		return refs
	}
	last := func() uint64 {
		seq, err := b.Store.LastLetter(ctx)
		require.NoError(t, err)
		return seq
	}
	require.Empty(t, list(0, 10))
	require.Zero(t, last())
	var want []settle.LetterRef
	for _, no := range []string{"L-1", "L-2", "L-1", "L-3"} {
		want = append(want, settle.LetterRef{Token: no, Seq: file(t, b, letter(b, no, "i1")).Seq})
	}
	require.Equal(t, want, list(0, 10))
	require.Equal(t, want[1:3], list(want[1].Seq, 2))
	require.Empty(t, list(want[3].Seq+1, 10))
	require.Equal(t, want[3].Seq, last())
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-1", want[2].Seq))
	require.NoError(t, b.Store.DeleteLetter(ctx, "L-3", want[3].Seq))
	require.Equal(t, want[:2], list(want[0].Seq, 10))
	require.Equal(t, want[1:2], list(want[0].Seq+1, 10))
	require.GreaterOrEqual(t, last(), want[3].Seq, "it was stored")
}

// aLetterTakesAnyBody: an intent of another program may leave no room for a letter's header. The body is kept.
func aLetterTakesAnyBody(t require.TestingT, b *Broker) {
	for _, less := range []int{0, 1, 255, 256, 300, 1000, 5000, settle.LetterReserve} {
		l := letter(b, "L-1", "i1")
		l.Body = bytes.Repeat([]byte{0xff}, int(b.Store.MaxPayload())-less)
		stored := file(t, b, l)
		require.True(t, bytes.Equal(l.Body, stored.Body))
		require.Contains(t, []string{"", "i1"}, stored.IntentID)
		require.Contains(t, []string{"", "L-1"}, stored.OrderNo)
		if less == settle.LetterReserve { // what intake leaves
			stored.Seq, stored.FiledUnder = 0, ""
			require.Equal(t, l, stored)
		}
	}
}
