package answer

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

func mustRules(t testing.TB, text string) *Rules {
	t.Helper()
	r, err := ParseRules("rules.yaml", []byte(text))
	require.NoError(t, err)
	return r
}

func TestBadRulesFiles(t *testing.T) {
	rules := func(lines ...string) string { return "rules:\n" + strings.Join(lines, "\n") + "\n" }
	for name, c := range map[string]struct {
		text string
		want []string // each is in the error
	}{
		"empty":             {"", []string{"r.yaml: holds no rules"}},
		"comment only":      {"# nothing\n", []string{"r.yaml: holds no rules"}},
		"empty list":        {"rules: []\n", []string{"r.yaml:1: holds no rules"}},
		"not YAML":          {"rules: [\n", []string{"r.yaml:1: "}},
		"a list":            {"- when: true\n", []string{"r.yaml:1: "}},
		"other top level":   {"ruls:\n  - when: status == 200\n", []string{"r.yaml:1: unknown field \"ruls\""}},
		"two documents":     {"rules:\n  - when: status == 200\n    verdict: accepted\n---\nrules: []\n", []string{"r.yaml:5: a second YAML document"}},
		"unknown field":     {rules("  - when: status == 200", "    verdict: accepted", "    finall: true"), []string{"r.yaml:4: unknown field \"finall\""}},
		"field twice":       {rules("  - when: status == 200", "    when: status == 201", "    verdict: accepted"), []string{"r.yaml:3: "}},
		"no when":           {rules("  - verdict: accepted"), []string{"r.yaml:2: rule 1: `when` is missing"}},
		"no verdict":        {rules("  - when: status == 200"), []string{"r.yaml:2: rule 1: unknown verdict \"\""}},
		"unknown verdict":   {rules("  - when: status == 200", "    verdict: acepted"), []string{"r.yaml:3: rule 1: unknown verdict \"acepted\"", "accepted, duplicate, rejected, retry, unsure, denied"}},
		"type error":        {rules("  - name: x", "    when: status == 'ok'", "    verdict: accepted"), []string{"r.yaml:3: rule 1: ", "mismatched types int and string"}},
		"unknown name":      {rules("  - when: statu == 200", "    verdict: accepted"), []string{"r.yaml:2: rule 1: unknown name statu"}},
		"no yes or no":      {rules("  - when: body.success", "    verdict: accepted"), []string{"r.yaml:2: rule 1: ", "body.success == true"}},
		"a number":          {rules("  - when: status", "    verdict: accepted"), []string{"r.yaml:2: rule 1: expected bool, but got int"}},
		"syntax":            {rules("  - when: status == == 1", "    verdict: accepted"), []string{"r.yaml:2: rule 1: unexpected token"}},
		"YAML comment":      {rules("  - when: any(body.e, # == 1)", "    verdict: accepted"), []string{"r.yaml:2: rule 1: ", "quotes"}},
		"the time":          {rules("  - when: now().Year() == 2026", "    verdict: accepted"), []string{"r.yaml:2: rule 1: "}},
		"bad wait":          {rules("  - when: status == 200", "    verdict: retry", "    wait: 5"), []string{"r.yaml:4: rule 1: `wait`: \"5\" is not a duration"}},
		"negative wait":     {rules("  - when: status == 200", "    verdict: retry", "    wait: -5s"), []string{"r.yaml:4: rule 1: `wait`"}},
		"wait for nothing":  {rules("  - when: status == 200", "    verdict: accepted", "    wait: 5s"), []string{"r.yaml:4: rule 1: `wait` has no meaning"}},
		"final acceptance":  {rules("  - when: status == 200", "    verdict: accepted", "    final: true"), []string{"r.yaml:4: rule 1: `final`"}},
		"throttle rejected": {rules("  - when: status == 200", "    verdict: rejected", "    throttle: true"), []string{"r.yaml:4: rule 1: `throttle`"}},
		"time and accepted": {rules("  - when: status == 200", "    verdict: accepted", "    time_error: true"), []string{"r.yaml:4: rule 1: `time_error`"}},
		"time and final":    {rules("  - when: status == 401", "    verdict: rejected", "    final: true", "    time_error: true"), []string{"a refused timestamp does not show"}},
		"never":             {rules("  - when: status == 200 and status == 201", "    verdict: accepted"), []string{"r.yaml:2: rule 1 can never match"}},
		"status 600":        {rules("  - when: status >= 600", "    verdict: accepted"), []string{"r.yaml:2: rule 1 can never match"}},
		"false":             {rules("  - when: \"false\"", "    verdict: accepted"), []string{"r.yaml:2: rule 1 can never match"}},
		"all at once": {rules("  - when: status == 200", "    verdict: x", "  - when: statu == 1", "    verdict: retry", "  - verdict: retry"),
			[]string{"r.yaml:3: ", "r.yaml:4: ", "r.yaml:6: "}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRules("r.yaml", []byte(c.text))
			require.Error(t, err)
			for _, want := range c.want {
				require.Contains(t, err.Error(), want)
			}
			var typed *RulesError
			require.ErrorAs(t, err, &typed)
			require.NotContains(t, err.Error(), "\n   ", "no drawings")
		})
	}
}

