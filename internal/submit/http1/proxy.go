package http1

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"orderpost/internal/platform/endpoint"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"
)

// proxyFor returns the proxy that the environment names for a URL, or nil if there is
// none, as always for loopback. A malformed proxy is an error, whereas httpproxy would
// ignore it and connect directly. The error does not show the value, which may hold a
// password.
func proxyFor(target *url.URL) (*url.URL, error) {
	env := httpproxy.FromEnvironment()
	name, value := "HTTP_PROXY", &env.HTTPProxy
	if target.Scheme == "https" {
		name, value = "HTTPS_PROXY", &env.HTTPSProxy
	}
	given := *value
	if given == "" {
		return nil, nil
	}
	*value = "http://any"
	if applies, err := env.ProxyFunc()(target); err != nil || applies == nil {
		return nil, err
	}
	if !strings.Contains(given, "://") {
		given = "http://" + given
	}
	u, err := url.Parse(given)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, fmt.Errorf("%s: is not a URL such as http://proxy:3128", name)
	case proxyPorts[u.Scheme] == "":
		return nil, fmt.Errorf("%s: scheme %q: give http://, https:// or socks5://", name, u.Scheme)
	}
	if err := endpoint.Port(u); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return u, nil
}

func (d *dialer) proxyError(err error, format string, args ...any) error {
	return &dialError{reason: "proxy not reached", with: "proxy ", detail: d.proxy.Scheme + "://" + d.proxy.Host + ": " + fmt.Sprintf(format, args...), err: err}
}

// ProxyAdvice says what to do if a proxy answered an order with 407 or 511.
func (c *Client) ProxyAdvice() string {
	d := c.dialer
	if d.proxy == nil {
		return "it is none that HTTP_PROXY or HTTPS_PROXY names, so look at the network between this machine and " + d.addr
	}
	return "it is probably " + d.proxy.Scheme + "://" + d.proxy.Host + ": put its credentials into HTTP_PROXY or HTTPS_PROXY, as http://user:password@host:port"
}

// absolute reports whether an HTTP proxy reads the requests themselves. They then
// name the whole URL.
func (d *dialer) absolute() bool {
	return d.proxy != nil && !d.tls && (d.proxy.Scheme == "http" || d.proxy.Scheme == "https")
}

// pass sets up the connection through the proxy. If the proxy reads the requests, it
// ends at the proxy, otherwise pass opens a tunnel to the API.
func (d *dialer) pass(ctx context.Context, c *conn) error {
	if d.proxy.Scheme == "https" {
		if err := d.shakeHands(ctx, c, addrOf(d.proxy)); err != nil {
			return d.proxyError(err, "%v", err)
		}
	}
	if d.absolute() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.ConnectTimeout)
	defer cancel()
	ask := d.connect
	if d.proxy.Scheme == "socks5" || d.proxy.Scheme == "socks5h" {
		ask = d.socks
	}
	err := ask(ctx, c)
	var told *dialError
	if err != nil && !errors.As(err, &told) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		err = d.proxyError(err, "%v", err)
	}
	return err
}

// connect asks an HTTP proxy for a tunnel.
func (d *dialer) connect(ctx context.Context, c *conn) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Conn.SetDeadline(pastDeadline) })
	defer stop()
	ask := "CONNECT " + d.addr + " HTTP/1.1\r\nHost: " + d.addr + "\r\n"
	if auth := basicAuth(d.proxy); auth != "" {
		ask += "Proxy-Authorization: " + auth + "\r\n"
	}
	if _, err := io.WriteString(c, ask+"\r\n"); err != nil {
		return err
	}
	status, reason, err := readConnected(c)
	switch {
	case err != nil:
		return err
	case status == http.StatusProxyAuthRequired:
		return d.proxyError(nil, "it asks for credentials (407): put them into HTTPS_PROXY, as http://user:password@host:port")
	case status < 200 || status > 299:
		return d.proxyError(nil, "it refused a tunnel to %s: %d %s", d.addr, status, reason)
	case !stop():
		return ctx.Err()
	}
	return nil
}

// readConnected reads the answer to CONNECT byte by byte. The bytes after it belong
// to the tunnel and must stay unread.
func readConnected(r io.Reader) (status int, reason string, err error) {
	one := bufio.NewReaderSize(&single{r}, 4<<10)
	var h fasthttp.ResponseHeader
	for range maxInterim {
		if err := checkStatusLine(one); err != nil {
			return 0, "", err
		}
		if err := h.Read(one); err != nil {
			return 0, "", fmt.Errorf("its answer to CONNECT: %w", err)
		}
		if h.StatusCode() >= 200 {
			break
		}
	}
	text := h.StatusMessage()
	return h.StatusCode(), strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f { // not printable ASCII
			return -1
		}
		return r
	}, string(text[:min(len(text), 64)])), nil
}

// single reads one byte at a time.
type single struct{ io.Reader }

func (s *single) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), 1)]) }

// socks asks a SOCKS5 proxy for a tunnel.
func (d *dialer) socks(ctx context.Context, c *conn) error {
	var auth *proxy.Auth
	if u := d.proxy.User; u != nil {
		password, _ := u.Password()
		auth = &proxy.Auth{User: u.Username(), Password: password}
	}
	asker, err := proxy.SOCKS5("tcp", addrOf(d.proxy), auth, nil)
	if err != nil {
		return err
	}
	_, err = asker.(interface {
		DialWithConn(ctx context.Context, c net.Conn, network, address string) (net.Addr, error)
	}).DialWithConn(ctx, c.Conn, "tcp", d.addr)
	return err
}

// basicAuth returns the value of Proxy-Authorization; "" = no credentials.
func basicAuth(u *url.URL) string {
	if u.User == nil {
		return ""
	}
	password, _ := u.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
}

var proxyPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

func addrOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = proxyPorts[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
