package submit

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// causeOf says in a few words why a request failed: what is wrong with the way
// to the API, or which status came, and from which server.
func causeOf(x *exchange, reason string) string {
	if x.answer.Status == 0 {
		return reason + detailOf(x.err)
	}
	if x.answer.Status < 500 {
		return reason
	}
	return fmt.Sprintf("status %d%s", x.answer.Status, serverOf(x))
}

func serverOf(x *exchange) string {
	if server := x.answer.Header.Get("Server"); server != "" {
		return " by " + x.answer.Excerpt([]byte(server), 64)
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
