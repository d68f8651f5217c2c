package deadletter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

const patience = 30 * time.Second

// rig is a broker with streams, a worker's connection and that of a person.
type rig struct {
	*testing.T
	broker *queuetest.Broker
	worker *queue.Queue
	q      *queue.Queue
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, broker: queuetest.Start(t)}
	r.worker, r.q = queuetest.Open(t, r.broker, "worker"), r.command()
	return r
}

// command connects as a person's command does, which waits for its broker.
func (r *rig) command() *queue.Queue {
	return queuetest.Open(r, r.broker, "command", queuetest.AsCommand, func(c *queue.Config) { c.BrokerWait, c.Tell = time.Minute, func(string) {} })
}

// enqueue stores intents NAME-001, NAME-002 and so on.
func (r *rig) enqueue(name string, n int) {
	r.Helper()
	var intents []settle.Intent
	for i := range n {
		no := fmt.Sprintf("%s-%03d", name, i+1)
		intents = append(intents, settle.Intent{OrderNo: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no), Batch: name})
	}
	for _, p := range r.worker.PublishMany(r.T.Context(), intents) {
		require.NoError(r, p.Err)
	}
}

// fail gives n stored orders an outcome and a dead letter.
func (r *rig) fail(n int, end order.Report) {
	r.Helper()
	for _, d := range queuetest.Pull(r, r.worker, n) {
		queuetest.Settle(r, r.worker, d, end)
	}
	queuetest.Drained(r, r.worker)
}

// letters files n dead letters of a batch with an outcome.
func (r *rig) letters(name string, n int, v order.Verdict, reason string) {
	r.Helper()
	now := time.Now().UTC()
	r.enqueue(name, n)
	end := order.EndAnswer
	if v == order.Unsure {
		end = order.EndTotalBudget
	}
	r.fail(n, order.Report{End: end, Verdict: v, Status: 422, Reason: reason,
		History: order.History{Attempts: 1, Unsure: v == order.Unsure, FirstAttemptAt: now, LastAttemptAt: now}})
}

// all is the group of the letters up to now whose order number begins with a prefix.
func (r *rig) all(prefix string) Group {
	r.Helper()
	last, err := LastLetter(r.T.Context(), r.q)
	require.NoError(r, err)
	return Group{Last: last, Selects: func(l *settle.Letter) bool { return strings.HasPrefix(l.OrderNo, prefix) }}
}

// pending counts the stored intents whose order number begins with a prefix.
func (r *rig) pending() int {
	r.Helper()
	c, err := r.q.Census.Count(r.T.Context())
	require.NoError(r, err)
	return int(c.Pending)
}

// requirePending: so many intents wait. The consumer counts what is stored a moment later.
func (r *rig) requirePending(n int) {
	r.Helper()
	require.Eventually(r, func() bool { return r.pending() == n }, patience, 5*time.Millisecond)
}

func (r *rig) left() int {
	r.Helper()
	c, err := r.q.Census.Count(r.T.Context())
	require.NoError(r, err)
	return int(c.Letters)
}
