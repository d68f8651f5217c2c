package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
)

// BenchmarkIdle: what a connection costs on which nothing happens: one that waits for an
// outcome, one that follows events, and one that is kept between two requests. The door, the
// broker and the clients' ends of the connections are in one process.
//
//	go test ./internal/gateway -run '^$' -bench Idle -benchtime 1x
func BenchmarkIdle(b *testing.B) {
	const conns = 4000
	for name, request := range map[string]string{
		"poll": "GET /v1/orders/A?wait=10m HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n\r\n",
		"feed": "GET /v1/outcomes HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: text/event-stream\r\n\r\n",
		"kept": "GET /livez HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, func(o *Options, _ *queue.Config) { o.mostConns, o.parkAfter = conns+10, time.Millisecond })
			require.Equal(b, http.StatusCreated, r.do("POST", "/v1/orders", body("A")).status)
			for range b.N {
				before := inUse()
				open := make([]net.Conn, conns)
				for i := range open {
					c, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
					require.NoError(b, err)
					_, err = io.WriteString(c, request)
					require.NoError(b, err)
					if name != "poll" { // its answer has begun, or is there
						_, err = http.ReadResponse(bufio.NewReaderSize(c, 512), nil)
						require.NoError(b, err)
					}
					open[i] = c
				}
				waits := map[string]string{"poll": "order", "feed": "outcomes"}[name]
				require.Eventually(b, func() bool { return waits == "" || r.open(waits) == conns }, patience, time.Millisecond)
				if waits != "" { // each is parked: one goroutine, where net/http has two
					require.Eventually(b, func() bool { return runtime.NumGoroutine() < conns*5/4 }, patience, time.Millisecond)
				}
				b.ReportMetric(float64(inUse()-before)/conns/1000, "kB/connection")
				for _, c := range open {
					_ = c.Close()
				}
				require.Eventually(b, func() bool { return r.crowd.open.Load() <= 1 }, patience, time.Millisecond)
			}
		})
	}
}

// inUse returns the bytes of heap and stacks.
func inUse() int64 {
	for range 3 { // the first one shrinks stacks, the others free what they held
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse) //nolint:gosec // far below
}
