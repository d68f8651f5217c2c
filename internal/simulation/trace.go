package simulation

import (
	"fmt"
	"io"
	"strings"
)

// Trace records events, one line each. A nil Trace records nothing.
type Trace struct {
	lines []string
}

func (t *Trace) say(e *engine, actor, step, orderNo, format string, args ...any) {
	if t == nil {
		return
	}
	t.lines = append(t.lines, fmt.Sprintf("%10.3f s  %-8s %-20s %-5s %s", e.at.Seconds(), actor, step, orderNo, fmt.Sprintf(format, args...)))
}

// Write writes the lines. If orders are given, it omits the lines about other orders.
func (t *Trace) Write(w io.Writer, orders ...string) error {
	for _, line := range t.lines {
		if !concerns(line, orders) {
			continue
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

func concerns(line string, orders []string) bool {
	if len(orders) == 0 {
		return true
	}
	about := strings.TrimSpace(line[min(len(line), 44):min(len(line), 50)])
	for _, no := range orders {
		if about == no || about == "" {
			return true
		}
	}
	return false
}
