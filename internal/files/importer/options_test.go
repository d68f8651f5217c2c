package importer

import (
	"testing"
	"time"

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
	right := map[string]string{"format": "csv", "sheet": "June", "encoding": "windows-1252", "delimiter": "tab", "type": "qty=int", "rename": "Nr=order_no", "set": "channel=web",
		"empty": "omit", "order-no-template": "{batch}-{row}", "accept": "price=decimal_comma", "skip-invalid": "", "max-errors": "5", "retry-failed": "true", "batch": "june",
		"deadline": "2026-12-01T00:00:00Z", "not-before": "2026-11-30T08:00:00Z", "allow-past": "false", "lane": "night", "direct": "false", "rate": "50", "canary": "10"}
	c := Choices{Now: now, Prefix: "--"}
	for _, name := range OptionNames() {
		value, known := right[name]
		require.True(t, known, name)
		require.NoError(t, c.Set(name, value), name)
	}
	require.NoError(t, c.Check())
	require.NoError(t, c.CheckDeadline())
	require.Equal(t, Options{Past: now, MaxErrors: 5,
		Reading: Reading{Format: FormatCSV, Sheet: "June", Encoding: "windows-1252", Delimiter: "tab", Batch: "june", Mapping: Mapping{Types: map[string]Type{"qty": TypeInt}, Rename: map[string]string{"Nr": "order_no"},
			Set: map[string]string{"channel": "web"}, Empty: EmptyOmit, OrderNoTemplate: "{batch}-{row}", Accept: map[string][]Code{"price": {"decimal_comma"}}}},
		Sending: Sending{SkipInvalid: true, RetryFailed: true, Deadline: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), NotBefore: time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC), Lane: "night", Rate: 50, Canary: 10},
	}, c.Options())
	for _, wrong := range [][3]string{
		{"format", "pdf", `"pdf" is none of csv, ndjson, xlsx, auto`}, {"encoding", "klingon", `"klingon" is none of auto, utf-8`}, {"delimiter", "ab", `"ab" is not one character or the word tab`},
		{"type", "qty", `"qty" is not NAME=TYPE`}, {"rename", "=x", `"=x" is not COLUMN=NAME`}, {"set", "x", `"x" is not NAME=VALUE`}, {"accept", "price", `"price" is not NAME=CODE`},
		{"batch", "-", "stands for orders of no import"}, {"batch", "", `"" is not a name of 1 to 100`}, {"deadline", "tomorrow", `"tomorrow" is not an RFC 3339 time`}, {"not-before", "08:00 Europe/Berlin", "08:00 Europe/Berlin"},
		{"lane", "a b", "a b"}, {"rate", "fast", `"fast" is not a number of orders a second`}, {"rate", "-1", ""}, {"max-errors", "0", `"0" is not a number of rows from 1 on`},
		{"canary", "-1", `"-1" is not a number of orders`}, {"direct", "perhaps", `"perhaps" is neither true nor false`}, {"speed", "1", "there is no such option"},
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
