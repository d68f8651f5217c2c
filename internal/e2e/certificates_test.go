package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority signs the certificates of one test.
type authority struct {
	t      *testing.T
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	file   string // its own certificate
	serial int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), serial: 1}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.file = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

// issue makes a certificate, for servers and clients alike, and gives the names
// of its files.
func (a *authority) issue(name string) (certFile, keyFile string) {
	a.t.Helper()
	a.serial++
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+"-key.pem", "EC PRIVATE KEY", secret)
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	require.NoError(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
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
	fresh := newAuthority(t)
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
