package livefile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/platform/textfile"
)

// certificateAge is how long a certificate is shown before its files are read again.
const certificateAge = 10 * time.Second

// Certificate is a certificate with its key, of a server or of a client, in two PEM files that are read again when
// they change, so that a renewed certificate needs no restart. It is safe for concurrent use.
type Certificate struct {
	setting, certFile, keyFile string

	mu     sync.Mutex
	looked time.Time
	text   []byte // of both files, as they were read last
	pair   *tls.Certificate
	teller teller
}

// OpenCertificate reads the files. Errors begin with setting, the name of the certificate's. log
// hears once of files that changed and cannot be read, after which the last good certificate is
// shown on, and of a certificate that is not valid now.
func OpenCertificate(setting, certFile, keyFile string, log zerolog.Logger) (*Certificate, error) {
	c := &Certificate{setting: setting, certFile: certFile, keyFile: keyFile, teller: teller{log: log.With().Str("setting", setting).Logger()}}
	if err := c.read(); err != nil {
		return nil, err
	}
	c.teller.say(c.Invalid())
	return c, nil
}

// Get returns the certificate that a handshake shows. It is a [tls.Config.GetCertificate].
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= certificateAge {
		if err := c.read(); err != nil {
			c.teller.say(fmt.Errorf("%w; the last good certificate is shown on", err))
		} else {
			c.teller.say(c.Invalid())
		}
	}
	return c.pair, nil
}

// ForServer is Get for a server that asks a client for its certificate. It is a [tls.Config.GetClientCertificate].
func (c *Certificate) ForServer(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return c.Get(nil)
}

// Invalid returns why the other side refuses the certificate at this time, or nil.
func (c *Certificate) Invalid() error {
	now, leaf := time.Now(), c.pair.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("%s: %s expired on %s: renew it", c.setting, c.certFile, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%s: %s is not valid before %s (is this machine's clock right?)", c.setting, c.certFile, leaf.NotBefore.UTC().Format(time.RFC3339))
	default:
		return nil
	}
}

// read reads both files, and takes them if they changed and fit each other: while a renewal
// writes one after the other, they do not.
func (c *Certificate) read() error {
	c.looked = time.Now()
	cert, err := textfile.Read(c.certFile)
	if err != nil {
		return fmt.Errorf("%s: %w", c.setting, err)
	}
	key, err := textfile.Read(c.keyFile)
	if err != nil {
		return fmt.Errorf("%s: its key: %w", c.setting, err)
	}
	text := slices.Concat(cert, []byte{0}, key)
	if bytes.Equal(text, c.text) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s: %w", c.setting, err)
	}
	c.text, c.pair = text, &pair
	return nil
}

// OpenAuthorities reads the certificates in a PEM file by which a server knows its clients', so that
// an authority may be added or taken away without a restart.
func OpenAuthorities(setting, path string, log zerolog.Logger) (*Live[*x509.CertPool], error) {
	return OpenLive(Options{Setting: setting, Path: path, Log: log}, func(text []byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, errors.New("there is no certificate in PEM")
		}
		return pool, nil
	})
}
