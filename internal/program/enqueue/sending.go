package enqueue

import (
	"fmt"
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"orderpost/internal/program"
)

// sending shows the progress of a file's rows: as a bar on a terminal, otherwise as
// lines. A short import shows nothing.
type sending struct {
	w        io.Writer
	file     string
	total    int
	terminal bool
	begun    time.Time
	next     time.Time // of the next line
	first    int       // rows done by an earlier run

	pool *mpb.Progress
	bar  *mpb.Bar
}

// quietFor is how long an import runs before it shows its progress.
var quietFor = 2 * time.Second

func newSending(w io.Writer, file string, total int) *sending {
	now := time.Now()
	return &sending{w: w, file: program.Printable(file), total: total, terminal: program.IsTerminal(w), begun: now, next: now.Add(quietFor), first: -1}
}

// show receives the number of rows done.
func (s *sending) show(rows int) {
	now := time.Now()
	if s.first < 0 {
		s.first = rows
	}
	switch {
	case now.Before(s.next) || rows >= s.total:
	case s.terminal:
		s.draw(rows)
	default:
		s.next = now.Add(plainEvery)
		_, _ = fmt.Fprintf(s.w, "%s: %d of %d rows done%s\n", s.file, rows, s.total, s.pace(rows, now.Sub(s.begun)))
	}
}

func (s *sending) pace(rows int, took time.Duration) string {
	rate := float64(rows-s.first) / took.Seconds()
	if rate <= 0 {
		return ""
	}
	left := time.Duration(float64(s.total-rows) / rate * float64(time.Second))
	return fmt.Sprintf("; %.0f/s, %s left", rate, left.Round(time.Second))
}

func (s *sending) draw(rows int) {
	if s.bar == nil {
		s.pool = mpb.New(mpb.WithOutput(s.w), mpb.WithWidth(40))
		s.bar = s.pool.AddBar(int64(s.total), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.CountersNoUnit(s.file+": %d of %d rows done ")),
			mpb.AppendDecorators(decor.EwmaETA(decor.ET_STYLE_GO, 30)))
	}
	s.bar.EwmaSetCurrent(int64(rows), time.Since(s.begun))
}

// end removes the bar.
func (s *sending) end() {
	if s.bar != nil {
		s.bar.Abort(true)
		s.pool.Wait()
	}
}
