package settle_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// stored is how many intents the log holds.
func stored(t *testing.T, q *queue.Queue) int {
	t.Helper()
	room, err := q.Census.Room(t.Context())
	require.NoError(t, err)
	return int(room.Msgs)
}

// pulled publishes n intents and pulls the first of them.
func pulled(t *testing.T, q *queue.Queue, n, first int) []*settle.Delivery {
	t.Helper()
	var in []settle.Intent
	for i := range n {
		no := fmt.Sprintf("A-%d", i)
		in = append(in, intent(no, "i:"+no))
	}
	publish(t, q, in...)
	return pull(t, q, first)
}

// settleAll settles deliveries and waits until the floor is at a sequence.
func settleAll(t *testing.T, q *queue.Queue, ds []*settle.Delivery, floor uint64) {
	t.Helper()
	for _, d := range ds {
		settleAs(t, q, d, report(order.Accepted, d.History))
	}
	requireFloor(t, q, floor)
}

// requireFloor waits until the broker has read the acknowledgements up to a sequence.
func requireFloor(t *testing.T, q *queue.Queue, floor uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		at, err := q.AckFloor(t.Context())
		return err == nil && at == floor
	}, time.Minute, time.Millisecond)
}

// trimmed is a store that runs a function once, after the trimmer has heard of the progress or before it
// purges.
type trimmed struct {
	settle.Store
	afterProgress, beforePurge func()
}

func (s *trimmed) Progress(ctx context.Context) (settle.Progress, error) {
	p, err := s.Store.Progress(ctx)
	once(&s.afterProgress)
	return p, err
}

func (s *trimmed) PurgeIntents(ctx context.Context, upTo uint64) error {
	once(&s.beforePurge)
	return s.Store.PurgeIntents(ctx, upTo)
}

// A worker gives intents back while it trims the log, and they come again long before their ack wait
// is over: no purge makes the broker forget them.
func TestR14WhatIsGivenBackDuringATrimComesAgain(t *testing.T) {
	for name, hook := range map[string]func(*trimmed) *func(){
		"after its look":  func(s *trimmed) *func() { return &s.afterProgress },
		"while it purges": func(s *trimmed) *func() { return &s.beforePurge },
	} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			q := openQueue(t, s, "w1", func(c *queue.Config) { c.AckWait = 10 * time.Minute })
			ds := pulled(t, q, 20, 20)
			settleAll(t, q, ds[:10], 10)
			var again []*settle.Delivery
			served := make(chan error, 1)
			go func() { // half of what is given back finds a slot
				served <- q.Pull(t.Context(), 5, time.Minute, func(ds []*settle.Delivery) { again = append(again, ds...) })
			}()
			require.Eventually(t, func() bool {
				p, err := q.Store().Progress(t.Context())
				return err == nil && p.NoneAgain
			}, time.Minute, time.Millisecond, "the pull waits")
			nc := s.JetStream(t).Conn()
			answers, err := nc.SubscribeSync("$JS.ACK.>")
			require.NoError(t, err)
			require.NoError(t, nc.Flush())
			isServed := false
			store := &trimmed{Store: q.Store()}
			*hook(store) = func() {
				at := ""
				for _, d := range ds[10:] {
					require.NoError(t, q.Worker.HandBack(t.Context(), d, 0))
					answer, err := answers.NextMsg(time.Minute)
					require.NoError(t, err)
					at = string(answer.Data)
				}
				if at == `-NAK {"delay": 0}` { // the broker has them wait for a pull
					require.NoError(t, <-served)
					isServed = true
				}
			}
			q.Ledger.ExportSetStore(store)
			require.NoError(t, q.Trimmer.Trim(t.Context()))
			if !isServed {
				require.NoError(t, <-served)
			}
			for _, d := range ds[10:] {
				d.Release()
			}
			settleAll(t, q, append(again, pull(t, q, 5)...), 20)
			requireDrained(t, q)
		})
	}
}

// Few intents are removed by their sequences, which holds up nothing.
func TestR14FewIntentsLeaveWithoutAPurge(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1", func(c *queue.Config) { c.AckWait = 10 * time.Minute })
	ds := pulled(t, q, 8, 8)
	for _, d := range ds[4:] {
		require.NoError(t, q.Worker.HandBack(t.Context(), d, 0))
		d.Release()
	}
	settleAll(t, q, ds[:4], 4)
	require.NoError(t, q.Trimmer.Trim(t.Context()))
	require.Equal(t, 4, stored(t, q))
	settleAll(t, q, pull(t, q, 4), 8)
	requireDrained(t, q)
}

