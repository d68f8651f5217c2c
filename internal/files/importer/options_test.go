package importer

import (
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
)

// A time of day is the next one by the clocks of the place, over their changes and a year's end.
func TestTheNextTimeOfDay(t *testing.T) {
	for _, c := range []struct{ text, now, want string }{
		{"08:00 Europe/Berlin", "2026-11-23T06:59:59Z", "2026-11-23T07:00:00Z"},
		{"08:00 Europe/Berlin", "2026-11-23T07:00:00Z", "2026-11-24T07:00:00Z"},
		{"08:00 Europe/Berlin", "2026-07-01T05:59:00Z", "2026-07-01T06:00:00Z"},
		{"08:00 Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T06:00:00Z"}, // the clocks go forward in between
		{"02:30 Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"}, // there is no 02:30: 03:30
		{"23:59 UTC", "2026-12-31T23:59:00Z", "2027-01-01T23:59:00Z"},
		{"00:00 Pacific/Auckland", "2026-06-30T13:00:00Z", "2026-07-01T12:00:00Z"}, // it is tomorrow there
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		require.NoError(t, err)
		at, daily, err := nextTime(c.text, now)
		require.NoError(t, err, c.text)
		require.True(t, daily)
		require.Equal(t, c.want, at.Format(time.RFC3339), "%s after %s", c.text, c.now)
	}
}

// TestOptionsBySaying: every option that a way in can say is taken, and a wrong value is named
// with what to write instead.
func TestOptionsBySaying(t *testing.T) {
	now := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	right := map[string]string{"format": "csv", "sheet": "June", "header-row": "3", "skip-rows": "27,30-32", "leave-out": "Notes", "encoding": "windows-1252", "delimiter": "tab", "type": "qty=int", "rename": "Nr=order_no", "set": "channel=web",
		"empty": "omit", "order-no-template": "{batch}-{row}", "accept": "price=decimal_comma", "trailer": "{value: T, rows: 2, sums: {amount: 3}}", "skip-invalid": "", "max-errors": "5", "retry-failed": "true", "batch": "june",
		"deadline": "2026-12-01T00:00:00Z", "not-before": "2026-11-30T08:00:00Z", "allow-past": "false", "lane": "night", "direct": "false", "rate": "50", "canary": "10", "expect-rows": "3", "expect-sum": "amount=1234.56"}
	c := Choices{Now: now, Prefix: "--"}
	for _, option := range AllOptions() {
		name := option.Name
		value, known := right[name]
		require.True(t, known, name)
		require.NoError(t, c.Set(name, value), name)
	}
	require.NoError(t, c.Check())
	require.NoError(t, c.CheckDeadline())
	three := 3
	require.Equal(t, Options{Past: now, MaxErrors: 5,
		Reading: Reading{Format: FormatCSV, Sheet: "June", HeaderRow: 3, SkipRows: "27,30-32", Encoding: "windows-1252", Delimiter: "tab", Batch: "june", Mapping: Mapping{Types: map[string]Type{"qty": TypeInt}, Rename: map[string]string{"Nr": "order_no"}, LeaveOut: []string{"Notes"},
			Set: map[string]string{"channel": "web"}, Empty: EmptyOmit, OrderNoTemplate: "{batch}-{row}", Accept: map[string][]Code{"price": {"decimal_comma"}}, Trailer: &Trailer{Value: "T", Rows: "2", Sums: map[string]string{"amount": "3"}}}},
		Sending: Sending{SkipInvalid: true, RetryFailed: true, Deadline: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), NotBefore: time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC), Lane: "night", Rate: 50, Canary: 10,
			Expect: Totals{Rows: &three, Sums: map[string]decimal.Decimal{"amount": decimal.RequireFromString("1234.56")}}},
	}, c.Options())
	for _, wrong := range [][3]string{
		{"format", "pdf", `"pdf" is none of csv, ndjson, xlsx, auto`}, {"encoding", "klingon", `"klingon" is none of auto, utf-8`}, {"delimiter", "ab", `"ab" is not one character or the word tab`},
		{"type", "qty", `"qty" is not NAME=TYPE`}, {"rename", "=x", `"=x" is not COLUMN=NAME`}, {"set", "x", `"x" is not NAME=VALUE`}, {"accept", "price", `"price" is not NAME=CODE`},
		{"batch", "-", "stands for orders of no import"}, {"batch", "", `"" is not a name of 1 to 100`}, {"deadline", "tomorrow", `"tomorrow" is not an RFC 3339 time`}, {"not-before", "08:00 Europe/Berlin", "08:00 Europe/Berlin"},
		{"trailer", "T", `"T" is not {value: T, rows: 2, sums: {amount: 3}}`}, {"trailer", "{value: T, row: 2}", "unknown field \"row\""}, {"trailer", "{rows: 2}", "value is missing"}, {"lane", "a b", "a b"}, {"rate", "fast", `"fast" is not a number of orders a second`}, {"rate", "-1", ""}, {"max-errors", "0", `"0" is not a number of rows from 1 on`},
		{"header-row", "0", `"0" is not the number of a row from 1 on`}, {"skip-rows", "3-1", `"3-1" is no list of rows such as 27,30-32`}, {"canary", "-1", `"-1" is not a number of orders`}, {"direct", "perhaps", `"perhaps" is neither true nor false`}, {"speed", "1", "there is no such option"},
	} {
		c := Choices{Now: now, Prefix: "--"}
		err := c.Set(wrong[0], wrong[1])
		require.ErrorContains(t, err, "--"+wrong[0]+": ")
		require.ErrorContains(t, err, wrong[2])
	}
	together := func(pairs ...string) *Choices {
		c := &Choices{Now: now, Prefix: "--"}
		for i := 0; i < len(pairs); i += 2 {
			require.NoError(t, c.Set(pairs[i], pairs[i+1]))
		}
		return c
	}
	require.EqualError(t, together("direct", "", "lane", "night").Check(), "--direct: leaves out the waiting room, in which --lane and --not-before count")
	require.NoError(t, together("direct", "", "lane", "bulk").Check())
	over := together("not-before", "2026-11-30T01:00:00Z")
	require.EqualError(t, over.Check(), "--not-before: 2026-11-30T01:00:00Z was 2h0m0s ago; leave it out if the orders are to be sent at once, or say --allow-past")
	require.NoError(t, over.Set("allow-past", ""))
	require.NoError(t, over.Check())
	require.ErrorContains(t, together("deadline", "2026-11-30T02:00:00Z").CheckDeadline(), "so every order would expire; give a later time, or leave it out")
	require.ErrorContains(t, together("type", "qty=integer").Check(), "type of qty")
}

