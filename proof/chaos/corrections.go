package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// correctWithin is the longest time from a refusal to its correction.
const correctWithin = 4 * time.Second

// correct submits refused orders of the producers again until enough ends: within seconds, under
// another ID, half of them with another body. Meanwhile people replay the same dead letters.
func (r *rig) correct(ctx context.Context, enough <-chan struct{}) error {
	q, err := r.open(ctx, "chaos corrections")
	if err != nil {
		return err
	}
	defer q.Close()
	c, err := r.js.OrderedConsumer(ctx, readStreams[0], jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, MaxResetAttempts: -1})
	if err != nil {
		return fmt.Errorf("corrections: %w", err)
	}
	refused := make(chan string, 10_000)
	reading, err := c.Consume(func(m jetstream.Msg) {
		var rec order.Record
		if json.Unmarshal(m.Data(), &rec) == nil && rec.Outcome() == order.OutcomeRejected && strings.HasPrefix(rec.Batch, producerBatch) {
			select {
			case refused <- rec.OrderNo:
			default: // there are enough
			}
		}
	})
	if err != nil {
		return fmt.Errorf("corrections: %w", err)
	}
	defer reading.Stop()
	draw := rand.New(rand.NewPCG(r.o.seed, 6))
	var all sync.WaitGroup
	defer all.Wait()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-enough:
			return nil
		case no := <-refused:
			in, wait := correction(no, n, draw.IntN(2) == 0), time.Duration(draw.Int64N(int64(correctWithin)))
			all.Go(func() {
				for pauseUntil(ctx, enough, wait) {
					wait = 200 * time.Millisecond
					r.intents.submit(in.OrderNo, in.ID)
					status, err := q.Producer.Publish(ctx, in)
					switch {
					case errors.Is(err, settle.ErrSwallowed): // it was stored, unconfirmed, and another submission was settled since
						return
					case err == nil && status != settle.AlreadyPending:
						r.intents.corrected(in.OrderNo)
						return
					}
				}
			})
		}
	}
}

// correction returns the n-th correction of the run. Its body is that of the first submission, or another one.
func correction(no string, n int, same bool) settle.Intent {
	i, _ := strconv.Atoi(no[strings.LastIndexByte(no, '-')+1:]) // the producers number their orders
	if !same {
		i += 1_000_000
	}
	return settle.Intent{OrderNo: no, ID: fmt.Sprintf("chaos:%s:%d", no, n), Batch: producerBatch, Body: orderBody(no, i)}
}

// submit notes that another submission of an order is about to be published.
func (i *intents) submit(orderNo, intent string) {
	i.history.now(oracle.Event{Kind: oracle.Published, OrderNo: orderNo, Intent: intent})
}

// corrected notes that the broker confirmed a correction of a confirmed order.
func (i *intents) corrected(orderNo string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c := i.confirmed[orderNo]
	c.Corrections++
	i.confirmed[orderNo] = c
}
