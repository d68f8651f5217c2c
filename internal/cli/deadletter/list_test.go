package deadletter

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func someLetters() []*settle.Letter {
	return []*settle.Letter{
		{OrderNo: "A-100", Outcome: order.OutcomeRejected, Reason: "rule 2: no funds", Status: 200, Said: "40012: balance # is too low", History: order.History{Attempts: 1}, FiledAt: noon, Batch: "march"},
		{OrderNo: "A-101", Outcome: order.OutcomeRejected, Reason: "rule 2: no funds", Status: 200, Said: "40012: balance # is too low", History: order.History{Attempts: 1}, FiledAt: noon.Add(time.Minute)},
		{OrderNo: "a-very-long-order-number-0123456789", Outcome: order.OutcomeUnknown, Reason: "no answer within 30s, the request was sent to the last byte and then nothing came", History: order.History{Attempts: 60, Unsure: true}, FiledAt: noon.Add(time.Hour)},
		{OrderNo: "Bestellung-Ä\x1b[31m", Outcome: order.OutcomeInvalid, FiledAt: noon.Add(25 * time.Hour)},
		{OrderNo: "=1+1", Outcome: order.OutcomeExhausted, Reason: "refused by status 503", Status: 503, History: order.History{Attempts: 60}, FiledAt: noon.Add(26 * time.Hour)},
	}
}

// lastYear is a letter whose order number is as long as they come.
func lastYear() *settle.Letter {
	return &settle.Letter{OrderNo: strings.Repeat("0123456789", 25) + "01234", Outcome: order.OutcomeExhausted, Reason: "refused by status 429", Status: 429,
		History: order.History{Attempts: 60}, FiledAt: noon.AddDate(-1, 0, 0)}
}

func TestListGolden(t *testing.T) {
	var out bytes.Buffer
	counts := newReasons()
	counts.add(someLetters()...)
	counts.print(&out)
	rows := &tableRows{w: &out, now: noon}
	for _, l := range append(someLetters(), lastYear()) {
		require.NoError(t, rows.letter(l, false))
	}
	require.Contains(t, out.String(), "\n    a-very-long-order-number-0123456789\n", "an order number can be copied whole")
	path := filepath.Join("testdata", "list.golden")
	if *update {
		require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
	for line := range strings.Lines(out.String()) {
		require.NotContains(t, line, "\x1b")
		require.LessOrEqual(t, utf8.RuneCountInString(line)-1, 80, line)
	}
}

func TestListCSVIsHarmless(t *testing.T) {
	var out bytes.Buffer
	c := &listCommand{selection: selection{surroundings: &surroundings{stdout: &out}}, csv: true}
	letter, end := c.rows()
	for _, l := range someLetters() {
		require.NoError(t, letter(l, false))
	}
	require.NoError(t, end())
	require.Contains(t, out.String(), ",'=1+1,")
	require.NotContains(t, out.String(), ",=1+1,")
	require.Len(t, strings.Split(strings.TrimSpace(out.String()), "\n"), len(someLetters())+1)
}

func TestFilters(t *testing.T) {
	now := noon.Add(27 * time.Hour)
	for name, c := range map[string]struct {
		f    deadletter.LetterFilter
		want []int
	}{
		"none":       {deadletter.LetterFilter{}, []int{0, 1, 2, 3, 4}},
		"outcome":    {deadletter.LetterFilter{Outcomes: []string{"unknown", "invalid"}}, []int{2, 3}},
		"reason":     {deadletter.LetterFilter{Reason: "NO FUNDS"}, []int{0, 1}},
		"answer":     {deadletter.LetterFilter{Answer: "BALANCE # is"}, []int{0, 1}},
		"batch":      {deadletter.LetterFilter{Batch: "march"}, []int{0}},
		"class":      {deadletter.LetterFilter{Statuses: []string{"5xx"}}, []int{4}},
		"status":     {deadletter.LetterFilter{Statuses: []string{"200", "0"}}, []int{0, 1, 2, 3}},
		"age":        {deadletter.LetterFilter{Since: "3h"}, []int{3, 4}},
		"days":       {deadletter.LetterFilter{Until: "1d"}, []int{0, 1, 2}},
		"from to":    {deadletter.LetterFilter{Since: "2026-03-01T12:01:00Z", Until: "2026-03-01T13:00:00Z"}, []int{1}},
		"pattern":    {deadletter.LetterFilter{OrderNo: "A-1??"}, []int{0, 1}},
		"whole":      {deadletter.LetterFilter{OrderNo: "A-1"}, nil},
		"star":       {deadletter.LetterFilter{OrderNo: "a-*-0*"}, []int{2}},
		"together":   {deadletter.LetterFilter{OrderNo: "A-*", Batch: "march", Outcomes: []string{"rejected"}}, []int{0}},
		"escaped":    {deadletter.LetterFilter{OrderNo: `\A-1\0*`}, []int{0, 1}},
		"star plain": {deadletter.LetterFilter{OrderNo: `A-\*`}, nil},
		"dots plain": {deadletter.LetterFilter{OrderNo: ".*"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			matcher, wrong := c.f.Compile(now)
			require.Empty(t, wrong)
			var got []int
			for i, l := range someLetters() {
				if matcher.Selects(l) {
					got = append(got, i)
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestBadFilters(t *testing.T) {
	var f selection
	f.LetterFilter = deadletter.LetterFilter{Outcomes: []string{"accepted", "lost"}, Statuses: []string{"6xx", "99"}, Since: "yesterday", Until: "-3h"}
	_, _, _, err := f.open(t.Context())
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	for _, part := range []string{"--outcome: ", "accepted has no dead letter", `"lost"`, `"6xx"`, `"99"`, `"yesterday"`, `"-3h"`} {
		require.ErrorContains(t, err, part)
	}
}
