package chaos

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// intents records the intents that the broker confirmed to a producer. Orderpost must
// settle each of them.
type intents struct {
	history   *history // may be nil
	mu        sync.Mutex
	confirmed map[string]confirmation
	// attempted holds intents that may be stored without a confirmation.
	attempted map[string]bool
	// published has when an order was first about to be published, or to be imported.
	published map[string]time.Time
}

// confirmation is the confirmation of an intent to its producer.
type confirmation struct {
	At time.Time
	// Must is the only right outcome; OutcomeNone = any is right.
	Must order.Outcome
	// Corrections counts the later submissions of the order that were confirmed.
	Corrections int
}

func newIntents() *intents {
	return &intents{confirmed: make(map[string]confirmation), attempted: make(map[string]bool), published: make(map[string]time.Time)}
}

// publish notes that an order is about to be published, or to be imported. intent may be
// unknown.
func (i *intents) publish(orderNo, intent string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.published[orderNo] = time.Now()
	i.history.now(oracle.Event{Kind: oracle.Published, OrderNo: orderNo, Intent: intent})
}

func (i *intents) publishedAt(orderNo string) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.published[orderNo]
}

// attempt notes an intent that will be published only once, even if its confirmation is
// lost.
func (i *intents) attempt(orderNo string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.attempted[orderNo] = true
	i.history.now(oracle.Event{Kind: oracle.Published, OrderNo: orderNo})
}

// mayExist reports whether this order_no may have an outcome.
func (i *intents) mayExist(orderNo string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, known := i.confirmed[orderNo]
	return known || i.attempted[orderNo]
}

// confirm notes the first confirmation of an order_no. It ignores repeats.
func (i *intents) confirm(must order.Outcome, orderNos ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	for _, no := range orderNos {
		if _, before := i.confirmed[no]; !before {
			i.confirmed[no] = confirmation{At: now, Must: must}
			i.history.now(oracle.Event{Kind: oracle.Stored, OrderNo: no})
		}
	}
}

func (i *intents) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.confirmed)
}

// all returns a copy of the confirmations.
func (i *intents) all() map[string]confirmation {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.confirmed)
}

// tick is how often a producer publishes.
const tick = 50 * time.Millisecond

// produce publishes orders at a steady rate until enough ends or the number of orders is
// reached. It publishes an unconfirmed intent again under the same ID. It returns when
// all are confirmed or ctx ends.
func (r *rig) produce(ctx context.Context, enough <-chan struct{}) error {
	q, err := r.open(ctx, "chaos producer")
	if err != nil {
		return err
	}
	defer q.Close()
	started := time.Now()
	made, open := 0, []settle.Intent(nil)
	for {
		due := r.o.orders
		if r.o.rate > 0 {
			due = min(due, int(time.Since(started).Seconds()*r.o.rate))
		}
		select {
		case <-enough:
			due = made
		default:
		}
		for ; made < due; made++ {
			open = append(open, r.intent(made))
			r.intents.publish(open[len(open)-1].OrderNo, open[len(open)-1].ID)
		}
		if ended(enough) && len(open) == 0 || made == r.o.orders && len(open) == 0 {
			return nil
		}
		open = r.publish(ctx, q, open)
		if err := pause(ctx, tick); err != nil {
			return fmt.Errorf("%d intents are not confirmed: %w", len(open), err)
		}
	}
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// publishAtOnce is the largest number of intents in one round, which keeps the wait for
// confirmations short.
const publishAtOnce = 1000

// publish publishes intents and returns the unconfirmed ones.
func (r *rig) publish(ctx context.Context, q *queue.Queue, open []settle.Intent) []settle.Intent {
	n := min(len(open), publishAtOnce)
	var again []settle.Intent
	for i, result := range q.PublishMany(ctx, open[:n]) {
		if result.Err != nil {
			again = append(again, open[i])
			continue
		}
		r.intents.confirm(order.OutcomeNone, open[i].OrderNo)
	}
	return append(again, open[n:]...)
}

// producerBatch begins the names of the producers' imports.
const producerBatch = "chaos"

func orderBody(no string, i int) []byte {
	return fmt.Appendf(nil, `{"order_no":%q,"timeout":60,"amount":"%d.00"}`, no, i)
}

// intent returns the i-th order of the producer. One in a hundred has a deadline that
// may pass. Some wait for their turn in one of two lanes, or for their time.
func (r *rig) intent(i int) settle.Intent {
	no := fmt.Sprintf("C%d-%06d", r.o.seed, i)
	in := settle.Intent{OrderNo: no, ID: "chaos:" + no, Batch: producerBatch, Body: orderBody(no, i)}
	switch {
	case r.o.scenario != "" || r.soaks:
	case i%10 == 3, i%10 == 4:
		in.Lane = order.BulkLane
	case i%10 == 5:
		in.Lane = nightLane
	case i%10 == 6: // with the second lane, and a time
		in.Lane, in.NotBefore = nightLane, time.Now().Add(time.Duration(i%7)*time.Second)
	}
	if i%100 == 99 && r.o.scenario == "" && !r.soaks {
		in.Deadline = time.Now().Add(time.Second)
	}
	return in
}
