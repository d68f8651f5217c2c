package order

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseNotBefore(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-11-23T08:00:00+01:00":      time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC),
		"2026-11-23T08:00+01:00":         time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC),
		"2026-11-23T08:00:00.5Z":         time.Date(2026, 11, 23, 8, 0, 0, 5e8, time.UTC),
		"2026-11-23T08:00Z":              time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC),
		"2026-11-23T08:00:00-00:30":      time.Date(2026, 11, 23, 8, 30, 0, 0, time.UTC),
		"2020-01-01T00:00:00Z":           time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), // the past: now
		"2027-11-22T09:00:00Z":           time.Date(2027, 11, 22, 9, 0, 0, 0, time.UTC),
		"2027-03-28T02:30:00+02:00":      time.Date(2027, 3, 28, 0, 30, 0, 0, time.UTC), // an hour that clocks skip in Berlin
		"2027-10-31T02:30:00+02:00":      time.Date(2027, 10, 31, 0, 30, 0, 0, time.UTC),
		"2027-10-31T02:30:00+01:00":      time.Date(2027, 10, 31, 1, 30, 0, 0, time.UTC), // the second time that day
		"2026-12-31T23:59:59.999999999Z": time.Date(2026, 12, 31, 23, 59, 59, 999999999, time.UTC),
	} {
		got, err := ParseNotBefore(text, now)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), "%s: %s", text, got)
	}
	for text, complaint := range map[string]string{
		"":                           "is not an RFC 3339 time",
		"tomorrow":                   "is not an RFC 3339 time",
		"2026-11-23T08:00:00":        "has no zone",
		"2026-11-23T08:00":           "has no zone",
		"2026-11-23 08:00":           "has no zone",
		"2026-11-23":                 "has no zone",
		"2026-02-30T08:00:00Z":       "does not exist: day out of range",
		"2026-02-30":                 "does not exist: day out of range",
		"2026-13-01T08:00Z":          "does not exist: month out of range",
		"2026-11-23T08:60:00+01:00":  "does not exist: minute out of range",
		"2026-11-23T08:00:00+0100":   "an offset without a colon; write 2026-11-23T08:00:00+01:00",
		"2026-11-23T08:00:00+01":     "an offset without a colon; write 2026-11-23T08:00:00+01:00",
		"2026-11-23T08:00-0530":      "an offset without a colon; write 2026-11-23T08:00:00-05:30",
		"2026-11-23 08:00:00Z":       "a blank between date and time",
		" 2026-11-23T08:00:00Z":      "has a blank before or after the time",
		"\t2026-11-23T08:00:00+0100": "has a blank before or after the time",
		" ":                          "is not an RFC 3339 time",
		"2026-11-23T08:00:00 CET":    "is not an RFC 3339 time",
		"2026-11-23T24:00:01Z":       "does not exist: hour out of range",
		"2027-11-23T09:00:01Z":       "more than a year ahead",
		"2062-11-23T08:00:00Z":       "more than a year ahead",
		"2026-11-23T08:00:00+01:00 ": "has a blank before or after the time",
	} {
		_, err := ParseNotBefore(text, now)
		require.ErrorContains(t, err, complaint, "%q", text)
	}
}

func TestMissedDeadline(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		deadline, notBefore time.Time
		want                string
	}{
		"none":         {time.Time{}, now.Add(time.Hour), ""},
		"ahead":        {now.Add(time.Second), time.Time{}, ""},
		"over":         {now.Add(-time.Hour), time.Time{}, "2026-11-22T08:00:00Z was 1h0m0s ago, so every order would expire"},
		"now":          {now, time.Time{}, "2026-11-22T09:00:00Z was 0s ago, so every order would expire"},
		"a start over": {now.Add(time.Hour), now.Add(-time.Hour), ""},
		"later":        {now.Add(2 * time.Hour), now.Add(time.Hour), ""},
		"the same":     {now.Add(time.Hour), now.Add(time.Hour), "2026-11-22T10:00:00Z is not later than 2026-11-22T10:00:00Z, before which nothing is sent, so every order would expire"},
	} {
		require.Equal(t, c.want, MissedDeadline(c.deadline, c.notBefore, now), name)
	}
}

func TestCheckLane(t *testing.T) {
	for _, name := range []string{"bulk", "shop-2", "A_b", "night"} {
		require.NoError(t, CheckLane(name))
	}
	for _, name := range []string{"", "a.b", "*", ">", "at", "a b", "ä", "abcdefghijklmnopqrstuvwxyz0123456789"} {
		require.Error(t, CheckLane(name), "%q", name)
	}
}
