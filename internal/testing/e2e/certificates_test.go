package e2e

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/sandbox/authority"
)

// certificates are the files of an authority and of those it signs.
type certificates struct {
	*authority.Authority
	t    *testing.T
	dir  string
	file string // its own certificate
}

func newCertificates(t *testing.T) *certificates {
	t.Helper()
	a, err := authority.New("authority")
	require.NoError(t, err)
	c := &certificates{Authority: a, t: t, dir: t.TempDir()}
	c.file = c.write("ca.pem", a.PEM)
	return c
}

// issue makes a certificate, for servers and clients alike, and gives the names
// of its files.
func (c *certificates) issue(name string) (certFile, keyFile string) {
	c.t.Helper()
	pair, err := c.Sign(x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	require.NoError(c.t, err)
	cert, key, err := authority.PEM(pair)
	require.NoError(c.t, err)
	return c.write(name+".pem", cert), c.write(name+"-key.pem", key)
}

func (c *certificates) write(name string, text []byte) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(c.t, os.WriteFile(path, text, 0o600))
	return path
}

// door is a way to a server that can be shut.
type door struct {
	net.Listener
	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

func startDoor(t *testing.T, to net.Addr) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &door{Listener: l}
	t.Cleanup(func() { _ = l.Close(); d.close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			d.enter(in, to)
		}
	}()
	return d
}

func (d *door) enter(in net.Conn, to net.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		_ = in.Close()
		return
	}
	out, err := net.Dial(to.Network(), to.String())
	if err != nil {
		_ = in.Close()
		return
	}
	d.conns = append(d.conns, in, out)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // until one of them ends
		_, _ = to.Close(), from.Close()
	}
	go pass(in, out)
	go pass(out, in)
}

// close ends all connections, and lets nobody in.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = true
	for _, c := range d.conns {
		_ = c.Close() // some have gone by themselves
	}
	d.conns = nil
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = false
}

// TestCertificatesAreReplaced in the order of docs/operations.md: authority and all
// certificates, while a worker runs. It reconnects with the new ones, and the
// old authority opens nothing any more.
func TestCertificatesAreReplaced(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	way := startDoor(t, s.server.Addr())
	for _, settings := range s.settings {
		settings["ORDERPOST_NATS_URL"] = "tls://" + way.Addr().String()
	}
	settings, _ := api(t)
	w := startWorker(t, s.as("worker", settings))
	fresh := newCertificates(t)
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return data
	}
	put := func(path string, data []byte) { require.NoError(t, os.WriteFile(path, data, 0o600)) }
	step := 0
	orderGoesThrough := func(what string) {
		t.Helper()
		opts := s.conf.options(t)
		opts.Port = s.server.Addr().(*net.TCPAddr).Port
		way.close()
		// While nobody asks for anything: nats-server 2.15 reads its options without a lock where it answers batched reads.
		require.Eventually(t, func() bool { return s.server.NumClients() == 0 }, patience, time.Millisecond, what)
		require.NoError(t, s.server.ReloadOptions(opts), what) // --signal reload
		way.open()
		step++
		code, _, errOut := importFile(t, s.as("producer", nil), rows(t, fmt.Sprint("STEP-", step), 1), "--wait")
		require.Zero(t, code, "%s: %s", what, errOut)
	}
	old := t.TempDir()
	oldCert, oldKey := filepath.Join(old, "cert.pem"), filepath.Join(old, "key.pem")
	put(oldCert, read(s.settings["producer"]["ORDERPOST_NATS_CERT_FILE"]))
	put(oldKey, read(s.settings["producer"]["ORDERPOST_NATS_KEY_FILE"]))

	put(s.ca.file, append(read(s.ca.file), read(fresh.file)...))
	orderGoesThrough("both authorities are trusted")
	for name, files := range map[string][2]string{
		"server":   {s.conf.vars["NATS_CERT_FILE"], s.conf.vars["NATS_KEY_FILE"]},
		"producer": {s.settings["producer"]["ORDERPOST_NATS_CERT_FILE"], s.settings["producer"]["ORDERPOST_NATS_KEY_FILE"]},
		"worker":   {s.settings["worker"]["ORDERPOST_NATS_CERT_FILE"], s.settings["worker"]["ORDERPOST_NATS_KEY_FILE"]},
	} {
		cert, key := fresh.issue(name)
		put(files[0], read(cert))
		put(files[1], read(key))
	}
	orderGoesThrough("certificates of the new authority")
	put(s.ca.file, read(fresh.file))
	orderGoesThrough("the old authority is trusted no more")

	late := s.as("producer", map[string]string{"ORDERPOST_NATS_CONNECT_TIMEOUT": "300ms"})
	late["ORDERPOST_NATS_CERT_FILE"], late["ORDERPOST_NATS_KEY_FILE"] = oldCert, oldKey
	code, _, _ := importFile(t, late, rows(t, "OLD", 1))
	require.NotZero(t, code, "a certificate of the old authority still opens the server")
	require.Zero(t, w.end())
}
