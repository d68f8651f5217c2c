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
)

// intents remembers what the broker confirmed to a producer: from then on
// orderpost answers for it.
type intents struct {
	mu        sync.Mutex
	confirmed map[string]confirmation
	// attempted may be stored although nobody was told.
	attempted map[string]bool
}

// confirmation is when a producer was told that its intent is stored.
type confirmation struct {
	At time.Time
	// Must is the only outcome that is right; OutcomeNone: any is.
	Must order.Outcome
}

func newIntents() *intents {
	return &intents{confirmed: make(map[string]confirmation), attempted: make(map[string]bool)}
}

// attempt says that an intent is about to be published which will not be
// published again if its confirmation is lost.
func (i *intents) attempt(orderNo string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.attempted[orderNo] = true
}

// mayExist says whether an outcome of this order_no can be explained.
func (i *intents) mayExist(orderNo string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, known := i.confirmed[orderNo]
	return known || i.attempted[orderNo]
}

// confirm takes the first confirmation of an order_no; later ones are repeats.
func (i *intents) confirm(must order.Outcome, orderNos ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	for _, no := range orderNos {
		if _, before := i.confirmed[no]; !before {
			i.confirmed[no] = confirmation{now, must}
		}
	}
}

func (i *intents) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.confirmed)
}

// all is a copy.
func (i *intents) all() map[string]confirmation {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.confirmed)
}

// tick is how often a producer publishes.
const tick = 50 * time.Millisecond

// produce publishes orders at a steady rate until enough ends or the number of
// orders is reached, and returns when each is confirmed. What is not confirmed
// is published again under the same id, until ctx ends.
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

// publishAtOnce bounds one round, so that confirmations are known soon.
const publishAtOnce = 1000

// publish returns what is still open.
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

// intent is the i-th order of the producer. One in a hundred has a deadline
// that may pass.
func (r *rig) intent(i int) settle.Intent {
	no := fmt.Sprintf("C%d-%06d", r.o.seed, i)
	in := settle.Intent{OrderNo: no, ID: "chaos:" + no, Batch: "chaos",
		Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":60,"amount":"%d.00"}`, no, i)}
	if i%100 == 99 && r.o.scenario == "" && r.o.soak == 0 {
		in.Deadline = time.Now().Add(time.Second)
	}
	return in
}
