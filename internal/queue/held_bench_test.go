//go:build linux

package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/order"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// BenchmarkHeldIntent measures what an intent that is not settled for long costs those
// above it in the log, on the disk of the temporary folder, synced: it holds the floor, so
// none of them leaves with a purge (R14). It settles b.N intents and waits until the
// log has nothing but the held one. Of a held intent for an hour only the number matters.
func BenchmarkHeldIntent(b *testing.B) {
	for _, held := range []int{0, 1} {
		b.Run(fmt.Sprintf("held=%d", held), func(b *testing.B) { benchHeld(b, held) })
	}
}

func benchHeld(b *testing.B, held int) {
	s, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Listen: "127.0.0.1:0"})
	noError(b, err)
	b.Cleanup(s.Stop)
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker = s.URL, s.Token, "w1", true
	cfg.Living = living
	q, err := Open(b.Context(), cfg, zerolog.Nop())
	noError(b, err)
	b.Cleanup(q.Close)
	publishHeld(b, q, "held-", 0, held)
	for kept := 0; kept < held; { // whoever holds it asks for more time again and again
		noError(b, q.Pull(b.Context(), held-kept, time.Second, func(ds []*settle.Delivery) { kept += len(ds) }))
	}

	ctx, cancel := context.WithCancel(b.Context())
	var trims sync.WaitGroup
	trims.Go(func() {
		for ; ctx.Err() == nil; _ = settle.Sleep(ctx, settle.TrimEvery) {
			noError(b, unlessEnded(ctx, errors.Join(q.Trimmer.Trim(ctx), q.Trimmer.TrimSingly(ctx))))
		}
	})
	defer func() { cancel(); trims.Wait() }()
	before, largest := written(b), int64(0)
	b.ResetTimer()
	for n := 0; n < b.N; n += 500 {
		some := min(500, b.N-n)
		publishHeld(b, q, "A-", n, some)
		settleHeld(b, q, some)
		room, err := q.Census.Room(b.Context())
		noError(b, err)
		largest = max(largest, room.Bytes)
	}
	b.StopTimer()
	for {
		room, err := q.Census.Room(b.Context())
		noError(b, err)
		if room.Msgs == int64(held) {
			break
		}
		noError(b, settle.Sleep(b.Context(), settle.TrimEvery))
	}
	b.ReportMetric(float64(written(b)-before)/float64(b.N), "written-B/intent")
	b.ReportMetric(float64(largest)/1024, "log-KiB")
}

func publishHeld(b *testing.B, q *Queue, prefix string, from, n int) {
	in := make([]settle.Intent, n)
	for i := range in {
		no := fmt.Sprint(prefix, from+i)
		in[i] = settle.Intent{OrderNo: no, ID: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"note":"%0200d"}`, no, i)}
	}
	for _, r := range q.PublishMany(b.Context(), in) {
		noError(b, r.Err)
	}
}

// settleHeld settles the next n intents as accepted, 64 at a time.
func settleHeld(b *testing.B, q *Queue, n int) {
	var done atomic.Int64
	var all sync.WaitGroup
	slots := make(chan struct{}, 64)
	for pulled := 0; pulled < n; {
		noError(b, q.Pull(b.Context(), n-pulled, time.Second, func(ds []*settle.Delivery) {
			pulled += len(ds)
			for _, d := range ds {
				slots <- struct{}{}
				all.Go(func() {
					defer func() { <-slots }()
					r := report(order.Accepted, d.History)
					_, err := q.Worker.Settle(b.Context(), d, &r, order.Decide(&r, order.Facts{}))
					noError(b, err)
					d.Release()
					done.Add(1)
				})
			}
		}))
	}
	all.Wait()
}

// written returns how many bytes this process caused to be written to disks.
func written(b *testing.B) (n int64) {
	text, err := os.ReadFile("/proc/self/io")
	noError(b, err)
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "write_bytes: %d", &n); err == nil {
			return n
		}
	}
	b.Fatal("/proc/self/io has no write_bytes")
	return 0
}

func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func noError(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
