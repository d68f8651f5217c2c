package tracing

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// defaultEndpoint and defaultTimeout are those of OpenTelemetry's specification.
	defaultEndpoint = "http://localhost:4318"
	defaultTimeout  = 10 * time.Second
	// firstRetry is the pause before a batch is sent again. It doubles until the timeout.
	firstRetry = 500 * time.Millisecond
	// mostAnswer bounds what is read of an answer, in bytes.
	mostAnswer = 4 << 10
)

// client sends batches of spans as protobuf over HTTP/1.1. It implements otlptrace.Client.
// OpenTelemetry's own client links gRPC, and over HTTP/2 a connection outlives a timeout.
type client struct {
	url     string
	header  http.Header
	timeout time.Duration // of a batch, retries included
	http    *http.Client
}

// exporterOption reads OTEL_EXPORTER_OTLP_TRACES_<name>, or else OTEL_EXPORTER_OTLP_<name>. variable is
// the one that is set.
func exporterOption(environ map[string]string, name string) (value, variable string) {
	variable = "OTEL_EXPORTER_OTLP_TRACES_" + name
	if value = strings.TrimSpace(environ[variable]); value == "" {
		variable = "OTEL_EXPORTER_OTLP_" + name
		value = strings.TrimSpace(environ[variable])
	}
	return value, variable
}

// newClient reads the options of the exporter. Its error names the variable, and no value that may be a secret.
func newClient(environ map[string]string, version string) (*client, error) {
	set := func(name string) (value, variable string) { return exporterOption(environ, name) }
	c := &client{timeout: defaultTimeout, header: http.Header{"Content-Type": {mediaType}, "User-Agent": {scope + "/" + version}}}
	endpoint, variable := set("ENDPOINT")
	to, err := url.Parse(cmp.Or(endpoint, defaultEndpoint))
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, fmt.Errorf("%s is not a URL such as %s", variable, defaultEndpoint)
	}
	if variable == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		to = to.JoinPath("v1/traces")
	}
	c.url = to.String()
	headers, variable := set("HEADERS")
	for pair := range strings.SplitSeq(headers, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			return nil, fmt.Errorf("%s: an entry is not name=value with a percent-encoded value", variable)
		}
		c.header.Set(strings.TrimSpace(name), value)
	}
	if timeout, variable := set("TIMEOUT"); timeout != "" {
		ms, err := strconv.ParseUint(timeout, 10, 31)
		if err != nil || ms == 0 {
			return nil, fmt.Errorf("%s: %q is not a number of milliseconds", variable, timeout)
		}
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	switch compression, variable := set("COMPRESSION"); strings.ToLower(compression) {
	case "", "none":
	case "gzip":
		c.header.Set("Content-Encoding", "gzip")
	default:
		return nil, fmt.Errorf("%s: %q is not one of gzip, none", variable, compression)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	transport.TLSClientConfig = new(tls.Config)
	if file, variable := set("CERTIFICATE"); file != "" {
		text, err := os.ReadFile(file)
		pool := x509.NewCertPool()
		if err == nil && !pool.AppendCertsFromPEM(text) {
			err = errors.New("it has no certificate in PEM")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", variable, file, err)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	if file, variable := set("CLIENT_CERTIFICATE"); file != "" {
		key, _ := set("CLIENT_KEY")
		pair, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	c.http = &http.Client{Transport: transport}
	return c, nil
}

const mediaType = "application/x-protobuf"

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends a batch, and again while the receiver has no room for it, until the timeout.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // the bytes of an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	if c.header.Get("Content-Encoding") == "gzip" {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(body) // a buffer takes everything
		_ = w.Close()
		body = packed.Bytes()
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for pause := firstRetry; ; pause *= 2 {
		again, after, err := c.post(ctx, body)
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(pause, after)):
		}
	}
}

// post sends a batch once. again says that it may be sent once more, at the earliest after a while.
func (c *client) post(ctx context.Context, body []byte) (again bool, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	req.Header = c.header
	resp, err := c.http.Do(req)
	if err != nil {
		return false, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	switch status := resp.StatusCode; {
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		seconds, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16) // a date counts as none
		return true, time.Duration(seconds) * time.Second, fmt.Errorf("%s: %.500q", resp.Status, answer)
	case status < 200 || status > 299:
		return false, 0, fmt.Errorf("%s: %.500q", resp.Status, answer)
	case err == nil && len(answer) > len("\x0a\x00") && resp.Header.Get("Content-Type") == mediaType: // more than an empty partial_success
		return false, 0, fmt.Errorf("the receiver did not take all spans: %.500q", answer)
	}
	return false, 0, err
}
