package answer

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter reads a Retry-After header (RFC 9110, section 10.2.3): seconds,
// or a date. A date is held against the answer's own Date where it has one, so
// that a clock that is off does not lengthen the wait. 0 = none, or past.
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

// maxRetryAfter keeps absurd values apart from overflows; what is honoured is
// Config.RetryDelayMax.
const maxRetryAfter = 24 * time.Hour

func isDigits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
