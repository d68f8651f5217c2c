package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// ErrNotServed is returned by Probe where there is no address to ask.
var ErrNotServed = errors.New("health is not served: ORDERPOST_OPS_ADDR is empty")

// Probe asks the server of this machine whether its process lives. addr is the
// address that it listens on; one that stands for every interface is asked on
// loopback.
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
	// A proxy of the environment is for the API, not for ourselves.
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
