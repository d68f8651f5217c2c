package queue

import (
	"fmt"
	"sync"
	"time"

	"orderpost/internal/settle"

	"github.com/nats-io/nats.go"
)

// claims extends the claims of all deliveries in flight (R7), until the queue
// closes.
type claims struct {
	quit chan struct{}
	done sync.WaitGroup
	once sync.Once
}

// start starts extending claims. ackWait is the consumer's own AckWait: the server decides
// how long it waits, not this program's setting.
func (c *claims) start(nc *nats.Conn, of *settle.Claims, ackWait time.Duration) error {
	inbox := nc.NewInbox()
	of.Start(ackWait, inbox)
	answered := func(msg *nats.Msg) { // passes the server's answer to the lease that asked
		if msg.Header.Get("Status") == "" { // otherwise no responders: nothing was extended
			of.Answered(msg.Subject)
		}
	}
	if _, err := nc.Subscribe(inbox+".*.*", answered); err != nil {
		return fmt.Errorf("lease answers: %w", err)
	}
	c.quit = make(chan struct{})
	c.done.Go(func() {
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
			case <-c.quit:
				return
			}
		}
	})
	return nil
}

func (c *claims) stop() {
	c.once.Do(func() {
		if c.quit != nil {
			close(c.quit)
		}
	})
	c.done.Wait()
}
