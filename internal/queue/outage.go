package queue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

const (
	// againPause is the time between two tries of a request while the broker is
	// out of reach.
	againPause = 100 * time.Millisecond
	// tellAfter is how long a request must have failed before a person is told:
	// a connection that is back at once is not worth a line.
	tellAfter = time.Second
)

// outages is what the requests of a queue know together about a broker that is
// out of reach, so that a person is told once.
type outages struct {
	mu      sync.Mutex
	waiting int       // requests that wait at this moment
	since   time.Time // when the first of them began
	told    bool

	refused atomic.Uint64 // requests that the broker's permissions forbid
	refusal atomic.Pointer[error]
	dial    atomic.Pointer[error] // why the last attempt to reconnect failed
}

// patient says whether requests wait for a broker that is out of reach. A
// worker has its own loops: it must not hold a claim while it waits.
func (q *Queue) patient() bool { return q.cfg.BrokerWait > 0 && !q.cfg.Worker }

// patiently carries a request out, and repeats it while the broker is out of
// reach, for cfg.BrokerWait at most. The request must be one that may be
// repeated. The error then wraps ErrUnreachable.
func (q *Queue) patiently(ctx context.Context, do func(context.Context) error) error {
	if !q.patient() {
		return do(ctx)
	}
	w := q.wait()
	defer w.over()
	for {
		err := do(ctx)
		if err == nil || ctx.Err() != nil || !q.passing(err) {
			return err
		}
		if err := w.again(ctx, err); err != nil {
			return err
		}
	}
}

// wait is how long one caller has been waiting for the broker.
type wait struct {
	q       *Queue
	began   time.Time // of the request that failed first, or of the wait
	limit   time.Duration
	refused uint64
	counted bool
}

func (q *Queue) wait() *wait {
	return &wait{q: q, began: time.Now(), limit: q.cfg.BrokerWait, refused: q.outages.refused.Load()}
}

// again pauses before a request that failed for cause is repeated. It returns an
// error where that is not to be: ErrUnreachable (wrapped) when the time is up,
// the broker's refusal, or the context's end. In a queue that is not patient it
// does nothing.
func (w *wait) again(ctx context.Context, cause error) error {
	q := w.q
	if !q.patient() {
		return nil
	}
	if denied := q.outages.refusal.Load(); denied != nil && q.outages.refused.Load() != w.refused {
		return fmt.Errorf("the broker refuses it: %w", *denied)
	}
	if lasted := time.Since(w.began); lasted >= w.limit {
		return fmt.Errorf("%w: no answer from %s for %s: %w", ErrUnreachable, q.broker(), lasted.Round(time.Second), q.reason(cause))
	}
	q.outages.join(w, func() string {
		return q.waitingFor(q.reason(cause), w.limit-time.Since(w.began))
	}, q.tell)
	if err := pause(ctx, againPause); err != nil {
		return err
	}
	return nil
}

// over says that the caller waits no more. Another wait begins at its next
// failure.
func (w *wait) over() {
	w.q.outages.leave(w, w.q.tell)
	w.began = time.Now()
}

func (o *outages) join(w *wait, text func() string, tell func(string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !w.counted {
		w.counted = true
		if o.waiting++; o.waiting == 1 {
			o.since = w.began
		}
	}
	if !o.told && time.Since(o.since) >= tellAfter {
		o.told = true
		tell(text())
	}
}

func (o *outages) leave(w *wait, tell func(string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !w.counted {
		return
	}
	w.counted = false
	if o.waiting--; o.waiting == 0 && o.told {
		o.told = false
		if w.q.nc.IsConnected() {
			tell(fmt.Sprintf("the broker is back after %s; going on", time.Since(o.since).Round(100*time.Millisecond)))
		}
	}
}

func (q *Queue) tell(line string) {
	if q.cfg.Tell != nil {
		q.cfg.Tell(line)
	}
}

// reason is why nothing comes of a request, for people: without a connection the
// request's own error says nothing.
func (q *Queue) reason(cause error) error {
	if q.nc == nil || q.nc.IsConnected() {
		return cause
	}
	if dial := q.outages.dial.Load(); dial != nil {
		return *dial
	}
	return errLinkBroken
}

// passingAnswers are errors of the client and of JetStream that say that the
// broker, or the stream's leader, is not there at this moment.
var passingAnswers = []error{
	context.DeadlineExceeded, context.Canceled, // of the request: passing is asked while its caller has time
	nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrReconnectBufExceeded,
	nats.ErrConnectionReconnecting, nats.ErrStaleConnection, nats.ErrNoServers,
	jetstream.ErrNoStreamResponse, jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount,
	errUnconfirmed, errLinkBroken,
}

// passing says whether a request failed since the broker was out of reach.
func (q *Queue) passing(err error) bool {
	if err == nil || errors.Is(err, ErrUnreachable) { // the latter has waited already
		return false
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && slices.Contains(passingCodes, api.ErrorCode) {
		return true
	}
	if slices.ContainsFunc(passingAnswers, func(e error) bool { return errors.Is(err, e) }) {
		return true
	}
	var network net.Error
	return errors.As(err, &network) || api == nil && q.nc != nil && !q.nc.IsConnected()
}

// patience is what the settle protocol knows of it.
type patience struct{ q *Queue }

// Passing implements settle.Patience.
func (p patience) Passing(err error) bool { return p.q.passing(err) }

// Wait implements settle.Patience.
func (p patience) Wait() settle.Wait { return p.q.wait() }

// Again implements settle.Wait.
func (w *wait) Again(ctx context.Context, cause error) error { return w.again(ctx, cause) }

// Over implements settle.Wait.
func (w *wait) Over() { w.over() }
