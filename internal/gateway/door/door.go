package door

import (
	"context"
	"sync"

	"orderpost/internal/order/schema"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// Door is one process's way into the fleet. It shares one publisher (group commit) and
// one follower of results among all its callers. It is safe for concurrent use.
type Door struct {
	q      *queue.Queue
	schema *schema.Schema  // nil = none
	ctx    context.Context // ends with Close
	stop   context.CancelFunc

	mu   sync.Mutex     // no run is between its look at the context and its goroutine
	work sync.WaitGroup // the goroutines that Close waits for

	checks  batcher[*submission] // for submissions that may have been stored before
	queued  batcher[*submission] // publishes into the queue
	waiting batcher[*submission] // publishes into the waiting room
	looks   batcher[*read[status.OrderStatus]]
	scans   batcher[*read[inRoom]]
	follow  follower

	catchUps chan struct{} // one place for each feed that reads the stream
}

// New returns a door over an open queue, which the caller closes after the door. It stores
// no order that breaks the schema, which may be nil.
func New(q *queue.Queue, schema *schema.Schema) *Door {
	d := &Door{q: q, schema: schema, catchUps: make(chan struct{}, catchUps)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.checks = newBatcher(d, batchOf, d.check)
	d.queued, d.waiting = d.newFlusher(), d.newFlusher()
	d.looks = newBatcher(d, batchOf, d.lookUp)
	d.scans = newBatcher(d, batchOf, d.scanRoom)
	d.follow.init(d)
	return d
}

// batchOf bounds how many calls share one request.
const batchOf = 256

// Close ends what runs. Submissions under way end unconfirmed, waits with ErrClosed. It
// may be called twice.
func (d *Door) Close() {
	d.mu.Lock()
	d.stop()
	d.mu.Unlock()
	d.work.Wait()
}

// run runs f in a goroutine that Close waits for. After Close it does nothing: whoever
// waits for f sees the end of d.ctx.
func (d *Door) run(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() == nil {
		d.work.Go(f)
	}
}
