package answer

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns the wait that a Retry-After header asks for, in seconds or
// as a date (RFC 9110, section 10.2.3). It returns 0 without a valid header and
// for a past date. It compares a date with the answer's own Date header, if there
// is one, because the clocks may differ.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if isDigits(v) {
		s, err := strconv.ParseInt(v, 10, 64)
		if err != nil || s > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(s) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// maxRetryAfter bounds the returned wait and prevents overflows. The submitter
// applies its own, lower limit.
const maxRetryAfter = 24 * time.Hour

func isDigits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