// Notepad begins a file with a byte order mark.
func TestRulesWithAByteOrderMark(t *testing.T) {
	require.Equal(t, order.Rejected, mustRules(t, "\ufeffrules:\n  - when: status == 200\n    verdict: rejected\n").Judge(&Answer{Status: 200, Complete: true}, 1).Verdict)
}

func TestUnreachableRules(t *testing.T) {
	for name, c := range map[string]struct {
		rules []string // expressions; the last one is in question
		want  string   // "" = reachable
	}{
		"same":                  {[]string{"status == 200", "status == 200"}, "rule 1 matches everything"},
		"same, other words":     {[]string{"status == 200 && body.code == 1", "body.code == 1 and status == 200"}, "rule 1 matches everything"},
		"narrower":              {[]string{"status == 200", "status == 200 && body.code == 1"}, "rule 1 matches everything"},
		"wider":                 {[]string{"status == 200 && body.code == 1", "status == 200"}, ""},
		"after true":            {[]string{"true", "status == 200"}, "rule 1 matches everything"},
		"range":                 {[]string{"status >= 400", "status in 404..405"}, "rule 1 matches everything"},
		"range that sticks out": {[]string{"status >= 405", "status in 404..405"}, ""},
		"each alternative":      {[]string{"status == 200", "status == 404", "status == 404 and attempt > 1 or status == 200"}, "rule 2 or 1 matches everything"},
		"either":                {[]string{"status == 200 or status == 201", "status == 201"}, "rule 1 matches everything"},
		"either, half":          {[]string{"status == 200 or status == 201", "status == 201 or status == 202"}, ""},
		"or within and":         {[]string{"(status == 200 or status == 201) and body.code == 1", "status == 201 and body.code == 1"}, "rule 1 matches everything"},
		"other condition":       {[]string{"status == 200 and body.code == 1", "status == 200 and body.code == 2"}, ""},
		"negation":              {[]string{"not (status == 200)", "status == 404"}, "rule 1 matches everything"},
		"not, then equal":       {[]string{"body.code != 0", "body.code == 5"}, "rule 1 matches everything"},
		"not, then equal, text": {[]string{`body.code != "A"`, `"B" == body.code && status == 200`}, "rule 1 matches everything"},
		"not that, then equal":  {[]string{"body.code != 5", "body.code == 5"}, ""},
		"not, then in":          {[]string{"body.code != 0", "body.code in [5, 6]"}, "rule 1 matches everything"},
		"not, then in with it":  {[]string{"body.code != 0", "body.code in [0, 6]"}, ""},
		"in, then equal":        {[]string{`body.code in ["A", "B"]`, `body.code == "B"`}, "rule 1 matches everything"},
		"in, then other kind":   {[]string{"body.code in [1, 2]", `body.code == "1"`}, ""},
		"not in":                {[]string{"body.code not in [1, 2]", "body.code == 3"}, "rule 1 matches everything"},
		"not in, then text":     {[]string{"not (body.code in [1, 2])", `body.code == "1"`}, "rule 1 matches everything"},
		"above, then above":     {[]string{"body.code > 3", "body.code > 5"}, "rule 1 matches everything"},
		"above, then from":      {[]string{"body.code > 5", "body.code >= 5"}, ""},
		"above, then a range":   {[]string{"body.code > 3", "5 < body.code and body.code <= 9"}, "rule 1 matches everything"},
		"not nil":               {[]string{"body.code != nil", "body.code == 0"}, "rule 1 matches everything"},
		"not nil, then above":   {[]string{"body.code != nil", "body.code > 0"}, "rule 1 matches everything"},
		"not zero, then nil":    {[]string{"body.code != 0", "body.code == nil"}, "rule 1 matches everything"},
		"a flag":                {[]string{"body.ok != true", "body.ok == false"}, "rule 1 matches everything"},
		"order of two kinds":    {[]string{`not (body.code < "A")`, "body.code == 5"}, ""},
		"a list":                {[]string{"body.codes != nil", "body.codes == [1, 3]"}, ""},
		"large numbers":         {[]string{"body.code != 9007199254740992", "body.code == 9007199254740993"}, ""},
		"above, then not":       {[]string{"body.code > 0", "body.code != 0"}, ""},
		"other member":          {[]string{"body.code != 0", "body.errno == 5"}, ""},
		"a status beside it":    {[]string{"status == 200 && body.code != 0", "body.code == 5"}, ""},
		"a class beside it":     {[]string{"status >= 400 && body.code != 0", "status == 404 && body.code == 5"}, "rule 1 matches everything"},
		"text, from a letter":   {[]string{`text >= "a"`, `text > "a" && text < "b"`}, "rule 1 matches everything"},
		"text, up to":           {[]string{`text > "a"`, `text >= "a"`}, ""},
		"the attempt":           {[]string{"attempt > 1", "attempt == 3"}, "rule 1 matches everything"},
		"parts":                 {[]string{`body.code startsWith "4"`, `body.code == "40012"`}, "rule 1 matches everything"},
		"parts, not":            {[]string{`body.code startsWith "5"`, `body.code == "40012"`}, ""},
		"remainder":             {[]string{"body.code % 2 == 1", "body.code == 5"}, ""},
		"headers, other case":   {[]string{`headers["X-Code"] == "1"`, `headers["x-code"] == "1"`}, "rule 1 matches everything"},
	} {
		t.Run(name, func(t *testing.T) {
			text := "rules:\n"
			for _, r := range c.rules {
				text += "  - when: '" + r + "'\n    verdict: retry\n"
			}
			_, err := ParseRules("r.yaml", []byte(text))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "can never be reached")
		})
	}
}

