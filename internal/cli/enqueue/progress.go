package enqueue

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/files/importer"
	"orderpost/internal/order"
)

// statusLine says how far an import is: on a terminal in one line that it redraws,
// elsewhere in lines at intervals. Other lines may come at any time.
type statusLine struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	shown    string    // on the terminal
	last     time.Time // of the last line elsewhere
}

// plainEvery is the time between two plain lines.
const plainEvery = 10 * time.Second

func newStatusLine(w io.Writer) *statusLine {
	return &statusLine{w: w, terminal: cli.IsTerminal(w)}
}

// tell prints a line, above the redrawn one.
func (s *statusLine) tell(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := s.shown
	s.redraw("")
	_, _ = fmt.Fprintln(s.w, line)
	s.redraw(shown)
}

// show replaces the redrawn line. Where there is none, it prints the line when it is time,
// or at once if the line brings news.
func (s *statusLine) show(line string, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line = cli.Printable(line)
	if s.terminal {
		s.redraw(line)
	} else if now := time.Now(); news || now.Sub(s.last) >= plainEvery {
		s.last = now
		_, _ = fmt.Fprintln(s.w, line)
	}
}

// end removes the redrawn line.
func (s *statusLine) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redraw("")
}

func (s *statusLine) redraw(line string) {
	if line == "" && s.shown == "" {
		return
	}
	s.shown = line
	if runes, most := []rune(line), cli.Width(s.w)-1; most > 0 && len(runes) > most { // a longer one would leave its first part behind
		line = string(runes[:most])
	}
	_, _ = fmt.Fprint(s.w, "\r\x1b[K"+line)
}

// sending shows how many rows of a file are done. A short import shows nothing.
type sending struct {
	line  *statusLine
	file  string
	total int
	begun time.Time
	first int // rows done by an earlier run
}

// quietFor is how long an import runs before it shows its progress.
var quietFor = 2 * time.Second

func newSending(line *statusLine, file string, total int) *sending {
	line.last = time.Time{}
	return &sending{line: line, file: file, total: total, begun: time.Now(), first: -1}
}

// show receives the number of rows done.
func (s *sending) show(rows int) {
	if s.first < 0 {
		s.first = rows
	}
	took := time.Since(s.begun)
	if took < quietFor || rows >= s.total {
		return
	}
	line := fmt.Sprintf("%s: %d of %d rows done", s.file, rows, s.total)
	if rate := float64(rows-s.first) / took.Seconds(); rate > 0 {
		left := time.Duration(float64(s.total-rows) / rate * float64(time.Second))
		line += fmt.Sprintf("; %.0f/s, %s left", rate, left.Round(time.Second))
	}
	s.line.show(line, false)
}

// meter shows the progress of the orders.
type meter struct {
	line  *statusLine
	quiet bool
	state string // what holds the orders up
}

func newMeter(line *statusLine, quiet bool) *meter {
	line.last = time.Now()
	return &meter{line: line, quiet: quiet}
}

func (m *meter) show(p importer.Progress) {
	if m.quiet {
		return
	}
	state := m.obstacle(&p)
	news := state != m.state
	m.state = state
	line := fmt.Sprintf("%d of %d orders settled%s", p.Settled, p.Total, byOutcome(&p))
	if speed := speed(&p); speed != "" {
		line += "; " + speed
	}
	if state != "" {
		line += "; " + state
	}
	if news && m.line.terminal && state != "" { // it may not fit in one line
		m.line.tell(cli.Printable(state))
	}
	m.line.show(line, news)
}

func (m *meter) end() { m.line.end() }

// obstacle says what holds the orders up; "" = nothing.
func (m *meter) obstacle(p *importer.Progress) string {
	switch {
	case p.Ended:
		return ""
	case p.Paused != "":
		return fmt.Sprintf("%d wait, held by %s", p.Waiting, p.Paused)
	case p.NothingSent != "":
		return p.NothingSent
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

// print prints what became of a file's rows.
func (j *job) print(s *importer.Summary) {
	switch {
	case j.o.json:
		_ = cli.PrintJSON(j.stdout, s)
	case !j.o.quiet:
		_, _ = fmt.Fprint(j.stdout, cli.Printable(s.Text()))
	}
}
