package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"orderpost/internal/settle"
)

// extendClaims extends the claims of all deliveries in flight (R7) until stop is called. ackWait
// is the consumer's own AckWait: the server decides how long it waits, not this program's setting.
func extendClaims(nc *nats.Conn, of *settle.Claims, ackWait time.Duration) (stop func(), err error) {
	inbox := nc.NewInbox()
	of.Start(ackWait, inbox)
	answered := func(msg *nats.Msg) { // passes the server's answer to the lease that asked
		if msg.Header.Get("Status") == "" { // otherwise no responders: nothing was extended
			of.Answered(msg.Subject)
		}
	}
	if _, err := nc.Subscribe(inbox+".*.*", answered); err != nil {
		return nil, fmt.Errorf("lease answers: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		every := of.Every()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				of.Extend()
				if now := of.Every(); now != every { // AckWait was changed
					every = now
					tick.Reset(every)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); done.Wait() }, nil
}

// holder is the server that has the only replica of the intents stream and of its
// consumer. A worker that is connected to another server does not notice if the holder is
// killed, and comes back with the delivery counts of a moment before. A pull that waits
// then ends late or with an error. Where none waited, the marks are read again (R2).
type holder struct {
	worker *settle.Worker
	// remote says that the connection does not break with the holder.
	remote bool
	// lull is the time after which a consumer that gave no answer may have lost its
	// counts. A server cannot be killed and be back sooner.
	lull time.Duration
	// heard is when the consumer last answered a pull; nil = never.
	heard atomic.Pointer[time.Time]
}

// find finds out where the streams are, and warns if a cluster has one replica of them. It
// is no error if the broker does not tell.
func (h *holder) find(ctx context.Context, cn *Conn, rd *reader) {
	h.worker, h.lull = cn.worker, 250*time.Millisecond
	if !cn.cfg.Worker {
		return
	}
	var single []string
	for _, name := range []string{cn.n.intents, cn.n.results} {
		info, err := rd.info(ctx, name)
		if err != nil {
			cn.log.Debug().Err(err).Msg("cannot find out where the streams are")
			return
		}
		if info.Config.Replicas > 1 || info.Cluster == nil {
			continue
		}
		if info.Cluster.Name != "" {
			single = append(single, name)
		}
		if name == cn.n.intents {
			h.remote = info.Cluster.Name != "" || info.Cluster.Leader != cn.nc.ConnectedServerName()
		}
	}
	if len(single) > 0 {
		cn.log.Warn().Str("streams", strings.Join(single, ", ")).
			Msg("the broker is a cluster, and these streams have one replica: without the server that has it, everything stops, and if that server is killed, " +
				"it may forget deliveries and orders come again in doubt. Set ORDERPOST_REPLICAS=3 and restart a worker; see \"How are replicas raised?\" in docs/operations.md")
	}
}

// noteAnswer notes that the consumer answered a pull.
func (h *holder) noteAnswer() {
	now := time.Now()
	h.heard.Store(&now)
}

// noteFailure notes a pull that the consumer's server refused or did not end. The next
// pull reads the marks again. If the holder was killed, it may have forgotten who has which
// order, so the same follows as from a lost connection (R7): claims end, and redelivered
// orders wait for their former owners. Replicas do not forget.
func (h *holder) noteFailure() {
	if h.remote {
		h.worker.Disconnected()
		h.worker.Reconnected()
	} else {
		h.worker.ForgetDeliveries()
	}
}

// beforePull lets the marks be read again if the holder may have been killed unnoticed.
func (h *holder) beforePull() {
	if heard := h.heard.Load(); h.remote && heard != nil && time.Since(*heard) > h.lull {
		h.worker.RereadHighWaterMarks()
	}
}
