package notify

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// aWorker gives the signs of life of a worker until stop is called. It posts nothing for reasons, if there
// are some.
func aWorker(t *testing.T, q *queue.Queue, reasons ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p, control, over := fleet.Presence{Worker: "w-1", ID: "1", Open: len(reasons) == 0, Reasons: reasons}, fleet.New(q), make(chan struct{})
	if !p.Open {
		p.ShutMS = time.Hour.Milliseconds()
	}
	require.NoError(t, control.Appear(ctx, p))
	go func() {
		defer close(over)
		for settle.Sleep(ctx, time.Second) == nil {
			_ = control.Appear(ctx, p)
		}
	}()
	stop = func() { cancel(); <-over }
	t.Cleanup(stop)
	return stop
}

// hasty returns a sender that tells alerts without waiting.
func hasty(t *testing.T, q *queue.Queue, url string, gap time.Duration, types ...string) *Sender {
	s := newTestSender(t, q, url, ofTypes(types...))
	s.pace = pace{look: 20 * time.Millisecond, after: 200 * time.Millisecond, gap: gap}
	return s
}

// TestTheFleetIsBlocked is told once, as soon as an order is due, and again when it was not blocked meanwhile.
func TestTheFleetIsBlocked(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e := newHookServer(t)
	stopWorker := aWorker(t, q, "the API refuses the key (status 401)")
	s := hasty(t, q, e.URL, 0, TypeBlocked, TypeHeld)
	stop := run(t, s)
	require.NoError(t, fleet.New(q).SetHold(t.Context(), fleet.Hold{By: "ann", Since: time.Now().UTC()}))
	queuetest.Publish(t, q, queuetest.Intent("A-1", "1"))
	awaitTold[Fleet](t, e, TypeHeld, 1)
	require.True(t, kept(t, q).Blocked.Since.IsZero(), "a person holds it")
	require.NoError(t, fleet.New(q).Resume(t.Context(), "ann"))
	ids, all := awaitTold[Blocked](t, e, TypeBlocked, 1)
	require.Equal(t, []string{"the API refuses the key (status 401)"}, all[0].Reasons)
	require.EqualValues(t, 1, all[0].Due)
	require.Less(t, all[0].Since, time.Now().Add(-time.Minute), "the worker's gate has been closed for an hour")
	require.Eventually(t, func() bool { return kept(t, q).Blocked.Told }, time.Minute, 5*time.Millisecond)
	stop()

	stop = run(t, hasty(t, q, e.URL, 0, TypeBlocked)) // the next sender knows that it was told
	stopWorker()
	stopWorker = aWorker(t, q)
	require.Eventually(t, func() bool { return kept(t, q).Blocked.Since.IsZero() }, time.Minute, 5*time.Millisecond)
	stopWorker()
	aWorker(t, q, "its disk is full")
	again, all := awaitTold[Blocked](t, e, TypeBlocked, 2)
	require.Equal(t, []string{"its disk is full"}, all[1].Reasons)
	require.NotEqual(t, ids[0], again[1])
	requireSchema(t, e)
	stop()
}

// TestABlockedFleetWithoutWork is not told, nor one whose orders wait for their time or that a person pauses.
func TestABlockedFleetWithoutWork(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	s, ctx := hasty(t, q, newHookServer(t).URL, 0, TypeBlocked), t.Context()
	run(t, s)
	aWorker(t, q, "its disk is full")
	require.Eventually(t, func() bool { return s.stats.session.Load() != nil }, time.Minute, time.Millisecond)
	due := func() uint64 {
		n, err := s.stats.session.Load().due(ctx)
		require.NoError(t, err)
		return n
	}
	waits := func(o *importer.Options) { o.Direct = false }
	importFile(t, q, "march", 2, waits)
	require.EqualValues(t, 2, due())
	require.Eventually(t, func() bool { return kept(t, q).Blocked.Told }, time.Minute, 5*time.Millisecond)
	require.NoError(t, imports.PauseImport(ctx, q, "march", "ann"))
	require.Zero(t, due())
	require.Eventually(t, func() bool { return !kept(t, q).Blocked.Told }, time.Minute, 5*time.Millisecond)
	importFile(t, q, "april", 2, waits, func(o *importer.Options) { o.NotBefore = time.Now().Add(time.Hour) })
	require.Zero(t, due())
}

// TestAPersonIsNeeded is told when more needs one than before, after a gap.
func TestAPersonIsNeeded(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	queuetest.Trimming(t, q)
	e := newHookServer(t)
	queuetest.DeadLetter(t, q, "A-1")
	stop := run(t, hasty(t, q, e.URL, 0, TypeNeeded))
	ids, all := awaitTold[Needed](t, e, TypeNeeded, 1)
	require.Equal(t, []Need{{Kind: "dead_letters", Count: 1, Command: "orderpost deadletter list", Console: "/letters"}}, all[0].Needs)
	counts := func() map[string]int { return kept(t, q).Needed.Counts }
	require.Eventually(t, func() bool { return counts()["dead_letters"] == 1 }, time.Minute, 5*time.Millisecond)
	stop()

	stop = run(t, hasty(t, q, e.URL, 0, TypeNeeded))
	_, err := q.Operator.Drop(t.Context(), queuetest.Letter(t, q, "A-1"), settle.Person{Name: "ann"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return counts()["dead_letters"] == 0 }, time.Minute, 5*time.Millisecond)
	queuetest.DeadLetter(t, q, "A-2")
	again, all := awaitTold[Needed](t, e, TypeNeeded, 2)
	require.Equal(t, 1, all[1].Needs[0].Count, "it grew from none")
	require.NotEqual(t, ids[0], again[1])
	require.Eventually(t, func() bool { return counts()["dead_letters"] == 1 }, time.Minute, 5*time.Millisecond)
	stop()

	s := hasty(t, q, e.URL, time.Hour, TypeNeeded)
	run(t, s)
	queuetest.DeadLetter(t, q, "A-3")
	require.Eventually(t, func() bool { return s.stats.session.Load() != nil }, time.Minute, time.Millisecond)
	m, _, err := s.stats.session.Load().lookNeeded(t.Context())
	require.NoError(t, err)
	require.Nil(t, m, "the last one was less than an hour ago")
	requireSchema(t, e)
}
