package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

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
