// Package authority is a certificate authority that lives as long as its process: that of
// the sandbox, of the bench, and of tests. Its key never leaves the process.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// PEM is its own certificate. Whoever meets its servers or clients must trust it.
	PEM []byte

	own tls.Certificate
}

// New makes an authority of this name, valid for a year.
func New(name string) (*Authority, error) {
	own, err := sign(x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	if err != nil {
		return nil, err
	}
	text, _, err := PEM(own)
	return &Authority{text, own}, err
}

// Sign makes a key and a certificate for it, with its leaf parsed. What is empty in c is filled
// in: a random serial number, valid from an hour ago for a year, a key that signs.
func (a *Authority) Sign(c x509.Certificate) (tls.Certificate, error) { return sign(c, &a.own) }

// sign is Sign by an authority's own certificate and key; nil: c signs itself.
func sign(c x509.Certificate, by *tls.Certificate) (pair tls.Certificate, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("certificate of %q: %w", c.Subject.CommonName, err)
		}
	}()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, err
	}
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = c.NotBefore.AddDate(1, 0, 0)
	}
	if c.KeyUsage == 0 {
		c.KeyUsage = x509.KeyUsageDigitalSignature
	}
	if by == nil {
		by = &tls.Certificate{Leaf: &c, PrivateKey: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, by.Leaf, &key.PublicKey, by.PrivateKey)
	if err != nil {
		return pair, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// Server is the certificate of a server on loopback, and at hosts: names or IP addresses.
func (a *Authority) Server(hosts ...string) (tls.Certificate, error) {
	c := x509.Certificate{Subject: pkix.Name{CommonName: "server"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else if h != "" {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	return a.Sign(c)
}

// PEM are the files of a certificate and of its key (PKCS #8).
func PEM(pair tls.Certificate) (certificate, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
