package enqueue

import (
	"fmt"
	"strings"

	"orderpost/internal/importer"
	"orderpost/internal/order"
)

// describeWarnings lists, by kind, what other systems may sign differently, and what
// helps if the API does.
func describeWarnings(s *importer.Summary) string {
	var b strings.Builder
	for _, kind := range s.WarningKinds {
		what, cure := meaningOf(kind.Code, s.Format == importer.FormatCSV, kind.Fields[0])
		names := strings.Join(kind.Fields, ", ")
		if kind.MoreFields {
			names += ", …"
		}
		fmt.Fprintf(&b, "%8d rows have %s: %s (first in line %d). They are sent as they are;\n"+
			"         if the API answers that the signature is wrong, %s.\n", kind.Rows, what, names, kind.Line, cure)
	}
	return b.String()
}

func meaningOf(code order.WarningCode, csv bool, field string) (what, cure string) {
	switch code {
	case order.WarnNull:
		what, cure = "fields that are null", "leave such fields out"
		if csv {
			cure += " (--empty omit)"
		}
	case order.WarnName:
		what, cure = "field names with other characters than a-z, 0-9 and _", "use other names"
		if csv {
			cure += fmt.Sprintf(" (--rename '%s=NEW_NAME')", field)
		}
	case order.WarnUnsorted:
		what, cure = "nested fields whose names are not in alphabetical order", "put them in that order"
	case order.WarnExponent:
		what, cure = "numbers with an exponent such as 1e+21", "send them as text"
		if csv {
			cure += fmt.Sprintf(" (--type '%s=string')", field)
		}
	}
	return what, cure
}
