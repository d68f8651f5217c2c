package answer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

func numbers(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }

// The budget stops a rule that would run for minutes. The judgement names it.
func TestRulesThatTakeTooLongAreStopped(t *testing.T) {
	for _, when := range []string{
		"any(body.a, let x = #; any(body.a, # > x))",
		"count(body.a, let x = #; none(body.a, # == x + 1)) == 1",
		"len(map(body.a, sum(map(body.a, # + 1)))) == 1",
		"body.a == 1 or reduce(body.a, len(filter(body.a, # > 1))) == 7",
		"any(body.a, (# + 1) in body.a)",
		"len(concat(body.a, body.a, body.a, body.a, body.a, body.a, body.a, body.a, body.a, body.a, body.a, body.a)) == 0", // memory
	} {
		t.Run(when, func(t *testing.T) {
			r := mustRules(t, fmt.Sprintf("rules:\n  - when: status == 500\n    verdict: retry\n  - when: %q\n    verdict: rejected\n  - when: status == 200\n    verdict: accepted\n", when))
			j := r.Judge(&Answer{Status: 200, Body: []byte(`{"a":` + numbers(100_000) + `}`), Complete: true}, 1)
			require.Equal(t, order.Unsure, j.Verdict, "later rules do not speak for a rule that was stopped")
			require.Equal(t, 2, j.Rule)
			require.Contains(t, j.Hold, "rule 2 (line 4, ")
			require.Contains(t, j.Hold, "was stopped")
			require.LessOrEqual(t, len(j.Hold), 1000)
		})
	}
}

// Counting steps does not change what common rules mean.
func TestPredicatesCountTheirSteps(t *testing.T) {
	for when, want := range map[string]bool{
		"any(body.a, # == 3)":                                     true,
		"all(body.a, # < 3)":                                      false,
		"none(body.a, # > 3)":                                     true,
		"one(body.a, # == 1)":                                     true,
		"count(body.a, # > 1) == 2":                               true,
		"len(filter(body.a, # > 1)) == 2":                         true,
		"map(body.a, # * 2)[2] == 6":                              true,
		"find(body.a, # > 1) == 2":                                true,
		"sum(body.a, # + 1) == 9":                                 true,
		"reduce(body.a, #acc + #, 0) == 6":                        true,
		"any(body.o, .n == 'b' and any(.l, # == 2))":              true,
		"sortBy(body.a, -#)[0] == 3":                              true,
		"len(groupBy(body.a, # % 2)) == 2":                        true,
		"any(body.a, {let x = # + 1; x == 4})":                    true,
		"any(body.o, .n == order_no) and status == 200":           true,
		"status == 500 or any(body.a, # == 3) and body.o[0] != 1": true,
	} {
		r := mustRules(t, fmt.Sprintf("rules:\n  - when: %q\n    verdict: rejected\n", when))
		a := Answer{Status: 200, Body: []byte(`{"a":[1,2,3],"o":[{"n":"b","l":[1,2]}]}`), Complete: true}
		a.Examine("b")
		require.Equal(t, want, r.Judge(&a, 1).Rule == 1, when)
	}
}

// Reading a rules file evaluates each rule for every status. The budget bounds
// that, too.
func TestRulesThatTakeLongToCheckAreTaken(t *testing.T) {
	r := mustRules(t, "rules:\n  - when: 'any(1..10000, let x = #; any(1..10000, # * x == status * 1000003))'\n    verdict: rejected\n")
	require.Equal(t, 1, r.Judge(&Answer{Status: 200, Complete: true}, 1).Rule, "stopped")
}

func TestHugeRulesFiles(t *testing.T) {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range maxRules + 1 {
		fmt.Fprintf(&b, "  - {when: status == 200 && body.code == %d, verdict: rejected}\n", i)
	}
	_, err := ParseRules("r.yaml", []byte(b.String()))
	require.ErrorContains(t, err, "r.yaml:1002: the file has 1001 rules, the limit is 1000")
	lines := strings.SplitAfter(b.String(), "\n")
	_, err = ParseRules("r.yaml", []byte(strings.Join(lines[:maxRules+1], "")))
	require.NoError(t, err)
	_, err = ParseRules("r.yaml", []byte(strings.Repeat("#", maxRulesFile)+"\n"))
	require.ErrorContains(t, err, "r.yaml: the file is longer than 1048576 bytes")
}
