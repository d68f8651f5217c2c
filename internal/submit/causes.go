package submit

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"
)

// maxFailures bounds the failures of which the breaker remembers the causes.
const maxFailures = 64

// failures are the last failed requests, for people: the breaker says why it
// opened. It is guarded by the gate's lock.
type failures struct {
	list [maxFailures]failure
	next int
}

type failure struct {
	at          time.Time
	cause, body string
}

func (f *failures) add(now time.Time, s signal) {
	f.list[f.next%maxFailures] = failure{now, s.cause, s.body}
	f.next++
}

// tell counts the causes since a time, the most frequent first, and shows the
// last body.
func (f *failures) tell(since time.Time) string {
	counts, body, last := map[string]int{}, "", time.Time{}
	for _, one := range f.list {
		if one.cause == "" || one.at.Before(since) {
			continue
		}
		counts[one.cause]++
		if one.body != "" && !one.at.Before(last) {
			body, last = one.body, one.at
		}
	}
	causes := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var parts []string
	for i, c := range causes {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("%d other causes", len(causes)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%d times)", c, counts[c]))
	}
	text := strings.Join(parts, ", ")
	if body != "" {
		text += "; the last answer begins: " + body
	}
	return text
}

// causeOf says in a few words why a request failed: what is wrong with the way
// to the API, or which status came, and from which server.
func causeOf(x *exchange, reason string) string {
	if x.answer.status == 0 {
		return reason + detailOf(x.err)
	}
	if x.answer.status < 500 {
		return reason
	}
	return fmt.Sprintf("status %d%s", x.answer.status, serverOf(x))
}

func serverOf(x *exchange) string {
	if server := x.answer.header.Get("Server"); server != "" {
		return " by " + x.answer.scrub.excerpt([]byte(server), 64)
	}
	return ""
}

// detailOf says more of an error where its reason is not enough to act upon.
func detailOf(err error) string {
	var dns *net.DNSError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &dns):
		return ": " + dns.Name
	case errors.As(err, &verify):
		return ": " + verify.Err.Error()
	case errors.As(err, &record):
		return ": " + record.Msg
	case errors.As(err, &alert):
		return ": " + alert.Error()
	default:
		return ""
	}
}
