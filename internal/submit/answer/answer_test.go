package answer

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryAfterTable(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0}, {"0", "", 0}, {"120", "", 2 * time.Minute}, {" 3 ", "", 3 * time.Second},
		{"-5", "", 0}, {"1.5", "", 0}, {"soon", "", 0}, {"５", "", 0},
		{"999999999999999999999999", "", maxRetryAfter}, {"100000000", "", maxRetryAfter},
		{date(90 * time.Second), "", 90 * time.Second}, {date(-time.Hour), "", 0}, {date(1000 * time.Hour), "", maxRetryAfter},
		{"Friday, 01-May-26 12:00:30 GMT", "", 30 * time.Second}, // RFC 850
		{"Fri May  1 12:00:30 2026", "", 30 * time.Second},       // asctime
		// The API's clock is an hour ahead: the wait is still 10 s.
		{date(time.Hour + 10*time.Second), date(time.Hour), 10 * time.Second},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.value)
		if c.date != "" {
			h.Set("Date", c.date)
		}
		require.Equal(t, c.want, RetryAfter(h, now), "%q", c.value)
	}
}
