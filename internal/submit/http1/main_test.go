package http1

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"orderpost/internal/patient"
)

func TestMain(m *testing.M) {
	if scheme := os.Getenv(benchAPI); scheme != "" {
		serveBenchAPI(scheme)
		return
	}
	patient.Main(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean")) // of its own client, in the benchmark
}
