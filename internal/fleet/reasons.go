package fleet

import (
	"slices"
	"strings"

	"orderpost/internal/submit/gate"
)

// Reasons returns why workers do not send, each reason once, what fails at the API first.
// All workers see the API fail, each with other counts: the one whose gate has been closed
// longest speaks for them.
func Reasons(workers []Presence) []string {
	var out []string
	var down string
	var longest int64
	for _, p := range workers {
		for _, reason := range p.Reasons {
			switch {
			case !strings.HasPrefix(reason, gate.APIFails):
				out = append(out, reason)
			case down == "" || p.ShutMS > longest:
				down, longest = reason, p.ShutMS
			}
		}
	}
	slices.Sort(out)
	if out = slices.Compact(out); down != "" {
		out = append([]string{down}, out...)
	}
	return out
}