func TestRuleConditions(t *testing.T) {
	a := func(status int, body string, header ...string) *Answer {
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Add(header[i], header[i+1])
		}
		return &Answer{Status: status, Header: h, Body: []byte(body), Complete: true}
	}
	for _, c := range []struct {
		when string
		a    *Answer
		want bool
	}{
		{`status == 200 && body.code == 40012`, a(200, `{"code":40012}`), true},
		{`status == 200 && body.code == 40012`, a(200, `{"code":"40012"}`), false},
		{`body.code == "40012"`, a(200, `{"code":"40012"}`), true},
		{`body.code in [1, 2, 3]`, a(200, `{"code":2}`), true},
		{`body.code in 1..3`, a(200, `{"code":2}`), true},
		{`body.code % 100 == 12`, a(200, `{"code":40012}`), true},
		{`string(body.code) startsWith "400"`, a(200, `{"code":40012}`), true},
		{`body.rate > 1.4`, a(200, `{"rate":1.5}`), true},
		{`body.data.error.code == 5`, a(200, `{"data":{"error":{"code":5}}}`), true},
		{`body.data.error.code == 5`, a(200, `{"data":null}`), false},
		{`body.data?.error?.code == nil`, a(200, `{"data":null}`), true},
		{`body.items[0].ok == true`, a(200, `{"items":[{"ok":true}]}`), true},
		{`body.items[0].ok == true`, a(200, `{"items":[]}`), false},
		{`any(body.order_no, # contains "exists")`, a(400, `{"order_no":["it exists"]}`), true},
		{`any(body.order_no, # contains "exists")`, a(400, `{"other":["it exists"]}`), false},
		{`"order_no" in body`, a(400, `{"order_no":1}`), true},
		{`body contains "maintenance"`, a(503, `<p>maintenance</p>`), true},
		{`text contains "maintenance"`, a(503, `{"m":"maintenance"}`), true},
		{`text matches "(?i)MAINT"`, a(503, `maintenance`), true},
		{`text == ""`, a(200, ``), true},
		{`headers["X-Reason"] == "busy"`, a(503, ``, "x-reason", "busy"), true},
		{`headers["x-a"] == "1, 2"`, a(503, ``, "X-A", "1", "X-A", "2"), true},
		{`headers["none"] == ""`, a(503, ``), true},
		{`attempt > 1`, a(503, ``), false},
		// A condition that cannot be evaluated fails its own alternative only.
		{`body.code == 1 || text contains "html"`, a(200, `<html>`), true},
		{`(status == 200 or status == 201) and text contains "html"`, a(201, `<html>`), true},
		{`not (body.code == 1 or text contains "html")`, a(200, `{"code":2}`), true},
		{`body.code == 1 and text contains "html"`, a(200, `<html>`), false},
		{`body.n / 0 == 1`, a(200, `{"n":1}`), false},
		{`let c = body.code; c == 1 or c == 2`, a(200, `{"code":2}`), true},
	} {
		r := mustRules(t, "rules:\n  - when: '"+c.when+"'\n    verdict: rejected\n")
		require.Equal(t, c.want, r.Judge(c.a, 1).Rule == 1, c.when)
	}
}

