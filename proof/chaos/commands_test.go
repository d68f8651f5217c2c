package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A broker that is killed may bring back a removed letter. Whatever else an audit names is a fault.
func TestAnAuditMayNameALetterThatCameBack(t *testing.T) {
	const left = "  H-1: accepted, but a dead letter is left\n"
	audit := []string{"audit"}
	for name, c := range map[string]struct {
		code     int
		args     []string
		out      string
		expected bool
	}{
		"one letter":           {3, audit, "\n1 contradictions\n" + left, true},
		"two":                  {3, audit, "\n2 contradictions\n" + left + left, true},
		"and something else":   {3, audit, "\n2 contradictions\n" + left + "  H-2: rejected, but no dead letter\n", false},
		"and an order less":    {3, audit, "        1 are not accounted for: nobody knows\n\n1 contradictions\n" + left, false},
		"nothing that it says": {3, audit, "the books do not balance\n", false},
		"a failure":            {1, audit, "\n1 contradictions\n" + left, false},
		"another command":      {3, []string{"list"}, "\n1 contradictions\n" + left, false},
	} {
		t.Run(name, func(t *testing.T) {
			var runs commandRuns
			runs.note("deadletter", c.args, always, c.code, c.out)
			require.Equal(t, c.expected, len(runs.problems) == 0, runs.problems)
		})
	}
}