// TestAMessyFile: a title above the header, a column without a name, one that is not sent, and totals below are left
// out as the messages say, in text and in a workbook.
func TestAMessyFile(t *testing.T) {
	const messy = "Orders of June;;;;\n;;;;\norder_no;timeout;amount;Notes;\nA-1;30;5;x;\nA-2;30;7;y;z\nTotal;;12;;\n"
	refuse := func(says string, change ...func(*Options)) {
		t.Helper()
		require.Contains(t, refusals(t, openText(t, messy, change...)), says)
	}
	header := func(o *Options) { o.HeaderRow = 3 }
	left := func(o *Options) { o.HeaderRow, o.Mapping.LeaveOut = 3, []string{"Notes", ""} }
	refuse("--header-row N reads the names from row N")
	refuse("--leave-out '' leaves out what has none", header)
	refuse("(--skip-rows 6 leaves it out)", left)
	refuse("no row begins here that could name the columns; the next one with content is line 3", func(o *Options) { o.HeaderRow = 2 })
	refuse(`leave_out: there is no column "Remarks"`, header, func(o *Options) { o.Mapping.LeaveOut = []string{"Remarks", ""} })
	f := openText(t, messy, left, func(o *Options) { o.SkipRows = "6" })
	s, sent := bodies(t, f)
	require.Equal(t, []string{`{"order_no":"A-1","timeout":30,"amount":"5"}`, `{"order_no":"A-2","timeout":30,"amount":"7"}`}, sent)
	require.Equal(t, []int{2, 1, 0}, []int{s.Rows, s.LeftOut, s.Unended})
	require.Contains(t, s.Text(), "       1 rows left out, as you said\n")
	require.NotEqual(t, openText(t, messy, left).Fingerprint, f.Fingerprint, "other orders")

	long := openText(t, "order_no;timeout;;\nA-1;30;x;\nA-2;30;a;b;c\n", func(o *Options) { o.Mapping.LeaveOut = []string{""} })
	require.Equal(t, "orders.csv:3: the row has 5 cells, the header 2; check for a delimiter or a quote inside a cell, or a column without a name", refusals(t, long), "a cell too many, somewhere")

	lines := openText(t, "{\"order_no\":\"L-1\",\"timeout\":30}\n{\"order_no\":\"L-2\",\"timeout\":30}\n", func(o *Options) { o.SkipRows = "1" })
	_, sent = bodies(t, lines)
	require.Equal(t, []string{`{"order_no":"L-2","timeout":30}`}, sent)
}
