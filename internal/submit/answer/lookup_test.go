package answer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAMistakeInALookup(t *testing.T) {
	good := strings.Split(`lookup:
  request: GET /v1/order/{order_no}
  first: 5s
  absent_for: 12m
  timestamp_window: 5m
  rules:
    - {when: status == 200, verdict: exists}
    - {when: status == 404, verdict: absent}`, "\n")
	for _, c := range []struct {
		line      int
		text, err string
	}{
		{2, "  request: POST /v1/order/{order_no}", `f.yaml:2: lookup: ` + "`request`" + ` must be GET and a path`},
		{2, "  request: GET /v1/order", `f.yaml:2: lookup: the path "/v1/order" must hold {order_no} once`},
		{3, "  first: 5", "f.yaml:3: lookup: `first`"},
		{3, "  first: 0s", "f.yaml:3: lookup: `first` must be longer than 0"},
		{4, "  # none", "f.yaml:2: lookup: a rule says absent: write `absent_for` and `timestamp_window`"},
		{7, "    - {when: status == 200, verdict: accepted}", `f.yaml:7: lookup rule 1: unknown verdict "accepted": expected one of exists, rejected, absent`},
		{7, "    - {when: status == 200, verdict: exists, final: true}", "f.yaml:7: lookup rule 1: a lookup rule has name, when, verdict and reason alone"},
		{8, "    - {when: status == 200, verdict: absent}", "f.yaml:8: lookup rule 2 can never be reached"},
		{8, "    - {verdict: absent}", "f.yaml:8: lookup rule 2: `when` is missing"},
	} {
		lines := append([]string(nil), good...)
		lines[c.line-1] = c.text
		_, err := ParseRules("f.yaml", []byte(strings.Join(lines, "\n")))
		require.ErrorContains(t, err, c.err)
	}
	r, err := ParseRules("f.yaml", []byte(strings.Join(good, "\n")))
	require.NoError(t, err, "a file may have lookups alone")
	require.NoError(t, r.Lookup().checkTimes(time.Minute))
	require.ErrorContains(t, r.Lookup().checkTimes(2*time.Minute), "f.yaml:2: lookup: absent_for is 12m0s, and must be longer than 12m0s")
	_, ok := r.Lookup().Path("..")
	require.False(t, ok)
}

// A quarantine that is too short is refused whenever the file is read.
func TestAShortQuarantineIsNotTakenWhileAWorkerRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(absentFor string) {
		text := "lookup:\n  request: GET /v1/order/{order_no}\n  absent_for: " + absentFor + "\n  timestamp_window: 5m\n  rules:\n    - {when: status == 404, verdict: absent}\n"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		before := time.Now().Add(-time.Minute) // nobody is writing it still
		require.NoError(t, os.Chtimes(file, before, before))
	}
	write("12m0s")
	r, err := LoadRules(file, Times{time.Minute, time.Hour})
	require.NoError(t, err)
	write("9m59s")
	_, err = r.Reload()
	require.ErrorContains(t, err, "absent_for is 9m59s, and must be longer than 11m0s")
	require.Equal(t, 12*time.Minute, r.Lookup().AbsentFor)
}
