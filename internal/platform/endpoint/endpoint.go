// Package endpoint reads the addresses that settings give: URLs that a program dials, and
// whether an address is of this machine alone.
package endpoint

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// HTTP reads the URL of an HTTP endpoint: https, or plain http to loopback and to the hosts
// that are named in plain. sends says what plain http would show, such as "the key". The
// errors never show the whole URL, which may hold a secret.
func HTTP(text, sends string, plain []string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("is not a URL")
	}
	host := u.Hostname()
	named := func(h string) bool { return strings.EqualFold(strings.TrimSpace(h), host) }
	switch {
	case u.User != nil:
		return nil, errors.New("must not hold a user name or password")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("scheme %q: give https://… (or http://… to loopback)", u.Scheme)
	case host == "":
		return nil, errors.New("has no host")
	case u.Fragment != "":
		return nil, errors.New("must not hold a fragment")
	case u.Scheme == "http" && !Loopback(host) && !slices.ContainsFunc(plain, named):
		return nil, fmt.Errorf("plain http to %s would send %s in clear text: use https, or name the host in ORDERPOST_PLAIN_HTTP_HOSTS", host, sends)
	case Port(u) != nil:
		return nil, fmt.Errorf("port %s: give one from 1 to 65535", u.Port())
	}
	return u, nil
}

// Port returns an error if no server can have the port of a URL (RFC 6335, section 6). A URL
// without one has its scheme's. The error does not show the port, which may be the beginning
// of a password.
func Port(u *url.URL) error {
	if n, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || n < 1 || n > 65535) {
		return errors.New("a port is a number from 1 to 65535")
	}
	return nil
}

// Loopback reports whether a host, by name or address, is reached from this machine alone.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}

// Listen returns an error for what is no address to listen on, such as 127.0.0.1:8080 or
// :8080. Port 0 is any that is free.
func Listen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("%q is not host:port, with a port up to 65535", address)
	}
	return nil
}

// Local reports whether only this machine reaches who listens on host:port.
func Local(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && Loopback(host)
}