func TestFirstMatchingRuleGivesTheVerdict(t *testing.T) {
	r := mustRules(t, `
rules:
  - name: seven
    when: status == 200 && body.code == 7
    verdict: retry
    wait: 3s
    final: true
    reason: lucky
  - when: status == 200 && body.code > 5
    verdict: denied
`)
	j := r.Judge(&Answer{Status: 200, Body: []byte(`{"code":7}`), Complete: true}, 1)
	require.Equal(t, Judgement{Verdict: order.Retry, Final: true, Reason: "lucky", Detail: "seven", Wait: 3e9, Rule: 1, RuleAt: "rule 1 (rules.yaml:4)"}, j)
	j = r.Judge(&Answer{Status: 200, Body: []byte(`{"code":8}`), Complete: true}, 1)
	require.Equal(t, Judgement{Verdict: order.Denied, Reason: "rule 2", Rule: 2, RuleAt: "rule 2 (rules.yaml:9)"}, j)
	j = r.Judge(&Answer{Status: 200, Body: []byte(`{"code":0}`), Complete: true}, 1)
	require.Equal(t, order.Accepted, j.Verdict)
	judge := Judge{Rules: r}
	require.Equal(t, order.Unsure, judge.Judgement(&Answer{Status: 200, Body: []byte(`{"code":3}`), Complete: true}, 1).Verdict)
}

// The missing part of a cut answer might have made another rule match.
func TestCutAnswersAndRules(t *testing.T) {
	r := mustRules(t, `
rules:
  - when: status == 418 and headers["x-busy"] == "1"
    verdict: retry
  - when: status == 400 and body.code == 1
    verdict: duplicate
  - when: status == 400
    verdict: rejected
`)
	cut := func(status int, busy string) Judgement {
		return r.Judge(&Answer{Status: status, Header: http.Header{"X-Busy": {busy}}, Body: []byte(`{"co`)}, 1)
	}
	require.Equal(t, order.Retry, cut(418, "1").Verdict, "nothing that is missing matters")
	require.Equal(t, order.Rejected, cut(418, "").Verdict)
	require.Equal(t, order.Unsure, cut(400, "").Verdict, "it could have been a duplicate")
	require.Equal(t, order.Denied, cut(401, "").Verdict, "no rule is about it")
}

// A body that begins like JSON and is none cannot be asked for its members. Skipping such a
// rule would leave the answer to the next one, or to the status.
func TestUnreadableJSONAndRules(t *testing.T) {
	r := mustRules(t, "rules:\n  - when: text contains 'maintenance'\n    verdict: retry\n  - when: body.biz == 'NO_FUNDS'\n    verdict: rejected\n"+
		"  - when: status == 200\n    verdict: accepted\n")
	for body, want := range map[string]order.Verdict{
		`{"biz":"NO_FUNDS"}`:                 order.Rejected,
		`{"biz":"OK"}`:                       order.Accepted,
		`plain text`:                         order.Accepted,
		``:                                   order.Accepted,
		`{"biz":"NO_FUNDS","at":1e400}`:      order.Unsure,
		"\xef\xbb\xbf{\"biz\":\"NO_FUNDS\"}": order.Unsure,
		"{\"biz\":\"NO_FUNDS\",\"m\":\"\xd3\xe0\"}": order.Unsure,
		`{"biz":"NO_FUNDS","biz":"OK"}`:             order.Unsure,
		` [{"biz":`:                                 order.Unsure,
		`{"m":"maintenance","at":1e400}`:            order.Retry,
	} {
		j := r.Judge(&Answer{Status: 200, Body: []byte(body), Complete: true}, 1)
		require.Equal(t, want, j.Verdict, "%q", body)
		require.Equal(t, want == order.Unsure, strings.Contains(j.Hold, "so rule 2 cannot be asked"), "%q", body)
	}
	cut := mustRules(t, "rules:\n  - when: text contains 'x'\n    verdict: accepted\n")
	require.Equal(t, order.Unsure, cut.Judge(&Answer{Status: 200, Body: []byte("x")}, 1).Verdict, "cut short")
}

