package enqueue

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"orderpost/internal/importer"
	"orderpost/internal/order"
	"orderpost/internal/program"
)

// meter shows the progress of the orders: as a bar on a terminal, otherwise as lines,
// regularly and at every change.
type meter struct {
	notices  *notices
	w        io.Writer
	terminal bool
	quiet    bool
	alone    string // the text if no worker runs
	last     time.Time
	state    string // what holds the orders up

	now  atomic.Pointer[importer.Progress] // for the bar
	pool *mpb.Progress
	bar  *mpb.Bar
}

func newMeter(ctx context.Context, n *notices, quiet bool) *meter {
	return &meter{alone: program.Spell(ctx, "no worker is running (cmd/worker)"), notices: n, w: n.w, quiet: quiet, terminal: program.IsTerminal(n.w), last: time.Now()}
}

// notices prints lines that may come at any time, above the bar if there is one.
type notices struct {
	mu  sync.Mutex
	w   io.Writer
	bar io.Writer
}

func (n *notices) tell(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	to := n.w
	if n.bar != nil {
		to = n.bar
	}
	_, _ = fmt.Fprintln(to, line)
}

// above sets the bar above which lines are printed; nil = none.
func (n *notices) above(bar io.Writer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bar = bar
}

// plainEvery is the time between two plain lines.
const plainEvery = 10 * time.Second

func (m *meter) show(p importer.Progress) {
	switch {
	case m.quiet:
	case m.terminal:
		m.draw(&p)
	default:
		m.print(&p)
	}
}

func (m *meter) print(p *importer.Progress) {
	state := m.obstacle(p)
	if state != m.state || time.Since(m.last) >= plainEvery {
		m.last = time.Now()
		line := fmt.Sprintf("%d of %d orders settled%s", p.Settled, p.Total, byOutcome(p))
		if speed := speed(p); speed != "" {
			line += "; " + speed
		}
		if state != "" {
			line += "; " + state
		}
		_, _ = fmt.Fprintln(m.w, program.Printable(line))
	}
	m.state = state
}

// draw updates the bar.
func (m *meter) draw(p *importer.Progress) {
	m.now.Store(p)
	if m.bar == nil {
		m.pool = mpb.New(mpb.WithOutput(m.w), mpb.WithWidth(40))
		m.notices.above(m.pool)
		m.bar = m.pool.AddBar(int64(p.Total),
			mpb.BarRemoveOnComplete(), // the summary follows
			mpb.PrependDecorators(decor.CountersNoUnit("%d of %d orders settled ")),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return speed(m.now.Load()) })),
			mpb.BarExtender(mpb.BarFillerFunc(m.below), false))
	}
	m.bar.SetCurrent(int64(p.Settled))
}

// below returns the lines under the bar.
func (m *meter) below(w io.Writer, _ decor.Statistics) error {
	p := m.now.Load()
	for _, line := range []string{strings.TrimPrefix(byOutcome(p), ", "), m.obstacle(p)} {
		if line != "" {
			if _, err := fmt.Fprintln(w, program.Printable(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

// end removes the bar.
func (m *meter) end() {
	if m.bar != nil {
		m.notices.above(nil)
		m.bar.Abort(true)
		m.pool.Wait()
	}
}

// obstacle says what holds the orders up; "" = nothing.
func (m *meter) obstacle(p *importer.Progress) string {
	switch {
	case p.Ended:
		return ""
	case p.Workers == 0:
		return m.alone
	case p.Paused != "":
		return fmt.Sprintf("%d wait, held by %s", p.Waiting, p.Paused)
	case len(p.Held) > 0:
		return "the pool is held: " + strings.Join(p.Held, "; ")
	case p.Waiting > 0:
		return "the others wait for their turn or their time"
	}
	return ""
}

func byOutcome(p *importer.Progress) string {
	var b strings.Builder
	for _, o := range order.Outcomes() {
		if n := p.Outcomes[o]; n > 0 {
			fmt.Fprintf(&b, ", %s %d", o, n)
		}
	}
	return b.String()
}

// speed returns the rate and the time left as text; "" = not known.
func speed(p *importer.Progress) string {
	if p.Settled == 0 || p.Settled >= p.Total {
		return ""
	}
	text := fmt.Sprintf("%.0f/s", p.Rate())
	if left := p.Left(); left > 0 {
		text += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return text
}
