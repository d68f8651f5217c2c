package letters

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

const patience = 30 * time.Second

// rig is a broker with streams, a worker's connection and that of a person.
type rig struct {
	*testing.T
	dir    string
	broker *embedded.Server
	worker *queue.Queue
	q      *queue.Queue
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, dir: t.TempDir()}
	r.start("127.0.0.1:0")
	r.worker, r.q = r.open(true), r.open(false)
	return r
}

func (r *rig) start(listen string) {
	r.Helper()
	s, err := embedded.Start(embedded.Config{Dir: r.dir, Listen: listen, NoSync: true})
	require.NoError(r, err)
	r.broker = s
	r.Cleanup(s.Stop)
}

func (r *rig) open(worker bool) *queue.Queue {
	r.Helper()
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Worker = r.broker.URL, r.broker.Token, worker
	if worker {
		cfg.Present = func(context.Context, *queue.Bucket) ([]string, error) { return nil, nil }
	} else {
		cfg.BrokerWait = time.Minute
		cfg.Tell = func(string) {}
	}
	q, err := queue.Open(r.Context(), cfg, zerolog.Nop())
	require.NoError(r, err)
	r.Cleanup(q.Close)
	return q
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
	for n > 0 {
		var got []*settle.Delivery
		require.NoError(r, r.worker.Pull(r.T.Context(), min(n, 64), time.Second, func(ds []*settle.Delivery) { got = append(got, ds...) }))
		for _, d := range got {
			_, err := r.worker.Worker.Settle(r.T.Context(), d, end, order.Decide(end, order.Facts{}))
			require.NoError(r, err)
			d.Release()
		}
		n -= len(got)
	}
	require.Eventually(r, func() bool {
		_ = r.worker.Trimmer.Trim(r.T.Context())
		room, err := r.worker.Census.Room(r.T.Context())
		return err == nil && room.Msgs == 0
	}, patience, 5*time.Millisecond)
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
	last, err := books.LastLetter(r.T.Context(), r.q)
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
