package enqueue

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
	for text, says := range map[string]string{
		"--not-before 08:00":              `"08:00" does not say where; write the zone behind it, such as 08:00 Europe/Berlin or 08:00 UTC`,
		"--not-before 08:00 Europe/Brlin": "unknown time zone Europe/Brlin; write a zone such as Europe/Berlin or UTC",
		"--not-before 8 o'clock":          "--not-before: ",
		"--deadline=":                     "--deadline needs a value",
		"--not-before 2026-01-01T08:00Z":  "ago; write a time of day, such as 08:00 Europe/Berlin, or say --allow-past",
	} {
		_, err := ParseFolderFlags(text, Completeness{}, nil)
		require.ErrorContains(t, err, says)
	}
	for text, want := range map[string][]string{"": {"csv"}, "--endings .CSV,dat\n": {"csv", "dat"}, "--endings *\n": nil} {
		x, err := ParseFolderFlags(text, Completeness{Endings: []string{"csv"}}, nil)
		require.NoError(t, err)
		require.Equal(t, want, x.Taken(), text)
	}
	for _, wrong := range []string{"--endings a/b\n", "--endings csv,,x\n", "--endings .\n"} {
		_, err := ParseFolderFlags(wrong, Completeness{}, nil)
		require.ErrorContains(t, err, "is no ending of a name, such as csv")
	}
	_, err := ParseFolderFlags("--not-before 08:00 Europe/Berlin\n", Completeness{}, nil)
	require.NoError(t, err)
	over, err := ParseFolderFlags("--deadline 2020-01-01T00:00:00Z\n", Completeness{}, nil)
	require.NoError(t, err, "a file that was taken before goes on")
	require.ErrorContains(t, over.CheckDeadline(), "so every order would expire")
	o := importOptions{notBefore: "08:00 UTC", lane: "bulk", encoding: "auto", format: "auto", maxErrors: 1}
	_, err = o.reading()
	require.ErrorContains(t, err, "--not-before", "a command's own is a moment")
}
