package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"orderpost/internal/importer"
	"orderpost/internal/order"
	"orderpost/internal/program"
	"orderpost/internal/queue"
)

// meter shows how far the orders are: one line, redrawn, on a terminal; plain
// lines, now and then and when something changes, elsewhere.
type meter struct {
	w        io.Writer
	terminal bool
	quiet    bool
	last     time.Time
	state    string // what is in the way
}

func newMeter(w io.Writer, quiet bool) *meter {
	return &meter{w: w, quiet: quiet, terminal: program.IsTerminal(w), last: time.Now()}
}

// plainEvery is the pace of plain lines.
const plainEvery = 10 * time.Second

func (m *meter) show(p importer.Progress) {
	if m.quiet {
		return
	}
	state := obstacle(&p)
	changed := state != m.state
	m.state = state
	if m.terminal {
		_, _ = fmt.Fprintf(m.w, "\r\x1b[K%s", clipLine(progressLine(&p, state)))
		return
	}
	if changed || time.Since(m.last) >= plainEvery {
		m.last = time.Now()
		_, _ = fmt.Fprintln(m.w, progressLine(&p, state))
	}
}

func (m *meter) end() {
	if m.terminal && !m.quiet {
		_, _ = fmt.Fprint(m.w, "\r\x1b[K")
	}
}

func clipLine(line string) string {
	const width = 118
	if r := []rune(line); len(r) > width {
		return string(r[:width])
	}
	return line
}

// obstacle says why nothing happens; "" while there is nothing in the way.
func obstacle(p *importer.Progress) string {
	switch {
	case p.Ended:
		return ""
	case p.Workers == 0:
		return "no worker is running (cmd/worker)"
	case len(p.Held) > 0:
		return "the pool is held: " + strings.Join(p.Held, "; ")
	}
	return ""
}

func progressLine(p *importer.Progress, state string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d orders settled", p.Settled, p.Total)
	for _, o := range order.Outcomes() {
		if n := p.Outcomes[o]; n > 0 {
			fmt.Fprintf(&b, ", %s %d", o, n)
		}
	}
	if p.Settled > 0 && p.Settled < p.Total {
		fmt.Fprintf(&b, "; %.0f/s", p.Rate())
		if left := p.Left(); left > 0 {
			fmt.Fprintf(&b, ", %s left", left.Round(time.Second))
		}
	}
	if state != "" {
		b.WriteString("; " + state)
	}
	return b.String()
}

// comeBack says how to find an import again.
func comeBack(w io.Writer, batch string) {
	_, _ = fmt.Fprintf(w, "The orders go on without this program. To come back:\n"+
		"  enqueue watch %[1]s\n  enqueue status %[1]s\n  enqueue results %[1]s\n  enqueue order ORDER_NO\n", batch)
}

// wait follows an import to its end and writes the results file.
func (j *job) wait(ctx context.Context, q *queue.Queue, f *checkedFile, done *importer.Published) error {
	m := newMeter(j.stderr, j.o.quiet)
	p, err := done.Wait(ctx, q, m.show)
	m.end()
	if err != nil {
		if ctx.Err() != nil {
			comeBack(j.stderr, f.Batch)
		}
		return err
	}
	tally, err := writeResults(ctx, q, f.File, j.o.results)
	if err != nil {
		return err
	}
	j.tellOutcomes(f.File, p, tally)
	j.partial = j.partial || !tally.AllAccepted()
	return nil
}

// writeResults writes the results file, if there is to be one, and counts the
// rows by their outcome.
func writeResults(ctx context.Context, q *queue.Queue, f *importer.File, path string) (tally importer.Tally, err error) {
	if path == "" {
		return f.WriteResults(ctx, q, nil)
	}
	err = writeNew(path, func(w io.Writer) error {
		tally, err = f.WriteResults(ctx, q, w)
		return err
	})
	if err != nil {
		err = fmt.Errorf("results not written: %w", err)
	}
	return tally, err
}

func (j *job) tellOutcomes(f *importer.File, p importer.Progress, tally importer.Tally) {
	if j.o.json {
		encodeJSON(j.stdout, outcomes{Batch: f.Batch, File: f.Name(), Outcomes: tally, Seconds: p.Elapsed.Seconds(), Results: j.o.results})
		return
	}
	if j.o.quiet {
		return
	}
	_, _ = fmt.Fprintf(j.stdout, "%s: outcomes after %s\n", f.Name(), p.Elapsed.Round(100*time.Millisecond))
	printTally(j.stdout, tally)
	if j.o.results != "" {
		_, _ = fmt.Fprintf(j.stdout, "         every row with its outcome: %s\n", j.o.results)
	}
}

// outcomes is how the rows of a file ended, for programs.
type outcomes struct {
	Batch    string         `json:"batch"`
	File     string         `json:"file"`
	Outcomes importer.Tally `json:"outcomes"`
	Seconds  float64        `json:"seconds,omitempty"`
	Results  string         `json:"results,omitempty"`
}

func printTally(w io.Writer, tally importer.Tally) {
	for _, word := range importer.Words() {
		if n := tally[word]; n > 0 {
			_, _ = fmt.Fprintf(w, "%8d %s\n", n, word)
		}
	}
}

var errNotAllAccepted = &program.ExitError{Code: program.ExitPartial, Err: errors.New("not every order was accepted; see above")}
