package settle_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

// What the tests do to a queue.
var (
	startBroker    = queuetest.Start
	openQueue      = queuetest.Open
	body           = queuetest.Body
	intent         = queuetest.Intent
	publish        = queuetest.Publish
	pull           = queuetest.Pull
	report         = queuetest.Report
	settleAs       = queuetest.Settle
	letterOf       = queuetest.Letter
	requireDrained = queuetest.Drained
)

// twoOwners publishes an intent that worker a was given and then worker b: a does not know
// that its claim is over.
func twoOwners(t *testing.T) (a, b *queue.Queue, former, present *settle.Delivery) {
	t.Helper()
	s := startBroker(t)
	a, b = openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	former = pull(t, a, 1)[0]
	return a, b, former, again(t, former, b)
}

// attempting notes a delivery's first attempt, which is under way then.
func attempting(t *testing.T, q *queue.Queue, d *settle.Delivery) order.History {
	t.Helper()
	h := d.History
	h.Attempts, h.LastAttemptAt = 1, time.Now().UTC()
	require.NoError(t, q.Worker.NoteAttempt(t.Context(), d, h))
	return h
}

// meanwhile is a store that runs a function once, before or after the first request of a kind.
type meanwhile struct {
	settle.Store
	beforeIntent, afterIntent, beforeLetter, afterLetter, afterFiled, beforePublish, beforeRemoval func()
}

func once(do *func()) {
	if now := *do; now != nil {
		*do = nil
		now()
	}
}

func (s *meanwhile) Intent(ctx context.Context, orderNo string) (*settle.Message, error) {
	once(&s.beforeIntent)
	defer once(&s.afterIntent)
	return s.Store.Intent(ctx, orderNo)
}

func (s *meanwhile) Intents(ctx context.Context, orderNos []string) ([]*settle.Message, error) {
	once(&s.beforeIntent)
	defer once(&s.afterIntent)
	return s.Store.Intents(ctx, orderNos)
}

func (s *meanwhile) Letter(ctx context.Context, token string, seq uint64) (*settle.Letter, error) {
	once(&s.beforeLetter)
	defer once(&s.afterLetter)
	return s.Store.Letter(ctx, token, seq)
}

func (s *meanwhile) PutLetter(ctx context.Context, token string, l *settle.Letter) (uint64, error) {
	defer once(&s.afterFiled)
	return s.Store.PutLetter(ctx, token, l)
}

func (s *meanwhile) PublishIntent(ctx context.Context, m *settle.Message) (settle.PublishStatus, uint64, error) {
	once(&s.beforePublish)
	return s.Store.PublishIntent(ctx, m)
}

func (s *meanwhile) DeleteLetter(ctx context.Context, token string, seq uint64) error {
	once(&s.beforeRemoval)
	return s.Store.DeleteLetter(ctx, token, seq)
}

// openCut connects a worker whose connection can be cut.
func openCut(t *testing.T, s *queuetest.Broker, name string, cut *netcut.Dialer) *queue.Queue {
	t.Helper()
	return queuetest.Connect(t, s.Config(name), nats.SetCustomDialer(cut), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
}

// forgetIDs makes the broker forget the IDs of intents soon. Call it before the first is
// published: its timer may have been set for the former time.
func forgetIDs(t *testing.T, s *queuetest.Broker) {
	t.Helper()
	js := s.JetStream(t)
	stream, err := js.Stream(t.Context(), "ORDERS")
	require.NoError(t, err)
	forgetful := stream.CachedInfo().Config
	forgetful.Duplicates = 100 * time.Millisecond
	_, err = js.UpdateStream(t.Context(), forgetful)
	require.NoError(t, err)
}

// publishAgain publishes an intent whose ID the broker is about to forget.
func publishAgain(t *testing.T, q *queue.Queue, in settle.Intent) {
	t.Helper()
	require.Eventually(t, func() bool {
		p, err := q.Producer.Publish(t.Context(), in)
		return err == nil && p == settle.Stored
	}, time.Minute, 20*time.Millisecond)
}

// again gives a delivery back without a note, as if its worker had been killed,
// and pulls the redelivery for the given worker.
func again(t *testing.T, d *settle.Delivery, to *queue.Queue) *settle.Delivery {
	t.Helper()
	require.NoError(t, d.ExportAnswer().Nak())
	return pull(t, to, 1)[0]
}

// lettersOf reads the letters of an order_no, the one that was filed last first.
func lettersOf(t *testing.T, q *queue.Queue, no string) []*settle.Letter {
	t.Helper()
	letters, err := q.Ledger.Letters(t.Context(), no)
	require.NoError(t, err)
	return letters
}

// removeLetter removes a letter that its record goes on naming, as somebody may do by hand.
func removeLetter(t *testing.T, q *queue.Queue, l *settle.Letter) {
	t.Helper()
	require.NoError(t, q.Store().DeleteLetter(t.Context(), l.Token(), l.Seq))
}

// requireLetters checks how many letters are stored, named or not.
func requireLetters(t *testing.T, q *queue.Queue, n int) {
	t.Helper()
	c, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, n, c.Letters)
}

// lookup reads the last word on an order_no.
func lookup(t *testing.T, q *queue.Queue, no string) *order.Record {
	t.Helper()
	return queuetest.Lookup(t, q, no).Record
}

func requireBalanced(t *testing.T, q *queue.Queue) *audit.AuditResult {
	t.Helper()
	a, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
	return a
}
