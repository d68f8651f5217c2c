package queue

import (
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// claims extends the claims of all deliveries in flight (R7), until the queue
// closes.
type claims struct {
	quit chan struct{}
	done sync.WaitGroup
	once sync.Once
}

// startClaims starts extending claims. ackWait is the consumer's own AckWait:
// the server decides how long it waits, not this program's setting.
func (q *Queue) startClaims(ackWait time.Duration) error {
	inbox := q.Conn.nc.NewInbox()
	q.Claims.Start(ackWait, inbox)
	if _, err := q.Conn.nc.Subscribe(inbox+".*.*", q.claimAnswered); err != nil {
		return fmt.Errorf("lease answers: %w", err)
	}
	q.claims.quit = make(chan struct{})
	q.claims.done.Go(func() {
		every := q.Claims.Every()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				q.Claims.Extend()
				if now := q.Claims.Every(); now != every { // AckWait was changed
					every = now
					tick.Reset(every)
				}
			case <-q.claims.quit:
				return
			}
		}
	})
	return nil
}

// claimAnswered passes the server's answer to the lease that asked.
func (q *Queue) claimAnswered(msg *nats.Msg) {
	if msg.Header.Get("Status") != "" { // no responders: nothing was extended
		return
	}
	q.Claims.Answered(msg.Subject)
}

func (c *claims) stop() {
	c.once.Do(func() {
		if c.quit != nil {
			close(c.quit)
		}
	})
	c.done.Wait()
}