// queued is a store that counts the single removals under way.
type queued struct {
	settle.Store
	now, most atomic.Int64
}

func (s *queued) DeleteIntent(ctx context.Context, seq uint64) error {
	defer s.now.Add(-1)
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	return s.Store.DeleteIntent(ctx, seq)
}

// While single removals wait in a server, it answers no question about a stream or a consumer.
func TestR14SingleRemovalsDoNotQueueUp(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	ds := pulled(t, q, 5, 5)
	settleAll(t, q, ds[:4], 4)
	store := &queued{Store: q.Store()}
	q.Ledger.ExportSetStore(store)
	require.NoError(t, q.Trimmer.Trim(t.Context()))
	require.Equal(t, 1, stored(t, q))
	require.EqualValues(t, 1, store.most.Load())
}

// While all workers are busy, the log is trimmed if they are given new intents.
func TestR14TheLogIsTrimmedWhileAllWorkersAreBusy(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1", func(c *queue.Config) { c.AckWait = 10 * time.Minute })
	const all = 200
	ds := pulled(t, q, all, 11)
	require.NoError(t, q.Trimmer.Trim(t.Context())) // it knows of what was delivered
	settleAll(t, q, ds[:10], 10)
	require.Eventually(t, func() bool {
		p, err := q.Store().Progress(t.Context())
		return err == nil && !p.NoneAgain
	}, time.Minute, time.Millisecond, "no pull waits any more")
	require.NoError(t, q.Trimmer.Trim(t.Context()))
	require.Equal(t, all, stored(t, q), "one is in hand, and might have been given back")
	for n := 11; n < all && stored(t, q) == all; n++ { // a slow machine needs several, because the looks must be close
		require.NoError(t, q.Trimmer.Trim(t.Context()))
		pull(t, q, 1)
		require.NoError(t, q.Trimmer.Trim(t.Context()))
	}
	require.Equal(t, all-10, stored(t, q))
}

// failing is a store whose reads of intents can be made to fail.
type failing struct {
	settle.Store
	after int // reads that work; the one after them fails; negative = all work
}

func (s *failing) IntentsFrom(ctx context.Context, seq uint64, most int) ([]*settle.Message, error) {
	if s.after == 0 {
		return nil, errors.New("cut off")
	}
	s.after--
	return s.Store.IntentsFrom(ctx, seq, most)
}

// A proof of a long log takes a while. What is proven leaves the log meanwhile, and a proof
// that is cut off goes on where it was.
func TestR14ALongLogIsProvenInParts(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	settleAll(t, q, pulled(t, q, 12, 11), 11)
	store := &failing{Store: q.Store(), after: -1}
	w2 := settle.New(settle.Config{Worker: "w2", IntentSubjects: "orders.new.", ProveAtOnce: 1, Log: zerolog.Nop()}, store, settle.RealTime())
	w2.Claims.Start(time.Hour, "answers")
	next := w2.Trimmer
	left := func(want int) {
		t.Helper()
		require.Equal(t, want, stored(t, q))
	}
	require.NoError(t, next.Trim(t.Context()))
	left(4)
	store.after = 0
	require.Error(t, next.Trim(t.Context()))
	left(4)
	store.after = -1
	require.NoError(t, next.Trim(t.Context()))
	left(1)
	settleAll(t, q, pull(t, q, 1), 12)
	require.NoError(t, next.Trim(t.Context()))
	left(0)
}

// While a worker proves the floor, another one removes the intent of a failed order, and a replay
// takes its letter.
func TestR14AnIntentThatLeftMeanwhileIsNotStranded(t *testing.T) {
	s := startBroker(t)
	worker, q := openQueue(t, s, "a"), openQueue(t, s, "b")
	d := pulled(t, worker, 1, 1)[0]
	settleAs(t, worker, d, report(order.Rejected, d.History))
	requireFloor(t, q, 1)
	require.Equal(t, 1, stored(t, q))
	store := q.Store()
	q.Ledger.ExportSetStore(&meanwhile{Store: store, beforeLetter: func() {
		require.NoError(t, store.DeleteIntent(t.Context(), 1))
		require.NoError(t, store.DeleteLetter(t.Context(), settle.FileToken(d.OrderNo()), lookup(t, worker, "A-0").Letter))
	}})
	m, err := q.Trimmer.FirstStranded(t.Context())
	require.NoError(t, err)
	require.Nil(t, m)
	require.Zero(t, stored(t, q), "it was looked at while it was stored")
}
