package contender

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// orderPath is where orders are posted to.
const orderPath = "/v1/order/create"

// retryDelay is how long an order waits in the queue after a failed attempt.
const retryDelay = time.Second

// confirmTimeout bounds the wait for the confirmation of an outcome. It is
// below the consumer's AckWait.
const confirmTimeout = 20 * time.Second

// WorkerOptions are those of a loop on the queue.
type WorkerOptions struct {
	URL      string // of the API
	NATS     string
	Stream   string
	Consumer string
	// Outcomes is the prefix of the subjects to which outcomes are published.
	Outcomes string
	InFlight int
}

// outcome is what a contender stores of each order that the API answered.
type outcome struct {
	OrderNo string    `json:"order_no"`
	Status  int       `json:"status"`
	Answer  string    `json:"answer"`
	At      time.Time `json:"at"`
}

// prefetch is how many messages a worker lets the client library buffer. Twice
// what is in flight keeps its slots busy while the library pulls again, and is
// worked off long before AckWait.
func prefetch(inFlight int) int { return 2 * inFlight }

// link is a connection to the broker and what a worker uses of it.
type link struct {
	*nats.Conn
	js       jetstream.JetStream
	consumer jetstream.Consumer
}

func (o WorkerOptions) connect(ctx context.Context) (l link, err error) {
	if l.Conn, err = nats.Connect(o.NATS, nats.MaxReconnects(-1)); err != nil {
		return l, err
	}
	l.js, err = jetstream.New(l.Conn, jetstream.WithPublishAsyncMaxPending(max(4000, 4*o.InFlight)), jetstream.WithPublishAsyncTimeout(confirmTimeout))
	if err == nil {
		l.consumer, err = l.js.Consumer(ctx, o.Stream, o.Consumer)
	}
	if err != nil {
		l.Close()
	}
	return l, err
}
