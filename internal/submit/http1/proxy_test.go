package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// behind is a client behind a proxy of its own.
func behind(t *testing.T, scheme string, secure bool, base string) (*Client, *testProxy) {
	p := startProxy(t, scheme)
	t.Setenv("HTTP_PROXY", p.url)
	t.Setenv("HTTPS_PROXY", p.url)
	return (&way{secure: secure}).client(t, base, nil), p
}

// What a proxy is shown: of TLS the host alone, in clear the whole URL; the
// credentials each time, and never to the API.
func TestWhatAProxyIsShown(t *testing.T) {
	const auth = "Basic aHR0cC11c2VyOnMzY3JldCB3b3Jk"
	for _, secure := range []bool{false, true} {
		w := &way{secure: secure, proxy: "http"}
		seen := make(chan *http.Request, 3)
		base := w.serve(t, func(rw http.ResponseWriter, r *http.Request) {
			seen <- r
			rw.Write([]byte(`{"code":0}`)) //nolint:errcheck // the client notices
		})
		c, p := behind(t, "http", secure, base)
		c.accepted(t)
		require.True(t, c.accepted(t).Reused)
		require.Equal(t, 200, c.Get(context.Background(), keyA).Answer.Status)
		require.Len(t, p.asked, 1)
		first := p.asked[0]
		require.Equal(t, auth, first.Header.Get("Proxy-Authorization"))
		if secure {
			require.Equal(t, "CONNECT", first.Method)
			require.Equal(t, strings.TrimPrefix(base, "https://"), first.Host)
			require.Empty(t, first.Header.Get("X-Api-Key"))
		} else {
			require.Equal(t, "POST", first.Method)
			require.Equal(t, base+"/v1/order/create", first.RequestURI)
			require.Equal(t, keyA, first.Header.Get("X-Api-Key"))
		}
		for range 3 {
			require.Empty(t, (<-seen).Header.Get("Proxy-Authorization"))
		}
	}
}

func TestProxiesThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		words  string
	}{
		"credentials":   {"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "it asks for credentials (407): put them into HTTPS_PROXY, as http://user:password@host:port"},
		"not that host": {"HTTP/1.1 403 Not \x1b[31mHere\r\nContent-Length: 0\r\n\r\n", "it refused a tunnel to example.com:"},
		"hangs up":      {"", "EOF"},
		"no HTTP":       {"220 mail ESMTP\r\n\r\n", "not HTTP"},
		"endless":       {"HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 8000) + "\r\n\r\n", "its answer to CONNECT"},
		"only 1xx":      {strings.Repeat("HTTP/1.1 103 Early\r\n\r\n", 20), "103"},
	} {
		t.Run(name, func(t *testing.T) {
			base := (&way{secure: true, proxy: "http"}).serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was reached") })
			cl, p := behind(t, "http", true, base)
			p.refuse = func(*http.Request) string { return c.answer }
			x, j := cl.try(t)
			require.Equal(t, PhaseConnect, x.Phase)
			require.Equal(t, order.Retry, j.Verdict)
			require.Equal(t, "proxy not reached", j.Reason)
			require.Contains(t, x.Detail(), c.words)
			require.Contains(t, x.Detail(), ": http://"+p.ln.Addr().String()+": ")
			for _, secret := range []string{"s3cret", "aHR0c", "\x1b"} {
				require.NotContains(t, x.Err.Error(), secret)
			}
		})
	}
}

func TestAProxyThatIsNotThere(t *testing.T) {
	for _, scheme := range []string{"http", "https", "socks5"} {
		t.Setenv("HTTPS_PROXY", scheme+"://"+proxyUser+"@127.0.0.1:1")
		x, j := (&way{secure: true}).client(t, "https://example.com", nil).try(t)
		require.Equal(t, PhaseConnect, x.Phase)
		require.Equal(t, "proxy not reached", j.Reason)
		require.Contains(t, x.Err.Error(), "connection refused: is it right in HTTP_PROXY, HTTPS_PROXY, NO_PROXY?")
		require.NotContains(t, x.Err.Error(), "s3cret")
	}
}

func TestAProxyThatAnswersAnOrderIsNamed(t *testing.T) {
	w := &way{proxy: "http"}
	base := w.serve(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusProxyAuthRequired) })
	c, p := behind(t, "http", false, base)
	x, j := c.try(t)
	require.Equal(t, 407, x.Answer.Status)
	require.Equal(t, order.Retry, j.Verdict)
	require.True(t, j.AtProxy)
	require.Contains(t, c.ProxyAdvice(), "http://"+p.ln.Addr().String()+": put its credentials into HTTP_PROXY")
	require.NotContains(t, c.ProxyAdvice(), "s3cret")
}

func TestProxySettings(t *testing.T) {
	for value, words := range map[string]string{"ftp://user:s3cret@proxy:1": `scheme "ftp"`, "http://user:s3cret@[::1": "HTTPS_PROXY: is not a URL", "http://user:s3cret@": "not a URL",
		"http://user:s3cret@proxy:70000": "HTTPS_PROXY: a port is a number from 1 to 65535"} {
		t.Setenv("HTTPS_PROXY", value)
		_, err := New(testConfig("https://example.com"))
		require.ErrorContains(t, err, words)
		require.NotContains(t, err.Error(), "s3cret")
	}
	t.Setenv("HTTPS_PROXY", "proxy.test:3128")
	for base, proxied := range map[string]bool{"https://example.com": true, "https://127.0.0.1": false, "https://inside.test": false} {
		t.Setenv("NO_PROXY", "inside.test")
		c, err := New(testConfig(base))
		require.NoError(t, err)
		require.Equal(t, proxied, c.dialer.proxy != nil, base)
	}
}

