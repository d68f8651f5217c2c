package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// BenchmarkClients takes 300-byte orders to an API in another process, which
// answers at once: ours, fasthttp's own client, and net/http with HTTP/1.1 and
// HTTP/2. cpu-ns/op is this process's alone.
func BenchmarkClients(b *testing.B) {
	body := []byte(`{"order_no":"n","timeout":5,"timestamp":1,"note":"` + strings.Repeat("x", 250) + `"}`)
	for _, secure := range []bool{false, true} {
		api, api2 := startBenchAPI(b, secure)
		clients := []struct {
			name string
			make func(b *testing.B) func() error
		}{
			{"ours", func(b *testing.B) func() error { return oursBench(b, api, body) }},
			{"fasthttp", func(b *testing.B) func() error { return fasthttpBench(b, api, body) }},
			{"net-http1", func(b *testing.B) func() error { return netBench(b, api, body, false) }},
			{"net-http2", func(b *testing.B) func() error { return netBench(b, api2, body, true) }},
		}
		for _, many := range []int{64, 256} {
			for _, c := range clients {
				if c.name == "net-http2" && !secure {
					continue
				}
				b.Run(fmt.Sprintf("%s/%d/%s", map[bool]string{false: "clear", true: "TLS"}[secure], many, c.name), func(b *testing.B) {
					exchanges(b, many, c.make(b))
				})
			}
		}
	}
}

// exchanges makes b.N exchanges, many at a time, on connections that are warm.
func exchanges(b *testing.B, many int, post func() error) {
	run := func(n int) {
		var next atomic.Int64
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				for next.Add(1) <= int64(n) {
					if err := post(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	run(20 * many)
	b.ReportAllocs()
	before := cpu()
	b.ResetTimer()
	run(b.N)
	b.StopTimer()
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}

func oursBench(b *testing.B, api string, body []byte) func() error {
	cfg := testConfig(api)
	cfg.RequestTimeout = 30 * time.Second
	if strings.HasPrefix(api, "https") {
		cfg.CAFile = caFile(b)
	}
	c, err := New(cfg)
	require.NoError(b, err)
	b.Cleanup(c.Close)
	orders := sync.Pool{New: func() any { // a worker's orders can be broken off, each by itself
		ctx, cancel := context.WithCancel(b.Context())
		b.Cleanup(cancel)
		return ctx
	}}
	return func() error {
		ctx := orders.Get().(context.Context)
		defer orders.Put(ctx)
		if x := c.Post(ctx, Order{No: "n", Body: body, Key: keyA, Signature: strings.Repeat("a", 64)}); x.Answer.Status != 200 {
			return fmt.Errorf("%d %w", x.Answer.Status, x.Err)
		}
		return nil
	}
}

func benchTLS() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(testCertificate().Certificate())
	return &tls.Config{RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(64)}
}

func fasthttpBench(b *testing.B, api string, body []byte) func() error {
	client := &fasthttp.Client{MaxConnsPerHost: 1 << 20, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, TLSConfig: benchTLS()}
	b.Cleanup(client.CloseIdleConnections)
	return func() error {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(req)
		defer fasthttp.ReleaseResponse(resp)
		req.SetRequestURI(api + "/v1/order/create")
		req.Header.SetMethod(http.MethodPost)
		req.Header.SetContentType("application/json")
		req.Header.Set("X-API-Key", keyA)
		req.Header.Set("X-Signature", strings.Repeat("a", 64))
		req.SetBodyRaw(body)
		if err := client.Do(req, resp); err != nil {
			return err
		}
		if resp.StatusCode() != 200 {
			return fmt.Errorf("status %d", resp.StatusCode())
		}
		return nil
	}
}

func netBench(b *testing.B, api string, body []byte, two bool) func() error {
	transport := &http.Transport{TLSClientConfig: benchTLS(), MaxIdleConns: 1 << 20, MaxIdleConnsPerHost: 1 << 20, ForceAttemptHTTP2: two, DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	return func() error {
		req, err := http.NewRequest(http.MethodPost, api+"/v1/order/create", bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-API-Key", keyA)
		req.Header.Set("X-Signature", strings.Repeat("a", 64))
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 || (resp.ProtoMajor == 2) != two {
			return fmt.Errorf("%s %w", resp.Status, err)
		}
		return nil
	}
}

// benchAPI makes the test's program the API of the benchmark instead.
const benchAPI = "SUBMIT_BENCH_API"

func startBenchAPI(b *testing.B, secure bool) (one, two string) {
	self, err := os.Executable()
	require.NoError(b, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), benchAPI+"="+map[bool]string{false: "http", true: "https"}[secure])
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { in.Close(); cmd.Wait() }) //nolint:errcheck // it ends with its input
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	one, two, _ = strings.Cut(strings.TrimSpace(line), " ")
	return one, two
}

func serveBenchAPI(scheme string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	if scheme == "https" {
		ln = tls.NewListener(ln, &tls.Config{Certificates: testCertificate().TLS.Certificates})
	}
	go fasthttp.Serve(ln, func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(`{"code":0,"order_no":"n"}`) }) //nolint:errcheck // until the end
	two := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"code":0,"order_no":"n"}`)
	}))
	two.EnableHTTP2 = true
	two.StartTLS()
	fmt.Printf("%s://%s %s\n", scheme, ln.Addr(), two.URL)
	io.Copy(io.Discard, os.Stdin) //nolint:errcheck // whatever ends it
}
