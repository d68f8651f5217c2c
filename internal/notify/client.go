package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	// longestUse is how long connections are used. A new one asks for the receiver's address
	// again: the server behind the former one may answer for ever, and take nothing.
	longestUse = time.Minute
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
	url string
	// transport is used without an http.Client, which would read a redirect's Location, to
	// follow it. The receiver that the operator named gets the event, and nobody else.
	transport *http.Transport
	mu        sync.Mutex // guards transport and made
	made      time.Time
	longest   time.Duration     // longestUse; a test shortens it
	timeout   time.Duration     // of one attempt
	hidden    *strings.Replacer // hides the address in what the receiver says
	secrets   *secrets
	problem   func(error) // is told of a problem with the file of secrets
}

func newClient(c Config, s *secrets, problem func(error)) *client {
	dialer := &net.Dialer{Timeout: connectTimeout}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTimeout,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		MaxConnsPerHost: hands + 1, MaxIdleConnsPerHost: hands + 1, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: answerLimit,
		// A connection of HTTP/2 outlives a timeout. Without a ping, one that swallows what it is
		// sent would take every attempt.
		HTTP2: &http.HTTP2Config{SendPingTimeout: connectTimeout, PingTimeout: connectTimeout},
	}
	return &client{url: c.URL, transport: transport, made: time.Now(), longest: longestUse, timeout: attemptTimeout, hidden: hider(c.URL), secrets: s, problem: problem}
}

// leastSegment and leastValue are from how many bytes on a segment of the path, and a value of
// the query, is hidden where it stands alone. A shorter one may be a word that the receiver's
// sentence needs.
const leastSegment, leastValue = 12, 6

// hider hides the path and the query of an address, which may be secret: many a page for an
// unknown address repeats it. HTML escapes an &, and so does JSON, which may also escape a /.
func hider(address string) *strings.Replacer {
	u, err := url.Parse(address)
	if err != nil {
		return strings.NewReplacer() // nothing can be posted to it
	}
	parts := []string{u.RequestURI(), u.EscapedPath(), u.Path, u.RawQuery}
	if bare := strings.TrimPrefix(u.Path, "/"); strings.Contains(bare, "/") {
		parts = append(parts, bare) // Django and Laravel leave the first slash out
	}
	alone := func(least int, of []string) {
		for _, part := range of {
			if len(part) >= least {
				parts = append(parts, part)
			}
		}
	}
	alone(leastSegment, strings.Split(u.Path, "/"))
	for _, values := range u.Query() {
		alone(leastValue, values)
	}
	var all []string
	for _, part := range parts {
		if part != "" && part != "/" {
			all = append(all, part, html.EscapeString(part), strings.ReplaceAll(part, "&", `\u0026`), strings.ReplaceAll(part, "/", `\/`))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // the first that fits is replaced
	var pairs []string
	for _, part := range all {
		pairs = append(pairs, part, "…")
	}
	return strings.NewReplacer(pairs...)
}

func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.transport.CloseIdleConnections()
}

// connections returns the transport for one attempt. Every longestUse it is another one; the
// former one's connections end with the attempts on them, or as idle ones.
func (c *client) connections() *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.made) >= c.longest {
		former := c.transport
		c.transport, c.made = former.Clone(), time.Now()
		former.CloseIdleConnections()
	}
	return c.transport
}

// post makes one attempt. Its timestamp is that of the attempt, because receivers refuse
// old ones.
func (c *client) post(ctx context.Context, m *message) reply {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
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
	resp, err := c.connections().RoundTrip(req)
	if err != nil {
		return reply{said: c.hidden.Replace(plain(err))}
	}
	defer func() { _ = resp.Body.Close() }()
	var text []byte
	// The status counts, whatever becomes of the rest of the answer. What follows a 101 is
	// the connection itself, which net/http bounds by no timeout: reading it may never end.
	if resp.StatusCode != http.StatusSwitchingProtocols {
		text, _ = io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	}
	said := strings.ToValidUTF8(strings.TrimSpace(c.hidden.Replace(string(text))), "�")
	r := reply{status: resp.StatusCode, said: order.Truncate(said, saidLimit)}
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		r.after = answer.RetryAfter(resp.Header, time.Now())
	}
	return r
}

// plain returns an error's text for people, without the address where net/url put it in front.
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
