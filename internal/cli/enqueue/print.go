package enqueue

import (
	"fmt"
	"strings"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/files/importer"
)

// print prints what became of a file's rows.
func (j *job) print(s *importer.Summary) {
	switch {
	case j.o.json:
		_ = cli.PrintJSON(j.stdout, s)
	case !j.o.quiet:
		_, _ = fmt.Fprint(j.stdout, describe(s))
	}
}

// span says when scheduled orders may be sent.
func span(first, last time.Time) string {
	if first.Equal(last) {
		return first.UTC().Format(time.RFC3339)
	}
	return first.UTC().Format(time.RFC3339) + " to " + last.UTC().Format(time.RFC3339)
}

func describe(s *importer.Summary) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d rows, batch %s\n", s.File, s.Rows, s.Batch)
	if s.Sheet != nil {
		fmt.Fprintf(&b, "         read from the sheet %s\n", s.Sheet.Name)
		for _, said := range s.Sheet.Says() {
			fmt.Fprintf(&b, "         %s\n", said)
		}
	}
	line := func(n int, what string) {
		if n > 0 {
			fmt.Fprintf(&b, "%8d %s\n", n, what)
		}
	}
	for _, fate := range importer.Fates() {
		line(s.Fates[fate], fate.Meaning())
	}
	if n := s.Scheduled; n > 0 {
		fmt.Fprintf(&b, "%8d of these wait for their time: %s\n", n, span(s.Earliest, s.Latest))
	}
	line(s.Resumed, "of these by an earlier run of this import, which was interrupted")
	if s.Rejects != "" {
		fmt.Fprintf(&b, "         the bad rows are in %s: correct and import that\n", s.Rejects)
	}
	line(s.Blank, "blank rows skipped")
	b.WriteString(describeWarnings(s))
	return cli.Printable(b.String())
}

// describeWarnings lists, by kind, what other systems may sign differently or run, and
// what helps.
func describeWarnings(s *importer.Summary) string {
	var b strings.Builder
	for i := range s.WarningKinds {
		kind := &s.WarningKinds[i]
		what, advice := kind.Meaning(s.Format, true)
		names := strings.Join(kind.Fields, ", ")
		if kind.MoreFields {
			names += ", …"
		}
		fmt.Fprintf(&b, "%8d rows have %s: %s (first in %s %d). %s\n", kind.Rows, what, names, s.Format.Unit(), kind.Line, advice)
	}
	if s.Unended > 0 {
		fmt.Fprintf(&b, "         line %d, the last one, has no line end: see whether the file is complete\n", s.Unended)
	}
	return b.String()
}
