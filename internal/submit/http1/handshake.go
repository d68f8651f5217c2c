package http1

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// explain describes a failed handshake in words that a user can act on.
func explain(addr, host string, err error) *dialError {
	e := &dialError{reason: "TLS handshake failed", with: "TLS with " + addr + ": ", err: err}
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case errors.As(err, &verify):
		e.reason, e.detail = "certificate not trusted", certificateWords(verify, host, time.Now())
	case errors.As(err, &record):
		e.detail = "the server there does not speak TLS: is the port in ORDERPOST_API_URL right, and is it https?"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		e.detail = "the handshake took too long"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.detail = "the connection was closed during the handshake"
	default:
		e.detail = alertWords(err.Error())
	}
	return e
}

func certificateWords(verify *tls.CertificateVerificationError, host string, now time.Time) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(verify, &unknown):
		by := ""
		if certs := verify.UnverifiedCertificates; len(certs) > 0 {
			by = fmt.Sprintf(" (%.60q)", certs[len(certs)-1].Issuer.String())
		}
		return "it is signed by an authority that is not trusted here" + by + ": name that one's PEM file in ORDERPOST_API_CA_FILE"
	case errors.As(verify, &name):
		return fmt.Sprintf("it is for %s, not for %s: is ORDERPOST_API_URL right?", namesOf(name.Certificate), host)
	case errors.As(verify, &invalid) && invalid.Reason == x509.Expired && now.Before(invalid.Cert.NotBefore):
		return fmt.Sprintf("it is valid from %s on only: is this machine's clock right?", invalid.Cert.NotBefore.UTC().Format(time.RFC3339))
	case errors.As(verify, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("it expired on %s: whoever runs the API must renew it (is this machine's clock right?)", invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	default:
		return verify.Err.Error()
	}
}

func namesOf(c *x509.Certificate) string {
	names := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name at all"
	}
	if len(names) > 3 {
		names = append(names[:3], "…")
	}
	return strings.Join(names, ", ")
}

// alert is a TLS alert by its text, since crypto/tls has no types for them.
type alert struct {
	seen, words string
	ours        bool // it is about the client's certificate
}

var alerts = []alert{
	{"protocol version not supported", "the server speaks neither TLS 1.2 nor 1.3: whoever runs it must update it", false},
	{"unsupported protocol version", "the server speaks neither TLS 1.2 nor 1.3: whoever runs it must update it", false},
	{"no application protocol", "the server offers no HTTP/1.1, which is all that is spoken here", false},
	{"certificate required", "the server wants a certificate of the client: name its files in ORDERPOST_API_TLS_CERT_FILE and ORDERPOST_API_TLS_KEY_FILE", true},
	{"expired certificate", "the server says that the certificate in ORDERPOST_API_TLS_CERT_FILE has expired: renew it", true},
	{"revoked certificate", "the server says that the certificate in ORDERPOST_API_TLS_CERT_FILE was revoked: ask whoever signed it for another one", true},
	{"unknown certificate authority", "the server does not trust the authority of the certificate in ORDERPOST_API_TLS_CERT_FILE: the file needs the authorities in between, too, or the API's operator must add yours", true},
	{"bad certificate", "the server takes no such certificate as that in ORDERPOST_API_TLS_CERT_FILE, or none at all: ask the API's operator for one", true},
	{"unsupported certificate", "the server takes no certificate of this kind (ORDERPOST_API_TLS_CERT_FILE): is it one for clients?", true},
	{"unknown certificate", "the server does not accept the certificate in ORDERPOST_API_TLS_CERT_FILE", true},
	{"access denied", "the server knows the certificate in ORDERPOST_API_TLS_CERT_FILE, and does not let it in", true},
	{"unrecognized name", "the server does not know this host name: is ORDERPOST_API_URL right?", false},
	{"remote error: tls: handshake failure", "the server agreed to no cipher that is safe, or wants a certificate of the client (ORDERPOST_API_TLS_CERT_FILE)", false},
}

// alertWords translates the text of a TLS alert.
func alertWords(text string) string {
	for _, a := range alerts {
		if strings.Contains(text, a.seen) {
			return a.words
		}
	}
	return text
}

// aboutOurCertificate reports whether a server refused the certificate of the client, or the lack of one. In TLS 1.3 a client
// hears of that after its own handshake, when it may have sent a request. The server has read none: it judges the
// certificate before it takes any data (RFC 8446, 2 and 4.4.2.4), and an alert is authenticated (6). It does not judge
// later on the same connection either, because this client does not offer that (4.2.6).
func aboutOurCertificate(err error) bool {
	return err != nil && slices.ContainsFunc(alerts, func(a alert) bool {
		return a.ours && strings.HasSuffix(err.Error(), "remote error: tls: "+a.seen)
	})
}

// recordTracker tracks where the TLS records end that are read from a connection.
// crypto/tls does not say whether it holds an incomplete record.
type recordTracker struct {
	net.Conn
	head [5]byte // type, version and length of the current record
	has  int     // bytes of head that were read
	left int     // bytes of the record's body still to be read
}

// Read implements net.Conn.
func (f *recordTracker) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	f.follow(p[:n])
	return n, err
}

func (f *recordTracker) follow(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, len(p))
			f.left -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.has:], p)
		p = p[n:]
		if f.has += n; f.has == len(f.head) {
			f.has, f.left = 0, int(f.head[3])<<8|int(f.head[4])
		}
	}
}

// atBoundary reports whether the bytes read so far end with a complete record.
func (f *recordTracker) atBoundary() bool { return f.has == 0 && f.left == 0 }
