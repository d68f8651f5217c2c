package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
)

const (
	// attemptTimeout bounds one attempt, from the dial to the end of the answer. Standard
	// Webhooks recommends 15 to 30 seconds.
	attemptTimeout = 15 * time.Second
	connectTimeout = 5 * time.Second
	idleTimeout    = 30 * time.Second
	// answerLimit is how much of an answer is read so that its connection can be used
	// again, and saidLimit how much of it people are shown.
	answerLimit, saidLimit = 64 << 10, 200
	// userAgent is the User-Agent of every attempt.
	userAgent = "orderpost"
)

// reply is how one attempt ended.
type reply struct {
	status int           // 0 = no answer
	after  time.Duration // the answer's Retry-After; 0 = none
	said   string        // the answer's beginning, or why there is none
}

// class is the label of metrics.
func (r reply) class() int {
	if c := r.status / 100; c >= 1 && c <= 5 {
		return c
	}
	return 0
}

// String says for people how the attempt ended.
func (r reply) String() string {
	switch {
	case r.status == 0:
		return r.said
	case r.class() == 3:
		return fmt.Sprintf("status %d: a redirect, which is not followed; set ORDERPOST_NOTIFY_URL to the address that the receiver has now", r.status)
	case r.said == "":
		return fmt.Sprintf("status %d", r.status)
	default:
		return fmt.Sprintf("status %d: %s", r.status, r.said)
	}
}

// client posts events to the receiver.
type client struct {
	url     string
	http    *http.Client
	secrets *secrets
	problem func(error) // is told of a problem with the file of secrets
}

func newClient(c Config, s *secrets, problem func(error)) *client {
	dialer := &net.Dialer{Timeout: connectTimeout}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTimeout,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		MaxConnsPerHost: hands + 1, MaxIdleConnsPerHost: hands + 1, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: answerLimit,
	}
	return &client{url: c.URL, secrets: s, problem: problem, http: &http.Client{Transport: transport, Timeout: attemptTimeout,
		// The receiver that the operator named gets the event, and nobody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// post makes one attempt. Its timestamp is that of the attempt, because receivers refuse
// old ones.
func (c *client) post(ctx context.Context, m *message) reply {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(m.body))
	if err != nil {
		return reply{said: plain(err)}
	}
	keys, err := c.secrets.current()
	if err != nil {
		c.problem(err)
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	for name, value := range map[string]string{"Content-Type": "application/json", "User-Agent": userAgent,
		"Webhook-Id": m.id, "Webhook-Timestamp": timestamp, "Webhook-Signature": signature(keys, m.id, timestamp, m.body)} {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{said: plain(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	var text []byte
	// The status counts, whatever becomes of the rest of the answer. What follows a 101 is
	// the connection itself, which net/http bounds by no timeout: reading it may never end.
	if resp.StatusCode != http.StatusSwitchingProtocols {
		text, _ = io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	}
	r := reply{status: resp.StatusCode, said: order.Truncate(strings.ToValidUTF8(strings.TrimSpace(string(text)), "�"), saidLimit)}
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		r.after = answer.RetryAfter(resp.Header, time.Now())
	}
	return r
}

// plain returns an error's text without the address, whose path or query may be secret.
func plain(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", attemptTimeout)
	}
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return err.Error() + ": is it your own? Name its PEM file in SSL_CERT_FILE"
	}
	return err.Error()
}
