package oracle

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// maxLine bounds a line of a history. A record may hold a long answer.
const maxLine = 16 << 20

// Read reads a history: one event a line, in any order. It returns the events in the
// order of their times.
func Read(from io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		e := Event{Line: n}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		events = append(events, e)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(events) == 0 || events[0].Kind != Begin || events[0].Settings == nil {
		return nil, fmt.Errorf("a history begins with the event %q and its settings", Begin)
	}
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(boundary(&a)-boundary(&b), cmp.Compare(a.At, b.At))
	})
	return events, nil
}

// boundary puts Begin first and End last.
func boundary(e *Event) int {
	switch e.Kind {
	case Begin:
		return -1
	case End:
		return 1
	default:
		return 0
	}
}

// Judge judges a whole history.
func Judge(events []Event) *Oracle {
	o := New()
	observe := o.Observe
	if events[0].Settings.Outside {
		observe = newCompletion(o).observe
	}
	for _, e := range events {
		observe(e)
	}
	return o
}
