package console

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
)

// raw opens a connection to the console and sends what a client without manners sends.
func (r *rig) raw(text string) net.Conn {
	r.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
	require.NoError(r, err)
	r.Cleanup(func() { _ = c.Close() })
	_, err = io.WriteString(c, text)
	require.NoError(r, err)
	return c
}

// statusOf reads the status of an answer; 0 = the console closed the connection.
func statusOf(t *testing.T, c net.Conn) int {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the console neither answers nor closes")
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestSlowBodies end after their time, whatever they are sent to and whoever sends them, and
// keep nobody else of their address out.
func TestSlowBodies(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	r.Server.Stop()
	r.bodyTime = 300 * time.Millisecond
	r.Server = r.console(func(c *Config) { c.Users = usersFile(t) })
	slow := func(head string) string {
		return head + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nname=op"
	}
	host := "Host: localhost\r\n"
	var conns []net.Conn
	for range 2 * maxConns {
		conns = append(conns, r.raw(slow("POST /login HTTP/1.1\r\n"+host)))
	}
	require.Contains(t, text(r.browser().open(http.StatusOK, "/login")), "Password")
	require.Contains(t, r.as("operator").open(http.StatusOK, "/"), "Log out")
	for _, c := range conns {
		require.Contains(t, []int{0, http.StatusRequestTimeout, http.StatusTooManyRequests}, statusOf(t, c))
	}
	for head, want := range map[string]int{
		"POST /nowhere HTTP/1.1\r\n" + host:                                       http.StatusRequestTimeout,
		"GET / HTTP/1.1\r\n" + host:                                               http.StatusRequestTimeout,
		"POST /login HTTP/1.1\r\nHost: evil.example\r\n":                          http.StatusMisdirectedRequest,
		"POST /login HTTP/1.1\r\nSec-Fetch-Site: cross-site\r\n" + host:           http.StatusRequestTimeout,
		"POST /upload HTTP/1.1\r\n" + host:                                        http.StatusUnauthorized,
		"POST /login HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n" + host: 0,
	} {
		c := r.raw(slow(head))
		got := statusOf(t, c)
		if want != 0 {
			require.Equal(t, want, got, head)
		}
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := io.Copy(io.Discard, c)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "%s: the connection stays open", head)
	}
}

// TestConnectionsAreBoundedPerAddress: the oldest makes room, and first those of strangers.
func TestConnectionsAreBoundedPerAddress(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn() // its connection stays
	reused := func() bool { return b.open(http.StatusOK, "/order") != "" }
	require.True(t, reused())
	var idle []net.Conn
	for range maxConns + 50 {
		idle = append(idle, r.raw("GET /login HTTP/1.1\r\nHost: localhost\r\n")) // never ends its head
	}
	for _, c := range idle[:50] {
		require.Zero(t, statusOf(t, c))
	}
	require.True(t, reused())
	require.Contains(t, r.browser().open(http.StatusOK, "/login"), "Log in")
	r.conns.mu.Lock()
	defer r.conns.mu.Unlock()
	require.LessOrEqual(t, len(r.conns.conns["127.0.0.1"]), maxConns)
	signedIn := 0
	for _, one := range r.conns.conns["127.0.0.1"] {
		if one.loggedIn {
			signedIn++
		}
	}
	require.Equal(t, 1, signedIn, "the person's connection is still the one that they opened")
}

// TestAProxyIsNotBounded: everybody comes from its address, and each client behind it has a
// bound of its own.
func TestAProxyIsNotBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Proxies, c.Users = []string{"127.0.0.1"}, usersFile(t) })
	var conns []net.Conn
	for i := range maxConns + 50 {
		conns = append(conns, r.raw(fmt.Sprintf("POST /login HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.%d\r\nContent-Length: 9\r\n\r\n", i%2)))
	}
	require.Eventually(t, func() bool {
		r.atOnce.mu.Lock()
		defer r.atOnce.mu.Unlock()
		return len(r.atOnce.by["from 203.0.113.0"]) == maxAtOnce && len(r.atOnce.by["from 203.0.113.1"]) == maxAtOnce
	}, patience, time.Millisecond)
	other := r.browser()
	other.header.Set("X-Forwarded-For", "192.0.2.1")
	other.open(http.StatusOK, "/login")
	first := r.browser()
	first.header.Set("X-Forwarded-For", "203.0.113.1")
	first.open(http.StatusOK, "/login") // in place of a form that does not come
	require.Empty(t, r.conns.conns)
	for _, c := range conns {
		_ = c.Close()
	}
}

// TestAThousandEventStreams of one person leave the console to others, and to the same
// person in another browser.
func TestAThousandEventStreams(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("importer")
	var content strings.Builder
	content.WriteString("order_no,timeout\n")
	for i := range 20_000 {
		fmt.Fprintf(&content, "P-%d,30\n", i)
	}
	a := b.upload(http.StatusOK, "big.csv", strings.NewReader(content.String()))
	at := a.Request.URL.Path
	id := strings.TrimPrefix(at, "/upload/")
	b.send(http.StatusOK, at+"/check", columnsForm(t, a.page)...)
	b.settled(at)
	require.NoError(t, r.desk.Import(t.Context(), id, uploads.Person{Name: "importer"}, "", importer.Sending{Direct: true, Rate: 100}))

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	base, err := url.Parse(r.URL())
	require.NoError(t, err)
	jar.SetCookies(base, b.Jar.Cookies(base))
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	greedy := http.Client{Jar: jar, Transport: transport}
	var streams errgroup.Group
	streams.SetLimit(50)
	var refused atomic.Int64
	for range 1000 {
		streams.Go(func() error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+at+"/events", nil)
			if err != nil {
				return err
			}
			resp, err := greedy.Do(req)
			if err != nil {
				return nil //nolint:nilerr // the console closed the oldest connections
			}
			if resp.StatusCode != http.StatusOK {
				refused.Add(1)
				return resp.Body.Close()
			}
			t.Cleanup(func() { _ = resp.Body.Close() })
			return nil
		})
	}
	require.NoError(t, streams.Wait())
	require.GreaterOrEqual(t, refused.Load(), int64(1000-maxConns-maxAtOnce))
	require.Contains(t, r.as("viewer").open(http.StatusOK, "/"), "Log out")
	again := r.as("importer")
	again.send(http.StatusOK, at+"/stop")
}