// A proxy that accepts and is silent takes no longer than a connection may.
func TestASilentProxy(t *testing.T) {
	cl, p := behind(t, "http", true, "https://example.com")
	release := make(chan struct{})
	defer close(release)
	p.refuse = func(*http.Request) string { <-release; return "" }
	cl.dialer.cfg.ConnectTimeout = 50 * time.Millisecond
	x, j := cl.try(t)
	require.Equal(t, PhaseConnect, x.Phase)
	require.Equal(t, "proxy not reached", j.Reason)
	require.ErrorIs(t, x.Err, context.DeadlineExceeded)
}

// The answer to CONNECT is read, and not a byte of what follows it.
func FuzzConnected(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nX: y\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 407 No\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 20"))
	f.Fuzz(func(t *testing.T, text []byte) {
		const next = "\x16\x03\x01 the next"
		r := bytes.NewReader(append(bytes.Clone(text), next...))
		status, reason, err := readConnected(r)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, status, 100)
		require.LessOrEqual(t, len(reason), 64)
		if head, _, found := bytes.Cut(text, []byte("\r\n\r\n")); found && status >= 200 && bytes.HasPrefix(text, []byte("HTTP/1.1 2")) && !bytes.Contains(head, []byte("\n\n")) && bytes.Count(head, []byte("\n")) == bytes.Count(head, []byte("\r\n")) {
			require.Equal(t, len(text)-len(head)-4+len(next), r.Len())
		}
	})
}

// testProxy brings every name to loopback, and passes on what it gets byte by
// byte, ends and resets included.
type testProxy struct {
	url    string
	secure bool
	// refuse, where set, answers instead of passing on.
	refuse func(*http.Request) string

	ln    net.Listener
	wg    sync.WaitGroup
	mu    sync.Mutex
	asked []*http.Request // the first of each connection
	socks int
}

const proxyUser = "http-user:s3cret%20word"

func startProxy(t testing.TB, scheme string) *testProxy {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &testProxy{url: scheme + "://" + proxyUser + "@" + ln.Addr().String(), ln: ln, secure: scheme == "https"}
	serve := p.http
	if scheme == "socks5" {
		serve = p.socks5
	}
	p.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() {
				if p.secure {
					conn = tls.Server(conn, &tls.Config{Certificates: testCertificate().TLS.Certificates})
				}
				defer conn.Close()
				serve(conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() { ln.Close(); p.wg.Wait() })
	return p
}

func (p *testProxy) http(conn net.Conn, r *bufio.Reader) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, req.Clone(context.Background()))
	p.mu.Unlock()
	if p.refuse != nil {
		if req.Method != http.MethodConnect {
			io.Copy(io.Discard, req.Body)
		}
		io.WriteString(conn, p.refuse(req))
		return
	}
	_, port, _ := net.SplitHostPort(req.Host)
	to, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	if req.Method == http.MethodConnect {
		io.WriteString(conn, "HTTP/1.1 200 Connection established\r\nX-Proxy: test\r\n\r\n")
		splice(conn, r, to)
		return
	}
	go func() { // what it reads are requests with an absolute URL
		for ; err == nil; req, err = http.ReadRequest(r) {
			req.Header.Del("Proxy-Authorization")
			if err = req.Write(to); err != nil {
				break
			}
		}
		to.(*net.TCPConn).CloseWrite()
	}()
	pass(conn, to)
	conn.Close()
	to.Close()
}

// socks5 knows as much of RFC 1928 and 1929 as it takes.
func (p *testProxy) socks5(conn net.Conn, r *bufio.Reader) {
	take := func(n int) []byte {
		b := make([]byte, n)
		io.ReadFull(r, b)
		return b
	}
	take(int(take(2)[1]))
	conn.Write([]byte{5, 2})
	user := string(take(int(take(2)[1])))
	password := string(take(int(take(1)[0])))
	if user != "http-user" || password != "s3cret word" {
		conn.Write([]byte{1, 1})
		return
	}
	conn.Write([]byte{1, 0})
	take(int(take(5)[4])) // the name
	port := take(2)
	to, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port[0])<<8 | int(port[1])})
	if err != nil {
		conn.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
		return
	}
	p.mu.Lock()
	p.socks++
	p.mu.Unlock()
	conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	splice(conn, r, to)
}

// splice passes on both ways until both ends are done.
func splice(conn net.Conn, r io.Reader, to net.Conn) {
	done := make(chan struct{})
	go func() {
		io.Copy(to, r)
		to.(*net.TCPConn).CloseWrite()
		close(done)
	}()
	pass(conn, to)
	conn.Close()
	to.Close()
	<-done
}

// pass copies the server's bytes, and its end.
func pass(conn, to net.Conn) {
	if _, err := io.Copy(conn, to); errors.Is(err, syscall.ECONNRESET) {
		lingerless(conn)
	}
}
