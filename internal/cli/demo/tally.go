package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
)

// tally counts the events that the worker reports.
type tally struct {
	mu       sync.Mutex
	outcomes map[string]int
	attempts int
	retries  map[string]int // by cause
	gate     []string
}

func newTally() *tally {
	return &tally{outcomes: make(map[string]int), retries: make(map[string]int)}
}

// Attempted implements service.Watcher.
func (t *tally) Attempted(a submit.AttemptEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts++
	if a.Verdict == order.Retry || a.Verdict == order.Unsure {
		t.retries[a.Verdict.String()+": "+a.Reason]++
	}
}

// GateChanged implements service.Watcher.
func (t *tally) GateChanged(s gate.State) {
	t.mu.Lock()
	t.gate = s.Reasons
	t.mu.Unlock()
}

// Settled implements service.Watcher.
func (t *tally) Settled(rec *order.Record, _ string) {
	t.mu.Lock()
	t.outcomes[rec.Word]++
	t.mu.Unlock()
}

// liveLine redraws one line on a terminal. It prints nothing elsewhere.
type liveLine struct {
	w     io.Writer
	on    bool
	total int
	start time.Time
}

func newLiveLine(w io.Writer, total int) *liveLine {
	return &liveLine{w: w, on: cli.IsTerminal(w), total: total, start: time.Now()}
}

func (l *liveLine) show(t *tally, c queue.Counts) {
	if !l.on {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	settled := 0
	for _, o := range order.Outcomes() {
		if n := t.outcomes[o.String()]; n > 0 {
			settled += n
			parts = append(parts, fmt.Sprintf("%s %d", o, n))
		}
	}
	line := fmt.Sprintf("%4.1fs  %d/%d settled  %s  attempts %d", time.Since(l.start).Seconds(), settled, l.total, strings.Join(parts, "  "), t.attempts)
	if len(t.gate) > 0 {
		line += "  waiting: " + t.gate[0]
	}
	if len(line) > 110 {
		line = line[:110]
	}
	_, _ = fmt.Fprintf(l.w, "\r\x1b[K%s", line)
}

func (l *liveLine) end() {
	if l.on {
		_, _ = fmt.Fprint(l.w, "\r\x1b[K")
	}
}

// quietWorkers drops enqueue's line that no worker is running: the demo's worker is
// just starting.
type quietWorkers struct{ w io.Writer }

func (q quietWorkers) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("No worker is running")) {
		return len(p), nil
	}
	return q.w.Write(p)
}
