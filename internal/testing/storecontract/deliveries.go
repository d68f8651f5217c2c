package storecontract

import (
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// next pulls one intent, which must be this delivery of that sequence.
func next(t require.TestingT, b *Broker, seq, delivered uint64) settle.Arrival {
	got := b.Pull(1, long)
	require.Len(t, got, 1)
	require.Equal(t, seq, got[0].Seq)
	require.Equal(t, delivered, got[0].Delivered)
	return got[0]
}

// early is how much earlier than said the broker may be: it keeps milliseconds.
const early = 5 * time.Millisecond

// requireNotBefore requires that a time has passed since a moment.
func requireNotBefore(t require.TestingT, b *Broker, since time.Time, d time.Duration) {
	require.GreaterOrEqual(t, b.Now().Sub(since), d-early)
}

// acknowledged waits until the floor is at a sequence.
func acknowledged(t require.TestingT, b *Broker, seq uint64) {
	ctx, cancel := within()
	defer cancel()
	require.True(t, b.Soon(func() bool {
		p, err := b.Store.Progress(ctx)
		require.NoError(t, err)
		require.LessOrEqual(t, p.Floor, seq)
		return p.Floor == seq
	}))
}

func purge(t require.TestingT, b *Broker, upTo uint64) {
	ctx, cancel := within()
	defer cancel()
	require.NoError(t, b.Store.PurgeIntents(ctx, upTo))
}

// floorRises: an acknowledged intent stays in the log, and its subject taken, until it is
// purged.
func floorRises(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	var seqs []uint64
	for _, no := range []string{"A-1", "A-2", "A-3", "A-4"} {
		seqs = append(seqs, publish(t, b, b.intent(no, "i"+no), settle.Stored))
	}
	acknowledged(t, b, seqs[0]-1)
	var got []settle.Arrival
	for i := range 3 {
		got = append(got, next(t, b, seqs[i], 1))
	}
	require.NoError(t, got[1].Answer.Ack())
	require.NoError(t, got[2].Answer.Ack())
	acknowledged(t, b, seqs[0]-1)
	require.NoError(t, got[0].Answer.Ack())
	acknowledged(t, b, seqs[2])
	publish(t, b, b.intent("A-2", "later"), settle.AlreadyPending)
	after := func(seq uint64) uint64 {
		ms, err := b.Store.IntentsFrom(ctx, seq, 2)
		require.NoError(t, err)
		require.LessOrEqual(t, len(ms), 2)
		if len(ms) == 0 {
			return 0
		}
		return ms[0].Seq
	}
	require.Equal(t, []uint64{seqs[0], seqs[0], seqs[1], 0}, []uint64{after(1), after(seqs[0]), after(seqs[0] + 1), after(seqs[3] + 1)})
	for range 2 { // the answer to the first may have been lost
		purge(t, b, seqs[1])
	}
	require.Equal(t, []uint64{seqs[2], seqs[3]}, []uint64{after(1), after(seqs[3])})
	require.Nil(t, intentOf(t, b, "A-2"))
	require.NotNil(t, intentOf(t, b, "A-3"))
	again := publish(t, b, b.intent("A-2", "later"), settle.Stored)
	require.Greater(t, again, seqs[3])
	purge(t, b, seqs[2])
	require.NoError(t, next(t, b, seqs[3], 1).Answer.Ack())
	require.NoError(t, next(t, b, again, 1).Answer.Ack())
	acknowledged(t, b, again)
	purge(t, b, again)
	require.Zero(t, after(1))
	require.Greater(t, publish(t, b, b.intent("A-5", "i5"), settle.Stored), again, "no sequence comes twice")
}

// floorPassesRemoved: an intent that was removed holds nothing up.
func floorPassesRemoved(t require.TestingT, b *Broker) {
	first, second := publish(t, b, b.intent("A-1", "i1"), settle.Stored), publish(t, b, b.intent("A-2", "i2"), settle.Stored)
	next(t, b, first, 1)
	require.NoError(t, next(t, b, second, 1).Answer.Ack())
	remove(t, b, first)
	acknowledged(t, b, second)
}

func ackRemoves(t require.TestingT, b *Broker) {
	first, second := publish(t, b, b.intent("A-1", "i1"), settle.Stored), publish(t, b, b.intent("A-2", "i2"), settle.Stored)
	a := next(t, b, first, 1) // in their order
	requireIs(t, b.intent("A-1", "i1"), a.Message, first)
	require.NotNil(t, intentOf(t, b, "A-1"), "it is stored until it is acknowledged")
	publish(t, b, b.intent("A-1", "i3"), settle.AlreadyPending)
	require.NoError(t, a.Answer.Ack())
	acknowledged(t, b, first)
	purge(t, b, first)
	require.Nil(t, intentOf(t, b, "A-1"))
	require.NotNil(t, intentOf(t, b, "A-2"))
	third := publish(t, b, b.intent("A-1", "i3"), settle.Stored)
	require.NoError(t, next(t, b, second, 1).Answer.Ack())
	require.NoError(t, next(t, b, third, 1).Answer.Ack())
	require.Empty(t, b.Pull(1, moment))
}

func nakReturns(t require.TestingT, b *Broker) {
	seq := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	for delivered := range uint64(3) {
		a := next(t, b, seq, delivered+1)
		require.Empty(t, b.Pull(1, moment), "one worker has it")
		require.NoError(t, a.Answer.Nak())
	}
	require.Equal(t, seq, pending(t, b, "A-1").Seq)
}

// purgeForgetsAgain is no promise that the protocol wants, either: a purge makes an intent
// that waits to be delivered again wait until its ack wait is over. Progress says when none
// waits.
func purgeForgetsAgain(t require.TestingT, b *Broker) {
	first, second := publish(t, b, b.intent("A-1", "i1"), settle.Stored), publish(t, b, b.intent("A-2", "i2"), settle.Stored)
	ctx, cancel := within()
	defer cancel()
	progress := func(want settle.Progress) {
		require.True(t, b.Soon(func() bool {
			p, err := b.Store.Progress(ctx)
			require.NoError(t, err)
			return p == want
		}))
	}
	progress(settle.Progress{Floor: first - 1, Delivered: first - 1, NoneHeld: true, NoneAgain: true})
	a := next(t, b, first, 1)
	since := b.Now()
	next(t, b, second, 1)
	progress(settle.Progress{Floor: first - 1, Delivered: second})
	require.True(t, b.Soon(func() bool { return b.Now().Sub(since) > b.AckWait+b.AckWait/4 })) // both wait to be delivered again
	require.NoError(t, a.Answer.Ack())
	progress(settle.Progress{Floor: first, Delivered: second})
	purge(t, b, first)
	a = next(t, b, second, 2)
	requireNotBefore(t, b, since, 2*b.AckWait)
	require.NoError(t, a.Answer.Ack())
	progress(settle.Progress{Floor: second, Delivered: second, NoneHeld: true, NoneAgain: true})
}

func nakDelays(t require.TestingT, b *Broker) {
	first := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	a := next(t, b, first, 1)
	since := b.Now()
	require.NoError(t, a.Answer.NakWithDelay(b.AckWait/2))
	second := publish(t, b, b.intent("A-2", "i2"), settle.Stored)
	require.NoError(t, next(t, b, second, 1).Answer.Ack()) // nobody waits for it
	next(t, b, first, 2)
	requireNotBefore(t, b, since, b.AckWait/2)
}

// extendIntentEndsADelay: whatever time the broker gave a delivery, a request for more time replaces it.
func extendIntentEndsADelay(t require.TestingT, b *Broker) {
	seq := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	require.NoError(t, next(t, b, seq, 1).Answer.NakWithDelay(100*b.AckWait))
	since := b.Now()
	require.Empty(t, b.Pull(1, b.AckWait/4)) // the NAK has arrived
	require.NoError(t, b.Store.ExtendIntent(seq))
	next(t, b, seq, 2)
	requireNotBefore(t, b, since, b.AckWait)
}

func ackWaitEnds(t require.TestingT, b *Broker) {
	seq := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	since := b.Now()
	next(t, b, seq, 1)
	next(t, b, seq, 2)
	requireNotBefore(t, b, since, b.AckWait)
}

func extendLasts(t require.TestingT, b *Broker) {
	seq := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	extended(t, b, seq, next(t, b, seq, 1), func(a settle.Arrival) string { return a.Reply })
}

// extended waits for half the ack wait, extends a claim by the given subject, and
// requires that the intent comes again only when the ack wait has passed from then. On a
// machine that stood still meanwhile the claim may be over, and extended tries again.
func extended(t require.TestingT, b *Broker, seq uint64, a settle.Arrival, by func(settle.Arrival) string) {
	for delivered := a.Delivered; ; delivered++ {
		since := b.Now()
		again := b.Pull(1, b.AckWait/2)
		sent := b.Now()
		require.NoError(t, b.Store.Extend(by(a), "contract.claims"))
		if len(again) == 0 {
			again = []settle.Arrival{next(t, b, seq, delivered+1)}
		}
		if sent.Sub(since) < b.AckWait*3/4 {
			requireNotBefore(t, b, sent, b.AckWait)
			return
		}
		a = again[0]
	}
}

// formerOwnersCount is no promise that the protocol wants. It is a hazard that the
// broker has, which the model must have, too: an answer to a former delivery counts as
// if the present owner had sent it.
func formerOwnersCount(t require.TestingT, b *Broker) {
	seq := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	former := next(t, b, seq, 1)
	require.NoError(t, former.Answer.Nak())
	next(t, b, seq, 2)
	require.NoError(t, former.Answer.Nak())
	a := next(t, b, seq, 3)
	extended(t, b, seq, a, func(settle.Arrival) string { return former.Reply })
	require.NoError(t, former.Answer.Ack())
	acknowledged(t, b, seq)
}

func removedStaysAway(t require.TestingT, b *Broker) {
	first := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	a := next(t, b, first, 1)
	remove(t, b, first)
	require.NoError(t, a.Answer.Nak())
	second := publish(t, b, b.intent("A-1", "i2"), settle.Stored)
	require.NoError(t, a.Answer.Ack()) // of the removed one
	got := b.Pull(2, moment)
	require.Len(t, got, 1)
	require.Equal(t, second, got[0].Seq)
	require.Equal(t, second, pending(t, b, "A-1").Seq)
}

func deliveredIsTheHighest(t require.TestingT, b *Broker) {
	ctx, cancel := within()
	defer cancel()
	first := publish(t, b, b.intent("A-1", "i1"), settle.Stored)
	require.NoError(t, next(t, b, first, 1).Answer.Nak())
	second := publish(t, b, b.intent("A-2", "i2"), settle.Stored)
	require.Len(t, b.Pull(2, moment), 2)
	p, err := b.Store.Progress(ctx)
	require.NoError(t, err)
	require.Equal(t, second, p.Delivered)
}
