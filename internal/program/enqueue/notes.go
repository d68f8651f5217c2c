package enqueue

import (
	"fmt"
	"strings"

	"orderpost/internal/importer"
)

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
		fmt.Fprintf(&b, "%8d rows have %s: %s (first in line %d). %s\n", kind.Rows, what, names, kind.Line, advice)
	}
	if s.Unended > 0 {
		fmt.Fprintf(&b, "         line %d, the last one, has no line end: see whether the file is complete\n", s.Unended)
	}
	return b.String()
}
