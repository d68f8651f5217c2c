package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// BenchmarkPosts: 64 connections post one order each at a time, at the door and at a bare
// handler that publishes and waits for the confirmation.
//
//	go test ./internal/gateway -run '^$' -bench Posts -benchtime 20000x
func BenchmarkPosts(b *testing.B) {
	for _, keyed := range []bool{false, true} {
		b.Run(fmt.Sprintf("door/key=%t", keyed), func(b *testing.B) {
			r := newRig(b, func(o *Options, _ *queue.Config) { o.Clients = "" })
			posts(b, r.client, r.URL()+"/v1/orders", keyed)
		})
	}
	b.Run("bare", func(b *testing.B) {
		r := newRig(b)
		nc, err := nats.Connect(r.broker.URL, nats.Token(r.broker.Token))
		require.NoError(b, err)
		b.Cleanup(nc.Close)
		js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096))
		require.NoError(b, err)
		bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			text, _ := io.ReadAll(req.Body)
			o, err := order.Parse(text)
			if err != nil {
				http.Error(w, err.Error(), http.StatusUnprocessableEntity)
				return
			}
			f, err := js.PublishAsync("orders.new."+order.Token(o.OrderNo()), text)
			if err == nil {
				select {
				case <-f.Ok():
					w.WriteHeader(http.StatusCreated)
					return
				case err = <-f.Err():
				}
			}
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}))
		b.Cleanup(bare.Close)
		posts(b, r.client, bare.URL, false)
	})
}

func posts(b *testing.B, client *http.Client, url string, keyed bool) {
	var next atomic.Int64
	var work sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		work.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				req, _ := http.NewRequestWithContext(b.Context(), "POST", url, strings.NewReader(fmt.Sprintf(`{"order_no":"B-%d-%d","timeout":30,"sku":"0815","amount":"12.50"}`, b.N, i)))
				req.Header.Set("Content-Type", mediaJSON)
				if keyed {
					req.Header.Set(headerKey, fmt.Sprint(i))
				}
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					b.Error(resp.Status)
					return
				}
			}
		})
	}
	work.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
}

// BenchmarkLines: one stream of many orders.
func BenchmarkLines(b *testing.B) {
	r := newRig(b)
	var text strings.Builder
	for i := range b.N {
		fmt.Fprintf(&text, `{"order_no":"L-%d-%d","timeout":30,"sku":"0815","amount":"12.50"}`+"\n", b.N, i)
	}
	b.ResetTimer()
	a := r.do("POST", "/v1/orders", text.String(), "Content-Type", mediaLines)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
	require.Equal(b, b.N, strings.Count(a.text, `"stored"`))
}
