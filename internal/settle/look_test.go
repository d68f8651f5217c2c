package settle_test

import (
	"context"
	"sync"
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
	s := &inCluster{Store: q.Ledger.ExportStore()}
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
	a.Ledger.ExportSetStore(silent{a.Ledger.ExportStore()})
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

// A delivery that decided on a record which another one has replaced since does not
// write its note over the other's open attempt, and posts nothing.
func TestR2ANoteLeavesAnotherDeliverysOpenAttemptAlone(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	d := pull(t, a, 1)[0]
	unsure := report(order.Unsure, order.History{Unsure: true})
	_, err := a.Worker.Settle(t.Context(), d, &unsure, order.Decide(&unsure, order.Facts{Policy: order.Park}))
	require.NoError(t, err)
	d.Release()
	requireDrained(t, a)
	end, err := a.Operator.Replay(t.Context(), letterOf(t, a, "A-1"), settle.ReplayOptions{ResubmitUnknown: true, Person: settle.Person{Name: "anna"}})
	require.NoError(t, err)
	require.Equal(t, settle.Replayed, end)

	first := pull(t, a, 1)[0]
	second := again(t, first, b) // a late NAK
	require.True(t, first.Allowed)
	require.True(t, second.Allowed)
	err = a.Worker.NoteAttempt(t.Context(), first, first.History)
	require.NoError(t, err)
	err = b.Worker.NoteAttempt(t.Context(), second, second.History)
	require.ErrorIs(t, err, order.ErrLeaseLost)
	require.ErrorIs(t, b.Worker.NoteBegun(t.Context(), second), order.ErrLeaseLost)
	require.Equal(t, order.NoteAttempt, lookup(t, a, "A-1").Note, "the attempt stays open")
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
	m, err := b.Ledger.ExportStore().Intent(t.Context(), "A-1")
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

// In a cluster more time is asked for at once for an intent that waited in the queue:
// the followers of the consumer's leader count from the time at which it was stored.
func TestR7AnIntentThatWaitedIsVouchedForAtOnce(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	m, err := q.Ledger.ExportStore().Intent(t.Context(), "A-1")
	require.NoError(t, err)
	old := *m
	old.Time = m.Time.Add(-time.Minute)
	arrive := func(m settle.Message, reply string) {
		begun, err := q.Worker.BeginPull(t.Context())
		require.NoError(t, err)
		for _, d := range q.Worker.Arrived(t.Context(), begun, []settle.Arrival{{Message: &m, Reply: reply, Delivered: 1}}) {
			d.Release()
		}
	}
	single := &onOneServer{inCluster{Store: q.Ledger.ExportStore()}}
	q.Ledger.ExportSetStore(single)
	arrive(old, "single")
	require.Empty(t, single.extended)
	store := asCluster(q)
	arrive(*m, "fresh")
	require.Empty(t, store.extended)
	arrive(old, "old")
	require.Equal(t, []string{"old"}, store.extended)
	ahead := *m
	ahead.Time = m.Time.Add(time.Minute)
	arrive(ahead, "ahead")
	require.Equal(t, []string{"old", "ahead"}, store.extended, "the worker's clock is behind: nobody knows how long it waited")
}

type onOneServer struct{ inCluster }

func (*onOneServer) Replicated() bool { return false }

// On one server a redelivered order is looked at again, too: its former owner may have
// written an acceptance while the next one waited.
func TestR7ARedeliveredOrderIsLookedAtAgainOnOneServer(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	first := pull(t, a, 1)[0]
	second := again(t, first, b)
	settleAs(t, a, first, report(order.Accepted, first.History))
	second.ExportLookedJustNow()
	require.NoError(t, b.Worker.Fence(t.Context(), second), "it has just looked")
	second.ExportLookedLongAgo()
	require.ErrorIs(t, b.Worker.Fence(t.Context(), second), order.ErrLeaseLost)
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

// In a cluster a delivery that finds a note with its own number or a later one was given
// away by a new leader of the consumer. It posts nothing, and gives nothing back: a NAK
// would end the claim of the one whose message it is.
func TestR7ADeliveryThatALaterOneHasTakenPostsNothing(t *testing.T) {
	for name, note := range map[string]func(*queue.Queue, *settle.Delivery) error{
		"begun": func(b *queue.Queue, d *settle.Delivery) error { return b.Worker.NoteBegun(t.Context(), d) },
		"attempt": func(b *queue.Queue, d *settle.Delivery) error {
			err := b.Worker.NoteAttempt(t.Context(), d, order.History{Attempts: 1, LastAttemptAt: time.Now()})
			return err
		},
		"handed back": func(b *queue.Queue, d *settle.Delivery) error {
			r := order.Report{End: order.EndHandBack, History: d.History}
			_, err := b.Worker.Settle(t.Context(), d, &r, order.Decide(&r, order.Facts{}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
			asCluster(a)
			publish(t, a, intent("A-1", "i1"))
			first := pull(t, a, 1)[0]
			require.Equal(t, settle.WorkSubmit, first.Work)
			require.NoError(t, note(b, again(t, first, b)))
			require.NoError(t, a.Worker.Check(t.Context(), []*settle.Delivery{first}))
			require.Equal(t, settle.WorkNone, first.Work)
			before := lookup(t, b, "A-1")
			require.NoError(t, a.Worker.GiveUp(t.Context(), first))
			require.Equal(t, before, lookup(t, b, "A-1"), "there is nothing to explain: its note would take the later one's place")
		})
	}
}

// A delivery whose time has not come finds, when it is given back, that a later one has
// settled the intent or works on it. A NAK would take the message from that one.
func TestR7WhatALaterDeliveryHasIsNotGivenBack(t *testing.T) {
	for name, meanwhile := range map[string]func(*queue.Queue, *settle.Delivery){
		"settled":   func(b *queue.Queue, d *settle.Delivery) { writeOutcome(t, b, d) },
		"worked on": func(b *queue.Queue, d *settle.Delivery) { require.NoError(t, b.Worker.NoteBegun(t.Context(), d)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
			asCluster(a)
			publish(t, a, intent("A-1", "i1"))
			first := pull(t, a, 1)[0]
			second := again(t, first, b)
			said := &told{Answer: first.ExportAnswer()}
			first.ExportSetAnswer(said)
			meanwhile(b, second)
			require.True(t, first.Lease().Valid())
			require.NoError(t, a.Worker.HandBack(t.Context(), first, time.Hour))
			require.Zero(t, said.n)
		})
	}
}

// writeOutcome writes the outcome of a delivery, and no more: its worker is about to file
// the letter.
func writeOutcome(t *testing.T, q *queue.Queue, d *settle.Delivery) {
	t.Helper()
	d.ExportSetAnswer(unheard{d.ExportAnswer()})
	settleAs(t, q, d, report(order.Rejected, d.History))
}

// unheard is an answer that the broker does not hear.
type unheard struct{ settle.Answer }

func (unheard) Ack() error { return nil }
