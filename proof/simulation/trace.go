package simulation

import (
	"fmt"
	"io"
	"strings"
)

// Trace records events, one line each. A nil Trace records nothing.
type Trace struct {
	lines []line
}

type line struct {
	about string // the order_no, or ""
	text  string
	held  bool // it is the end: the oracle found a broken invariant
}

func (t *Trace) say(e *engine, actor, step, orderNo, format string, args ...any) {
	if t == nil {
		return
	}
	text := fmt.Sprintf("%10.3f s  %-8s %-20s %-5s %s", e.at.Seconds(), actor, step, orderNo, fmt.Sprintf(format, args...))
	t.lines = append(t.lines, line{orderNo, strings.TrimRight(text, " "), actor == "oracle"})
}

// Write writes all lines.
func (t *Trace) Write(w io.Writer) error {
	for _, l := range t.lines {
		if _, err := fmt.Fprintln(w, l.text); err != nil {
			return err
		}
	}
	return nil
}

// WriteShort writes what a person needs to see why r broke: the lines about the order of
// its first finding, and about faults, up to that finding.
func (t *Trace) WriteShort(w io.Writer, r Result) error {
	for _, text := range t.short(r) {
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trace) short(r Result) (out []string) {
	if len(r.Findings) == 0 {
		return nil
	}
	no := r.Findings[0].OrderNo
	for i, l := range t.lines {
		if i > 0 && (l.about == "" || l.about == no) { // the first line is that of the settings
			out = append(out, l.text)
		}
		if l.held {
			break
		}
	}
	return out
}
