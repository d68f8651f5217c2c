package answer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

func numbers(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }

// What could cost more than a pass over the answer is refused when the file is read, with
// what was seen and what to write instead.
func TestRefusedConditions(t *testing.T) {
	for when, want := range map[string]string{
		"any(body.a, any(#.b, # > 1))":                                   "`any(.b, # > 1)` looks at elements for each element: join the inner lists first, as in any(flatten(",
		"status == 200 and any(body.a, let x = #; any(body.a, # > x))":   "what is asked of each element may read the element",
		"any(body.a, (# + 1) in body.a)":                                 "`# + 1 in body.a`: what is asked of each element may read the element (#), status, attempt and order_no alone: turn it round, as in body.code in map(",
		"any(body.a, text contains #)":                                   "what is asked of each element may read the element",
		"let a = body.a; any(a, # in a)":                                 "what is asked of each element may read the element",
		"reduce(body.a, #acc + #, 0) == 6":                               "`reduce`: what it builds may grow",
		"text matches body.pattern":                                      "`matches` needs a pattern in quotes",
		"uniq(body.a) == [1]":                                            "uniq",
		"now().Year() == 2026":                                           "now",
		"$env['text'] contains 'x'":                                      "`$env`: name the variable itself",
		"(body.code == 1 or text contains 'html') and status == 200":     "is an `or` inside an `and`: `or` may only join whole alternatives, each with its own tests, as in status == 200 and body.code == 1 or",
		"status == 500 or status == 200 && (body.a == 1 || body.b == 1)": "`body.a == 1 || body.b == 1` is an `or` inside an `and`",
		"status == 200 and (status == 200 or body.code == 1)":            "is an `or` inside an `and`",
		"body.success or status == 201":                                  "expected bool",
	} {
		_, err := ParseRules("r.yaml", fmt.Appendf(nil, "rules:\n  - when: %q\n    verdict: rejected\n", when))
		require.ErrorContains(t, err, "r.yaml:2: rule 1: ", when)
		require.ErrorContains(t, err, want, when)
	}
}

// Later rules do not speak for a rule that was stopped, and the judgement names it.
func TestRulesThatTakeTooMuchMemoryAreStopped(t *testing.T) {
	when := "len(concat(body.a, body.a, body.a, body.a, body.a, body.a, body.a, body.a, body.a, body.a, body.a, body.a)) == 0"
	r := mustRules(t, fmt.Sprintf("rules:\n  - when: status == 500\n    verdict: retry\n  - when: %q\n    verdict: rejected\n  - when: status == 200\n    verdict: accepted\n", when))
	j := r.Judge(&Answer{Status: 200, Body: []byte(`{"a":` + numbers(100_000) + `}`), Complete: true}, 1)
	require.Equal(t, order.Unsure, j.Verdict)
	require.Equal(t, 2, j.Rule)
	require.Contains(t, j.Hold, "rule 2 (line 4, ")
	require.Contains(t, j.Hold, "was stopped")
	require.LessOrEqual(t, len(j.Hold), 1000)
}

// The rules of one answer share one second.
func TestManyRulesThatTakeTooLongAreStopped(t *testing.T) {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range maxRules - 1 {
		fmt.Fprintf(&b, "  - {when: 'any(body.a, # == %d)', verdict: rejected}\n", i+2)
	}
	b.WriteString("  - {when: status == 200, verdict: accepted}\n")
	r := mustRules(t, b.String())
	began := time.Now()
	j := r.Judge(&Answer{Status: 200, Body: []byte(`{"a":` + numbers(120_000) + `}`), Complete: true}, 1)
	require.Less(t, time.Since(began), 30*time.Second)
	require.Equal(t, order.Unsure, j.Verdict)
	require.Contains(t, j.Hold, "was stopped")
}

func TestConditionsOnElements(t *testing.T) {
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
		"any(flatten(map(body.o, .l)), # == 2)":                   true,
		"'b' in map(body.o, .n)":                                  true,
		"any(body.o, (.n == 'x' or .n == 'b') and status == 200)": true,
		"any(filter(body.a, # > 1), # == 3)":                      true,
		"sortBy(body.a, -#)[0] == 3":                              true,
		"len(groupBy(body.a, # % 2)) == 2":                        true,
		"any(body.o, .n == order_no) and status == 200":           true,
		"status == 500 or any(body.a, # == 3) and body.o[0] != 1": true,
	} {
		r := mustRules(t, fmt.Sprintf("rules:\n  - when: %q\n    verdict: rejected\n", when))
		a := Answer{Status: 200, Body: []byte(`{"a":[1,2,3],"o":[{"n":"b","l":[1,2]}]}`), Complete: true}
		a.Examine("b")
		require.Equal(t, want, r.Judge(&a, 1).Rule == 1, when)
	}
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
