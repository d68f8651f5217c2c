package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// ErrNotServed is returned by [Probe] for an empty address.
var ErrNotServed = errors.New("health is not served: ORDERPOST_OPS_ADDR is empty")

// Probe requests /livez from a worker on this machine. addr is the worker's listen
// address. If it means all interfaces, Probe uses localhost.
func Probe(ctx context.Context, addr string) error {
	if addr == "" {
		return ErrNotServed
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("ORDERPOST_OPS_ADDR: %q is not host:port", addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/livez", nil)
	if err != nil {
		return err
	}
	// The proxy settings of the environment are for the API.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxHeader))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", req.URL, resp.Status)
	}
	return nil
}
