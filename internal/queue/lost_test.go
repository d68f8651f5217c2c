package queue

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/netcut"
)

// A cluster that has no leader yet drops requests and keeps the connection. A program that
// starts then asks again, and does not wait for the lost answer for as long as it has
// time.
func TestALostAnswerAtTheStartIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{"$JS.API.STREAM.INFO.ORDERS", "$JS.API.STREAM.INFO.ORDERS_DEAD", "$JS.API.STREAM.INFO.KV_ORDERPOST"} {
		t.Run(subject, func(t *testing.T) {
			s := startBroker(t)
			openQueue(t, s, "w1") // makes the streams
			var asked atomic.Int64
			lossy := &netcut.Dialer{Decide: func(to string, _ []byte) netcut.Cut {
				if to == subject && asked.Add(1) == 1 {
					return netcut.Lose
				}
				return netcut.Pass
			}}
			cfg := DefaultConfig()
			cfg.URL, cfg.Token, cfg.Missing = s.URL, s.Token, RefuseMissing
			cfg.ConnectTimeout, cfg.BrokerWait = 10*time.Minute, 20*time.Minute
			opened := make(chan error, 1)
			go func() {
				q, err := Open(t.Context(), cfg, zerolog.Nop(), nats.SetCustomDialer(lossy))
				if err == nil {
					q.Close()
				}
				opened <- err
			}()
			select {
			case err := <-opened:
				require.NoError(t, err)
				require.Greater(t, asked.Load(), int64(1))
			case <-time.After(time.Minute):
				t.Fatal("it waits for the lost answer")
			}
		})
	}
}
