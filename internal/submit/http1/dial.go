package http1

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptrace"
	"net/url"
	"time"

	"orderpost/internal/platform/livefile"
	"orderpost/internal/platform/textfile"
)

// dialer opens connections to the API, through the proxy if the environment names
// one. It sends no part of an order.
type dialer struct {
	cfg   Config
	addr  string // the API's
	tls   bool   // requests go over TLS to the API itself
	conf  *tls.Config
	proxy *url.URL // nil = none
	net   func(ctx context.Context, network, addr string) (net.Conn, error)
}

func newDialer(cfg Config) (*dialer, error) {
	target := cfg.Orders
	d := &dialer{cfg: cfg, addr: addrOf(target), tls: target.Scheme == "https", net: (&net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 15 * time.Second}).DialContext}
	var err error
	if d.proxy, err = proxyFor(target); err != nil {
		return nil, err
	}
	d.conf, err = tlsConfig(cfg)
	return d, err
}

func tlsConfig(cfg Config) (*tls.Config, error) {
	conf := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"},
		ClientSessionCache: tls.NewLRUClientSessionCache(64),
		// A request of up to 16 KiB is then one record, and thus one write.
		DynamicRecordSizingDisabled: true,
	}
	if cfg.CertFile != "" {
		cert, err := livefile.OpenCertificate("ORDERPOST_API_TLS_CERT_FILE", cfg.CertFile, cfg.KeyFile, cfg.Log)
		if err != nil {
			return nil, err
		}
		conf.GetClientCertificate = cert.ForServer
		conf.ClientSessionCache = nil // a session that goes on shows no certificate, and a renewed one would not be seen
	}
	if cfg.CAFile == "" {
		return conf, nil
	}
	pem, err := textfile.Read(cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("ORDERPOST_API_CA_FILE: %w", err)
	}
	if conf.RootCAs, err = x509.SystemCertPool(); err != nil {
		conf.RootCAs = x509.NewCertPool()
	}
	if !conf.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ORDERPOST_API_CA_FILE: %s holds no certificate", cfg.CAFile)
	}
	return conf, nil
}

// dial opens a connection that is ready for a request. It does so in a goroutine
// of its own: dialing and a TLS handshake need a stack of 16 KB or more, and the
// order's goroutine would keep what it needed once.
func (d *dialer) dial(ctx context.Context, until time.Time) (c *conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err = d.open(ctx, until)
	}()
	<-done
	return c, err
}

func (d *dialer) open(ctx context.Context, until time.Time) (_ *conn, err error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	addr := d.addr
	if d.proxy != nil {
		addr = addrOf(d.proxy)
	}
	raw, err := d.reach(ctx, addr)
	if err != nil && d.proxy != nil {
		return nil, d.proxyError(err, "%v: is it right in HTTP_PROXY, HTTPS_PROXY, NO_PROXY?", err)
	}
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: raw}
	c := &conn{Conn: s, socket: s, born: time.Now().Add(-rand.N(longestUse / 6))}
	defer func() {
		if err != nil {
			c.abort()
		}
	}()
	if d.proxy != nil {
		if err := d.pass(ctx, c); err != nil {
			return nil, err
		}
	}
	if d.tls {
		if err := d.shakeHands(ctx, c, d.addr); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// slowName is how long a name may be looked up for both families of addresses at once.
const slowName = 300 * time.Millisecond

// reach connects to addr. Some resolvers answer for one family of addresses and ignore the
// other, and the look-up of both then takes longer than a request has. So if the name is not found after
// slowName, reach also tries each family by itself. The first connection wins.
func (d *dialer) reach(ctx context.Context, addr string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(addr); err != nil || net.ParseIP(host) != nil {
		return d.net(ctx, "tcp", addr)
	}
	ctx, cancel := context.WithCancel(ctx) // ends the others
	defer cancel()
	type dialed struct {
		network string
		conn    net.Conn
		err     error
	}
	all := make(chan dialed, 3)
	dial := func(ctx context.Context, network string) {
		c, err := d.net(ctx, network, addr)
		all <- dialed{network, c, err}
	}
	found := make(chan struct{}, 1)
	go dial(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{DNSDone: func(httptrace.DNSDoneInfo) {
		select {
		case found <- struct{}{}:
		default:
		}
	}}), "tcp")
	slow := time.NewTimer(slowName)
	defer slow.Stop()
	var lost error // of both families: it names what a person expects
	for left := 1; left > 0; {
		select {
		case <-found:
			slow.Stop()
		case <-slow.C:
			left += 2
			go dial(ctx, "tcp4")
			go dial(ctx, "tcp6")
		case r := <-all:
			left--
			if r.err == nil {
				go func() {
					for range left {
						if other := <-all; other.conn != nil {
							_ = other.conn.Close()
						}
					}
				}()
				return r.conn, nil
			}
			if r.network == "tcp" {
				lost = r.err
			}
		}
	}
	return nil, lost
}

// shakeHands starts TLS on a connection to addr.
func (d *dialer) shakeHands(ctx context.Context, c *conn, addr string) error {
	conf := d.conf.Clone()
	conf.ServerName, _, _ = net.SplitHostPort(addr)
	below := &recordTracker{Conn: c.Conn}
	over := tls.Client(below, conf)
	c.records, c.Conn = append(c.records, below), over
	shaking, cancel := context.WithTimeout(ctx, d.cfg.TLSTimeout)
	defer cancel()
	err := over.HandshakeContext(shaking)
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return explain(addr, conf.ServerName, err)
}
