package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
	"orderpost/internal/status"
	"orderpost/internal/testing/queuetest"
)

// readings is everything that commands ask of the books.
var readings = []struct {
	name string
	do   func(ctx context.Context, q *queue.Queue) error
}{
	{"OrderStatuses", func(ctx context.Context, q *queue.Queue) error {
		got, err := status.OrderStatuses(ctx, q, []string{"R-1", "P-2", "nobody"})
		if err == nil && (got[0].Record == nil || got[1].Pending == nil) {
			err = fmt.Errorf("%+v", got)
		}
		return err
	}},
	{"Find", func(ctx context.Context, q *queue.Queue) error {
		found, err := status.Find(ctx, q, "R-1")
		if err == nil && len(found.Letters) == 0 {
			err = fmt.Errorf("%+v", found)
		}
		return err
	}},
	{"Imports", func(ctx context.Context, q *queue.Queue) error {
		list, err := imports.Imports(ctx, q)
		if err == nil && (len(list) != 1 || list[0].Batch != "march") {
			err = fmt.Errorf("%v", list)
		}
		return err
	}},
	{"SaveImport", func(ctx context.Context, q *queue.Queue) error {
		i, err := imports.ReadImport(ctx, q, "march")
		if err == nil {
			err = imports.SaveImport(ctx, q, i)
		}
		return err
	}},
	{"LastResult", func(ctx context.Context, q *queue.Queue) error { _, err := queue.LastResult(ctx, q); return err }},
	{"RecordsSince", func(ctx context.Context, q *queue.Queue) error {
		_, err := queue.RecordsSince(ctx, q, 0, func(*order.Record) error { return nil })
		return err
	}},
	{"EachRecord", func(ctx context.Context, q *queue.Queue) error {
		return queue.EachRecord(ctx, q, func(*order.Record) error { return nil })
	}},
	{"EachLetter", func(ctx context.Context, q *queue.Queue) error {
		return deadletter.EachLetter(ctx, q, func(*settle.Letter) error { return nil })
	}},
	{"EachPending", func(ctx context.Context, q *queue.Queue) error {
		return queue.EachPending(ctx, q, "march", func([]*settle.Pending) error { return nil })
	}},
	{"LetterPages", func(ctx context.Context, q *queue.Queue) error {
		return deadletter.LetterPages(ctx, q, func([]*settle.Letter) error { return nil })
	}},
	{"DryRunReplay", func(ctx context.Context, q *queue.Queue) error {
		_, err := deadletter.DryRunReplay(ctx, q, []*settle.Letter{{OrderNo: "R-1"}}, settle.ReplayOptions{})
		return err
	}},
	{"DryRunDrop", func(ctx context.Context, q *queue.Queue) error {
		_, err := deadletter.DryRunDrop(ctx, q, []*settle.Letter{{OrderNo: "R-1"}})
		return err
	}},
	{"Audit", func(ctx context.Context, q *queue.Queue) error { _, err := audit.Audit(ctx, q); return err }},
	{"CancelOrder", func(ctx context.Context, q *queue.Queue) error {
		c, err := imports.CancelOrder(ctx, q, "P-1", "anna")
		if err == nil && !c.NoWorker {
			err = fmt.Errorf("%+v", c)
		}
		return err
	}},
}

// askAll makes every request at the same time.
func askAll(t *testing.T, q *queue.Queue) []error {
	var all sync.WaitGroup
	errs := make([]error, len(readings))
	for i, r := range readings {
		all.Go(func() { errs[i] = r.do(t.Context(), q) })
	}
	all.Wait()
	return errs
}

// openCommand connects as a command does, which waits for its broker.
func openCommand(t *testing.T, dir string, wait time.Duration, tell func(string)) *queue.Queue {
	t.Helper()
	cfg := queue.DefaultConfig()
	cfg.Name, cfg.BrokerWait, cfg.Tell = "command", wait, tell
	cfg.Locate = func() (string, string, error) {
		end, err := embedded.ReadEndpoint(dir)
		return end.URL, end.Token, err
	}
	return queuetest.Connect(t, cfg)
}

// TestBooksAreReadThroughAnOutage: each request begins without a broker, and ends
// when that is back, or when its time is up.
func TestBooksAreReadThroughAnOutage(t *testing.T) {
	dir := t.TempDir()
	first := queuetest.Start(t, func(c *embedded.Config) { c.Dir = dir })
	w := queuetest.Open(t, first, "w1")
	queuetest.DeadLetter(t, w, "R-1")
	queuetest.Publish(t, w, queuetest.Intent("P-1", "p:1"), queuetest.Intent("P-2", "p:2"))
	require.NoError(t, imports.SaveImport(t.Context(), w, &imports.Import{Batch: "march", Rows: 3, Done: 3}))
	w.Close()
	waiting := make(chan struct{})
	var once sync.Once
	q := openCommand(t, dir, time.Minute, func(string) { once.Do(func() { close(waiting) }) })
	hasty := openCommand(t, dir, 300*time.Millisecond, func(string) {})
	first.Stop()
	require.Eventually(t, func() bool { return !q.Conn.Connected() && !hasty.Conn.Connected() }, time.Minute, time.Millisecond)
	for i, err := range askAll(t, hasty) {
		require.ErrorIs(t, err, queue.ErrUnreachable, readings[i].name)
	}

	done := make(chan []error)
	go func() { done <- askAll(t, q) }()
	<-waiting
	first.Restart(t)
	for i, err := range <-done {
		require.NoError(t, err, readings[i].name)
	}
	requireBalanced(t, q, 3)
}
