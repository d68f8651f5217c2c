package submit

import (
	"fmt"

	"orderpost/internal/submit/http1"
)

// causeOf says in a few words why a request failed: what is wrong on the way to the
// API, or which status came from which server.
func causeOf(x *http1.Exchange, reason string) string {
	if x.Answer.Status == 0 {
		return reason + x.Detail()
	}
	if x.Answer.Status < 500 {
		return reason
	}
	return fmt.Sprintf("status %d%s", x.Answer.Status, serverOf(x))
}

func serverOf(x *http1.Exchange) string {
	if server := x.Answer.Header.Get("Server"); server != "" {
		return " by " + x.Answer.Excerpt([]byte(server), 64)
	}
	return ""
}
