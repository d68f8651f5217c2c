package sandbox

import (
	"crypto/tls"
	"net"

	"orderpost/internal/sandbox/authority"
)

// identity is the server's certificate, and the authority that signed it.
type identity struct {
	certificate tls.Certificate
	ca          []byte // PEM
}

// newIdentity makes a certificate for loopback and for the given hosts.
func newIdentity(hosts ...string) (*identity, error) {
	a, err := authority.New("orderpost sandbox authority")
	if err != nil {
		return nil, err
	}
	pair, err := a.Server(hosts...)
	return &identity{pair, a.PEM}, err
}

// secured puts TLS over a listener. HTTP/1.1 alone, so that a dropped connection
// is one order's.
func (i *identity) secured(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{i.certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
}

// CA is the certificate, in PEM, of the authority that the server's own is from;
// empty without Config.TLS. Clients must be told to trust it.
func (s *Server) CA() []byte {
	if s.listening.identity == nil {
		return nil
	}
	return s.listening.identity.ca
}
