package submit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// causeOf says in a few words why a request failed: what is wrong on the way to the
// API, or which status came from which server.
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

// transportReason returns the phrase for a request without an answer. It holds no
// variable parts, so equal failures can be counted.
func transportReason(p Phase, err error) string {
	switch p {
	case PhaseConnect:
		return connectReason(err)
	case PhaseSend:
		return "nothing was sent: " + causeReason(err)
	default:
		return "no answer: " + causeReason(err)
	}
}

func connectReason(err error) string {
	var dns *net.DNSError
	var handshake *handshakeError
	var proxy *proxyError
	switch {
	case errors.As(err, &proxy):
		return "proxy not reached"
	case errors.As(err, &dns):
		return "name not resolved"
	case errors.As(err, &handshake) && handshake.distrust:
		return "certificate not trusted"
	case errors.As(err, &handshake):
		return "TLS handshake failed"
	default:
		return "no connection: " + causeReason(err)
	}
}

func causeReason(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the address"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "no file descriptor left"
	default:
		return "connection lost"
	}
}

// detailOf returns what a person needs beyond the reason to act on the error; "" if
// the reason is enough.
func detailOf(err error) string {
	var dns *net.DNSError
	var handshake *handshakeError
	var proxy *proxyError
	switch {
	case errors.As(err, &proxy):
		return ": " + proxy.proxy + ": " + proxy.words
	case errors.As(err, &dns):
		return ": " + dns.Name
	case errors.As(err, &handshake):
		return ": " + handshake.words
	case err != nil && strings.Contains(err.Error(), "remote error: tls: "): // a TLS alert; crypto/tls has no type for it
		return ": " + alertWords(err.Error())
	default:
		return ""
	}
}
