package uploads

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/importer"
)

// rowsOf writes a CSV file with rows of about 300 bytes.
func rowsOf(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		var b bytes.Buffer
		b.WriteString("order_no,timeout,sku,item,quantity,amount,currency,customer,street,city,note\n")
		for i := range n {
			fmt.Fprintf(&b, "ORDER-%010d,30,%08d,filter Ø 40 mm stainless,%d,%d.%02d,EUR,customer number %d,\"Long Street %d, back door\",Springfield,\"leave it with the neighbour; ring twice, then wait %0100d\"\n",
				i, i*7919%100000000, i%9+1, i%900, i%100, i, i%300, i)
			if b.Len() > 1<<20 {
				if _, err := b.WriteTo(w); err != nil {
					return
				}
			}
		}
		_, _ = b.WriteTo(w)
		_ = w.Close()
	}()
	return r
}

// BenchmarkCheck compares the check of an upload with a dry run of enqueue on the same
// rows: b.N rows each. peak-MB is the largest heap during the check.
//
//	go test ./internal/uploads -run XXX -bench Check -benchtime 1000000x
func BenchmarkCheck(b *testing.B) {
	s := openStore(b, b.TempDir())
	d := openDesk(b, s, nil)
	begun := time.Now()
	u, err := s.Keep(b.Context(), "big.csv", anna, rowsOf(b.N))
	require.NoError(b, err)
	keeping := time.Since(begun)

	plain := text(b, s, u)
	begun = time.Now()
	f, err := importer.Open(bytes.NewReader([]byte(plain)), importer.Options{File: "big.csv"})
	require.NoError(b, err)
	_, err = f.Check(b.Context())
	require.NoError(b, err)
	_, err = f.Preview(b.Context(), previewed)
	require.NoError(b, err)
	dry := time.Since(begun)
	f, plain = nil, ""
	runtime.GC()

	peak := watchHeap()
	b.ResetTimer()
	begun = time.Now()
	require.NoError(b, d.Check(u.ID, anna, ""))
	u = finished(b, d, u.ID)
	took := time.Since(begun)
	b.StopTimer()
	require.Equal(b, b.N, u.Checked.Summary.Rows)
	b.ReportMetric(float64(b.N)/took.Seconds(), "rows/s")
	b.ReportMetric(took.Seconds()/dry.Seconds(), "of-dry-run")
	b.ReportMetric(float64(b.N)/keeping.Seconds(), "kept-rows/s")
	b.ReportMetric(float64(u.Size)/float64(u.Bytes), "packed")
	b.ReportMetric(float64(peak())/(1<<20), "peak-MB")
}

// watchHeap measures the largest heap until the function that it returns is called.
func watchHeap() func() uint64 {
	var peak uint64
	var work sync.WaitGroup
	stop := make(chan struct{})
	work.Go(func() {
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			select {
			case <-time.After(20 * time.Millisecond):
			case <-stop:
				return
			}
		}
	})
	return func() uint64 {
		close(stop)
		work.Wait()
		return peak
	}
}
