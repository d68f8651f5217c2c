package importer

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
	"orderpost/internal/testing/xlsxtest"
)

// bigFile writes a CSV file whose rows have about 300 bytes.
func bigFile(tb testing.TB, rows int) *os.File {
	tb.Helper()
	f, err := os.Create(filepath.Join(tb.TempDir(), "big.csv"))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = f.Close() })
	var b bytes.Buffer
	b.WriteString("order_no,timeout,sku,item,quantity,amount,currency,customer,street,city,note\n")
	for i := range rows {
		fmt.Fprintf(&b, "ORDER-%010d,30,%08d,filter Ø 40 mm stainless,%d,%d.%02d,EUR,customer number %d,\"Long Street %d, back door\",Springfield,\"leave it with the neighbour; ring twice, then wait %0100d\"\n",
			i, i*7919%100000000, i%9+1, i%900, i%100, i, i%300, i)
		if b.Len() > 1<<20 {
			_, err := b.WriteTo(f)
			require.NoError(tb, err)
		}
	}
	_, err = b.WriteTo(f)
	require.NoError(tb, err)
	return f
}

// BenchmarkImport compares the two passes of an import with publishing the
// same prepared messages in the same atomic batches: b.N rows each, on an
// embedded broker that fsyncs every write.
//
//	go test ./internal/files/importer -run XXX -bench Import -benchtime 1000000x
func BenchmarkImport(b *testing.B) {
	file := bigFile(b, b.N)
	f, err := Open(file, Options{File: "big.csv"})
	require.NoError(b, err)
	begun := time.Now()
	s, err := f.Check(b.Context())
	require.NoError(b, err)
	checking := time.Since(begun)

	prepared := prepare(b, f)
	q := syncedQueue(b)
	begun = time.Now()
	for start := 0; start < len(prepared); start += chunkRows {
		for _, r := range q.PublishMany(b.Context(), prepared[start:min(start+chunkRows, len(prepared))]) {
			require.NoError(b, r.Err)
		}
	}
	bare := time.Since(begun)
	prepared = nil

	q = syncedQueue(b)
	b.ResetTimer()
	begun = time.Now()
	done, err := f.Publish(b.Context(), q, s)
	publishing := time.Since(begun)
	b.StopTimer()
	require.NoError(b, err)
	require.Equal(b, b.N, done.Stored)
	b.ReportMetric(float64(b.N)/publishing.Seconds(), "rows/s")
	b.ReportMetric(float64(b.N)/bare.Seconds(), "bare-rows/s")
	b.ReportMetric(bare.Seconds()/publishing.Seconds(), "of-bare")
	b.ReportMetric(checking.Seconds()/publishing.Seconds(), "check/publish")
}

func prepare(b *testing.B, f *File) []settle.Intent {
	b.Helper()
	prepared := make([]settle.Intent, 0, b.N)
	_, err := f.scan(b.Context(), func(rows []Row) error {
		for i := range rows {
			prepared = append(prepared, settle.Intent{OrderNo: rows[i].OrderNo, Body: rows[i].Order.Canonical(), Batch: f.Batch,
				ID: f.Batch + ":" + strconv.Itoa(rows[i].Number), Source: "big.csv:" + strconv.Itoa(rows[i].Line)})
		}
		return nil
	})
	require.NoError(b, err)
	return prepared
}

func syncedQueue(b *testing.B) *queue.Queue {
	b.Helper()
	return connect(b, startBroker(b, func(c *embedded.Config) { c.NoSync = false }), "bench")
}

// bigBook writes a workbook with the rows of bigFile, as spreadsheets do: texts are shared.
func bigBook(tb testing.TB, rows int) *os.File {
	tb.Helper()
	f, err := os.Create(filepath.Join(tb.TempDir(), "big.xlsx"))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = f.Close() })
	header := []string{"order_no", "timeout", "sku", "item", "quantity", "amount", "currency", "customer", "street", "city", "note"}
	xlsxtest.WriteBig(f, rows, header, func(i int) []any {
		return []any{fmt.Sprintf("ORDER-%010d", i), 30, fmt.Sprintf("%08d", i*7919%100000000), "filter Ø 40 mm stainless", i%9 + 1, float64(i%900) + float64(i%100)/100, "EUR",
			fmt.Sprintf("customer number %d", i), fmt.Sprintf("Long Street %d, back door", i%300), "Springfield", fmt.Sprintf("leave it with the neighbour; ring twice, then wait %0100d", i)}
	})
	return f
}

// BenchmarkCheck is the checking pass alone, of CSV and of a workbook with the same rows;
// B/op is per row. peak-MB is the most memory that the process had during the check: run
// one format at a time to compare.
//
//	go test ./internal/files/importer -run XXX -bench Check/xlsx -benchtime 1000000x
func BenchmarkCheck(b *testing.B) {
	for name, file := range map[string]func(testing.TB, int) *os.File{"csv": bigFile, "xlsx": bigBook} {
		b.Run(name, func(b *testing.B) {
			f, err := Open(file(b, b.N), Options{File: "big." + name, Temp: b.TempDir()})
			require.NoError(b, err)
			forgetPeak(b)
			b.ReportAllocs()
			b.ResetTimer()
			s, err := f.Check(b.Context())
			require.NoError(b, err)
			require.Equal(b, b.N, s.Rows)
			b.StopTimer()
			b.ReportMetric(peak(b), "peak-MB")
			require.NoError(b, f.Close())
		})
	}
}

// BenchmarkResults writes the results of a file whose orders are unknown to the queue, as
// CSV and as a workbook.
//
//	go test ./internal/files/importer -run XXX -bench Results/xlsx -benchtime 1000000x
func BenchmarkResults(b *testing.B) {
	for _, as := range []Format{FormatCSV, FormatXLSX} {
		b.Run(string(as), func(b *testing.B) {
			q := syncedQueue(b)
			f, err := Open(bigBook(b, b.N), Options{File: "big.xlsx", Temp: b.TempDir()})
			require.NoError(b, err)
			_, err = f.Check(b.Context())
			require.NoError(b, err)
			forgetPeak(b)
			b.ResetTimer()
			tally, err := f.WriteResults(b.Context(), q, io.Discard, as)
			require.NoError(b, err)
			require.Equal(b, b.N, tally[outcomeNothing])
			b.StopTimer()
			b.ReportMetric(peak(b), "peak-MB")
			require.NoError(b, f.Close())
		})
	}
}
