package audit

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// keptBroker is an embedded broker whose intents can be put back on the disk as
// they were, while everything else stays: what is left when it is killed after
// the consumer's state was written, and before the removal of the message was.
type keptBroker struct {
	t    *testing.T
	dir  string
	kept string // copy of the intents' message files
}

func (k *keptBroker) start() *queuetest.Broker {
	k.t.Helper()
	return startBroker(k.t, func(c *embedded.Config) { c.Dir, c.NoSync = k.dir, false })
}

func (k *keptBroker) files() string {
	k.t.Helper()
	found, err := filepath.Glob(filepath.Join(k.dir, "jetstream", "jetstream", "*", "streams", "ORDERS", "msgs"))
	require.NoError(k.t, err)
	require.Len(k.t, found, 1)
	return found[0]
}

func (k *keptBroker) keep() {
	k.t.Helper()
	k.kept = k.t.TempDir()
	require.NoError(k.t, os.CopyFS(k.kept, os.DirFS(k.files())))
}

func (k *keptBroker) putBack() {
	k.t.Helper()
	files := k.files()
	require.NoError(k.t, os.RemoveAll(files))
	require.NoError(k.t, os.CopyFS(files, os.DirFS(k.kept)))
}

// left brings an intent to the state in which the broker has its acknowledgement
// and the message, and returns a queue on it. done has the intent acknowledged.
func (k *keptBroker) left(done func(q *queue.Queue, s *queuetest.Broker)) (*queue.Queue, *queuetest.Broker) {
	k.t.Helper()
	s := k.start()
	q := openQueue(k.t, s, "a")
	publish(k.t, q, settle.Intent{OrderNo: "L-1", Body: body("L-1")})
	k.keep()
	for stored := false; !stored; { // a server that stops waits 100 ms for the consumer's state to be written (nats-server 2.15, waitOnFlusher)
		done(q, s)
		require.Eventually(k.t, func() bool {
			c, err := q.Census.Count(k.t.Context())
			floor, ferr := q.AckFloor(k.t.Context())
			return err == nil && ferr == nil && c.Pending == 0 && floor == 1
		}, time.Minute, time.Millisecond)
		q.Close()
		s.Stop()
		k.putBack()
		s = k.start()
		q = openQueue(k.t, s, "b")
		floor, err := q.AckFloor(k.t.Context())
		require.NoError(k.t, err)
		stored = floor == 1
	}
	requireStored(k.t, q, 1) // the message is there again
	n := 0
	require.NoError(k.t, q.Pull(k.t.Context(), 1, 300*time.Millisecond, func(ds []*settle.Delivery) { n += len(ds) }))
	require.Zero(k.t, n, "and delivered to nobody")
	return q, s
}

// accept settles the intent as a worker does.
func (k *keptBroker) accept(q *queue.Queue, _ *queuetest.Broker) {
	k.t.Helper()
	d := pull(k.t, q, 1)[0]
	settleAs(k.t, q, d, report(order.Accepted, d.History))
}

// acknowledge takes the intent away without an outcome, as no worker does.
func (k *keptBroker) acknowledge(_ *queue.Queue, s *queuetest.Broker) {
	k.t.Helper()
	consumer, err := s.JetStream(k.t).Consumer(k.t.Context(), "ORDERS", "workers")
	require.NoError(k.t, err)
	msg, err := consumer.Next(jetstream.FetchMaxWait(time.Minute)) // it may be delivered again
	require.NoError(k.t, err)
	require.NoError(k.t, msg.DoubleAck(k.t.Context()))
}

func TestR14ASettledIntentThatCameBackIsTrimmed(t *testing.T) {
	k := &keptBroker{t: t, dir: t.TempDir()}
	q, _ := k.left(k.accept)
	a, err := Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), a.Offenders)
	require.EqualValues(t, 1, a.Unacked)

	require.NoError(t, q.Trimmer.Trim(t.Context()))
	requireStored(t, q, 0)
	publish(t, q, settle.Intent{OrderNo: "L-1", Body: body("L-1")}) // its order_no can be used again
	for range 2 {
		require.NoError(t, q.Trimmer.Trim(t.Context()))
		requireStored(t, q, 1) // what waits is left alone
	}
}

// changeRecord changes the record of L-1 and returns it.
func changeRecord(t *testing.T, q *queue.Queue, change func(r *order.Record)) *order.Record {
	t.Helper()
	entry, err := q.Store().Record(t.Context(), order.Token("L-1"))
	require.NoError(t, err)
	change(entry.Record)
	_, err = q.Store().PutRecord(t.Context(), order.Token("L-1"), entry.Record, entry.Seq)
	require.NoError(t, err)
	return entry.Record
}

func requireStored(t *testing.T, q *queue.Queue, n int) {
	t.Helper()
	room, err := q.Census.Room(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, n, room.Msgs)
}

// The order's last word is about a later intent, which could be stored only when
// this one had its outcome and was removed.
func TestR14AnIntentThatCameBackAfterALaterOneIsTrimmed(t *testing.T) {
	k := &keptBroker{t: t, dir: t.TempDir()}
	q, _ := k.left(k.accept)
	publish(t, q, settle.Intent{OrderNo: "L-9", Body: body("L-9")}) // the stream reaches to the later one
	changeRecord(t, q, func(r *order.Record) {
		r.IntentID, r.Seq, r.EnqueuedAt, r.Settled = "later", 2, r.EnqueuedAt.Add(time.Hour), 2
	})

	a, err := Audit(t.Context(), q)
	require.NoError(t, err)
	require.Empty(t, a.Offenders)
	require.EqualValues(t, 1, a.Pending, "that one")
	require.EqualValues(t, 1, a.Unacked)
	require.EqualValues(t, 2, a.Settled)
	require.NoError(t, q.Trimmer.Trim(t.Context()))
	requireStored(t, q, 1)
}

// What has no outcome is never removed, and never silent.
func TestR14AStrandedIntentIsNamedAndStays(t *testing.T) {
	k := &keptBroker{t: t, dir: t.TempDir()}
	q, s := k.left(k.acknowledge)
	publish(t, q, settle.Intent{OrderNo: "L-2", Body: body("L-2")})
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Accepted, d.History))
	require.Eventually(t, func() bool {
		floor, err := q.AckFloor(t.Context())
		return err == nil && floor == 2
	}, time.Minute, time.Millisecond)
	require.NoError(t, q.Trimmer.Trim(t.Context()))
	requireStored(t, q, 2) // nothing at or above the stranded one leaves in a purge
	a, err := Audit(t.Context(), q)
	require.NoError(t, err)
	require.False(t, a.Balanced())
	require.Equal(t, "L-1", a.Offenders[0].OrderNo)
	require.Contains(t, a.Offenders[0].Problem, "deliver it to nobody")

	require.NoError(t, s.JetStream(t).DeleteConsumer(t.Context(), "ORDERS", "workers")) // as it says
	q = openQueue(t, s, "c")
	require.Equal(t, settle.WorkSubmit, pull(t, q, 1)[0].Work)
}