func TestVeryLongRules(t *testing.T) {
	var parts []string
	for i := range 200 {
		parts = append(parts, fmt.Sprintf("status == 200 and body.code == %d and attempt == %d", i%10, i%7))
	}
	r := mustRules(t, "rules:\n  - when: "+strings.Join(parts, " or ")+"\n    verdict: rejected\n")
	require.Equal(t, 1, r.Judge(&Answer{Status: 200, Body: []byte(`{"code":1}`), Complete: true}, 1).Rule)
	require.Zero(t, r.Judge(&Answer{Status: 200, Body: []byte(`{"code":1}`), Complete: true}, 7).Rule)
}

func TestLoadRules(t *testing.T) {
	_, err := LoadRules(filepath.Join(t.TempDir(), "none.yaml"), Times{time.Second, time.Hour})
	require.ErrorContains(t, err, "ORDERPOST_RULES")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func FuzzRules(f *testing.F) {
	f.Add("rules:\n  - when: status == 200\n    verdict: accepted\n", `{"code":0}`, 200)
	f.Add("rules:\n  - when: 'any(body.x, # > 1) or not (text matches \"a\")'\n    verdict: retry\n    wait: 1s\n", `{"x":[1,2]}`, 400)
	f.Add("rules: &a [*a]", "", 0)
	f.Fuzz(func(t *testing.T, text, body string, status int) {
		r, err := ParseRules("r.yaml", []byte(text))
		if err != nil {
			return
		}
		for _, complete := range []bool{true, false} {
			j := r.Judge(&Answer{Status: status, Body: []byte(body), Complete: complete}, 1)
			require.NotEqual(t, order.VerdictNone, j.Verdict)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"code":0,"success":true}`), 200)
	f.Add([]byte("\xff{"), 404)
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		j := judged(&Answer{Status: status, Body: body, Complete: true})
		require.NotEqual(t, order.VerdictNone, j.Verdict)
		if j.Verdict == order.Accepted {
			require.Equal(t, 2, status/100)
		}
	})
}

// TestAnImpliedTestHolds asks Expr itself: no value fulfils a test and not one that is said
// to follow from it.
func TestAnImpliedTestHolds(t *testing.T) {
	constants := []string{"0", "-1", "1.5", "5", `"A"`, `""`, `"AB"`, "nil", "true", "[0, 5]", `["A", 5, nil]`}
	values := []any{nil, true, false, 0, -1, -2, 1, 1.5, 5, 7, 3.2, "", "A", "AB", "B", "AA", []any{}, []any{5}, map[string]any{"a": 1}}
	var all []alternative
	for _, op := range []string{"==", "!=", "<", "<=", ">", ">=", "in", "startsWith", "endsWith", "contains"} {
		for _, c := range constants {
			for _, text := range []string{"body.v " + op + " " + c, "not (body.v " + op + " " + c + ")", c + " " + op + " body.v"} {
				if parsed, err := parseCondition(text); err == nil {
					all = append(all, parsed.alternatives...)
				}
			}
		}
	}
	found := 0
	for _, a := range all {
		for _, b := range all {
			if !a.narrows(b) {
				continue
			}
			found++
			for _, v := range values {
				env := ruleEnv{Status: 200, Body: map[string]any{"v": v}}
				first, _ := evaluate(a.program, env)
				second, _ := evaluate(b.program, env)
				require.False(t, first && !second, "%v: %v, but not %v", v, slices.Collect(maps.Keys(a.tests)), slices.Collect(maps.Keys(b.tests)))
			}
		}
	}
	require.Greater(t, found, 2*len(all), "%d tests", len(all))
}

// A delay above the longest one would not be kept (R9).
func TestARuleWaitsNoLongerThanADelayMayLast(t *testing.T) {
	text := []byte("rules:\n  - when: status == 503\n    verdict: retry\n    wait: 1h\n")
	_, err := parseFor(Times{time.Second, 5 * time.Minute}, "r.yaml", text)
	require.EqualError(t, err, "r.yaml:2: rule 1: `wait` 1h0m0s is above ORDERPOST_RETRY_DELAY_MAX, 5m0s, and no delay lasts longer: set that to 1h0m0s or more")
	_, err = parseFor(Times{time.Second, time.Hour}, "r.yaml", text)
	require.NoError(t, err)
}
