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
	// tellAfter is how long a request must have failed before the user is told.
	// A connection that comes back at once is not worth a line.
	tellAfter = time.Second
)

// outages is what all waiting requests of a queue share, so that the user is
// told once.
type outages struct {
	mu      sync.Mutex
	waiting int       // requests that wait now
	since   time.Time // when the first of them began
	told    bool

	refused   atomic.Uint64         // requests that the broker's permissions forbid
	refusal   atomic.Pointer[error] // what is said of the last of them
	refusedAt atomic.Int64          // when that was, in Unix nanoseconds
	dial      atomic.Pointer[error] // why the last attempt to reconnect failed
}

// patient reports whether requests wait for a broker that is out of reach. A
// worker has loops of its own: it must not hold a claim while it waits.
func (cn *Conn) patient() bool { return cn.cfg.BrokerWait > 0 && !cn.cfg.Worker }

// refusedSince returns what is said of a request that the broker's permissions forbid, if there was
// one since then.
func (o *outages) refusedSince(then time.Time) error {
	if time.Unix(0, o.refusedAt.Load()).Before(then) {
		return nil
	}
	return *o.refusal.Load()
}

// patiently calls do, and again while the broker is out of reach, for at most
// cfg.BrokerWait. The error then wraps ErrUnreachable. do must be safe to
// repeat.
func (cn *Conn) patiently(ctx context.Context, do func(context.Context) error) error {
	if !cn.patient() {
		refused := cn.outages.refused.Load()
		return cn.named(do(ctx), refused)
	}
	w := cn.wait()
	defer w.Done()
	for {
		err := do(ctx)
		if err == nil || ctx.Err() != nil || !cn.transient(err) {
			w.over = err != nil && (ctx.Err() != nil || errors.Is(err, ErrSilent))
			return err
		}
		if err := w.Backoff(ctx, err); err != nil {
			return err
		}
	}
}

// patiently is [Conn.patiently] for a request that returns something.
func patiently[T any](ctx context.Context, cn *Conn, do func(context.Context) (T, error)) (answer T, err error) {
	err = cn.patiently(ctx, func(ctx context.Context) error {
		answer, err = do(ctx)
		return err
	})
	return answer, err
}

// request is patiently for one request of the client, which would wait for a lost answer as long as
// ctx lasts. It bounds each try.
func (cn *Conn) request(ctx context.Context, do func(context.Context) error) error {
	return cn.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := cn.link.bound(ctx)
		defer cancel()
		return do(ctx)
	})
}

// named says what an error means whose own words do not. Without a connection, nothing is
// buffered for when it is back: "outbound buffer limit exceeded" to the client. A request that
// the broker's permissions forbid gets no answer: "deadline exceeded". refused is how many there
// had been when the request began. A broker may lack JetStream, see lacking.
func (cn *Conn) named(err error, refused uint64) error {
	switch {
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		reason := cn.reason(errLinkBroken)
		return &notSent{text: "no connection to the broker: " + reason.Error(), reason: reason, sent: err}
	case lost(err) && cn.outages.refused.Load() != refused:
		denied := *cn.outages.refusal.Load()
		return &notSent{text: denied.Error(), reason: denied, sent: err}
	}
	return cn.lacking(err)
}

// notSent is the error of a request that the broker did not get, or did not take.
type notSent struct {
	text         string
	reason, sent error
}

func (e *notSent) Error() string { return e.text }

func (e *notSent) Unwrap() []error { return []error{e.reason, e.sent} }

// refuse notes that the broker's permissions forbid a request. Such a request gets no answer.
func (o *outages) refuse(err error) {
	err = fmt.Errorf("the broker refuses it: %w; mend the role of this NATS user in nats.conf, or use another one (\"Which roles are there?\" in docs/operations.md)", err)
	o.refusal.Store(&err)
	o.refusedAt.Store(time.Now().UnixNano())
	o.refused.Add(1)
}

// wait measures how long one caller waits for the broker. It implements
// settle.Wait.
type wait struct {
	conn    *Conn
	began   time.Time // when the wait began
	limit   time.Duration
	refused uint64 // outages.refused at the beginning
	back    uint64 // how often the connection had come back then
	counted bool   // in outages.waiting
	over    bool   // the wait has ended without an answer
}

func (cn *Conn) wait() *wait {
	return &wait{conn: cn, began: time.Now(), limit: cn.cfg.BrokerWait, refused: cn.outages.refused.Load(), back: cn.reconnects()}
}

// reconnects returns how often the connection came back.
func (cn *Conn) reconnects() uint64 {
	if cn.nc == nil { // not connected yet
		return 0
	}
	return cn.nc.Stats().Reconnects
}

// Backoff implements settle.Wait. In a queue that is not patient it does
// nothing.
func (w *wait) Backoff(ctx context.Context, cause error) error {
	cn := w.conn
	if !cn.patient() {
		return nil
	}
	if denied := cn.outages.refusal.Load(); denied != nil && cn.outages.refused.Load() != w.refused {
		w.over = true
		return *denied
	}
	if lasted := time.Since(w.began); lasted >= w.limit {
		w.over = true
		return fmt.Errorf("%w: no answer from %s for %s: %w", ErrUnreachable, cn.broker(), lasted.Round(time.Second), cn.reason(cause))
	}
	cn.outages.join(w, func() string {
		return cn.waitingFor(cn.reason(cause), w.limit-time.Since(w.began))
	}, cn.tell)
	err := settle.Sleep(ctx, againPause)
	w.over = err != nil
	return err
}

// Answered implements settle.Wait. Where the broker answers some requests and never others,
// as a cluster does that has lost its quorum, the connection holds, and the wait goes on.
func (w *wait) Answered() {
	if back := w.conn.reconnects(); back != w.back {
		w.Done()
		w.back = back
	}
}

// Done implements settle.Wait.
func (w *wait) Done() {
	w.conn.outages.leave(w, w.conn.tell)
	w.began, w.over = time.Now(), false
}

// join counts a waiting request, and tells the user about an outage that lasts.
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

// leave is called when a request does not wait any more. The last one tells the
// user that the broker is back.
func (o *outages) leave(w *wait, tell func(string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !w.counted {
		return
	}
	w.counted = false
	if o.waiting--; o.waiting == 0 && o.told {
		o.told = false
		if w.conn.nc.IsConnected() && !w.over { // a connection alone answers nothing
			tell(fmt.Sprintf("the broker is back after %s; going on", time.Since(o.since).Round(100*time.Millisecond)))
		}
	}
}

// tell passes a line to the user.
func (cn *Conn) tell(line string) {
	if cn.cfg.Tell != nil {
		cn.cfg.Tell(line)
	}
}

// reason returns why a request fails, for people. Without a connection the
// request's own error says nothing, so reason returns why reconnecting fails.
func (cn *Conn) reason(cause error) error {
	if cn.nc == nil || cn.nc.IsConnected() {
		return cn.lacking(cause)
	}
	if dial := cn.outages.dial.Load(); dial != nil {
		return *dial
	}
	return errLinkBroken
}

// lacking says what to do about a broker without JetStream. A request to one has no
// responders. Where one account alone lacks JetStream, the error is a code of the API.
func (cn *Conn) lacking(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders) && cn.withoutJetStream():
		return fmt.Errorf("%w: this NATS server runs without JetStream; start nats-server with -js, or with jetstream {} in its configuration; a leaf node must reach its hub, and pass JetStream on", err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w; whoever runs the broker must enable it: jetstream: enabled in that account", err)
	}
	return err
}

// withoutJetStream reports whether the present server told on connecting that it runs without
// JetStream.
func (cn *Conn) withoutJetStream() bool {
	if cn.nc == nil || !cn.nc.IsConnected() {
		return false
	}
	has, _ := cn.nc.ConnectedServerJetStream()
	return !has && cn.nc.IsConnected() // a connection that breaks meanwhile tells nothing
}

// transientErrors are errors of the client and of JetStream which say that the
// broker, or the stream's leader, is not there at this moment.
var transientErrors = []error{
	context.DeadlineExceeded, context.Canceled, // of one try: the caller itself still has time
	nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrReconnectBufExceeded,
	nats.ErrConnectionReconnecting, nats.ErrStaleConnection, nats.ErrNoServers,
	jetstream.ErrNoStreamResponse, jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount,
	errUnconfirmed, errLinkBroken,
}

// transient reports whether a request failed because the broker was out of
// reach.
func (cn *Conn) transient(err error) bool {
	if err == nil || errors.Is(err, ErrUnreachable) { // ErrUnreachable: the wait is over
		return false
	}
	if busy(err) {
		return true
	}
	if slices.ContainsFunc(transientErrors, func(e error) bool { return errors.Is(err, e) }) {
		return true
	}
	var network net.Error
	var api *jetstream.APIError
	return errors.As(err, &network) || !errors.As(err, &api) && cn.nc != nil && !cn.nc.IsConnected()
}

// busy reports whether JetStream answered that it has no leader, or no time, at this moment.
func busy(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && slices.Contains(passingCodes, api.ErrorCode)
}

// lost reports whether a request of ensureTopology got no answer. A cluster that has no
// leader yet drops requests, and answers the next ones.
func lost(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// broke reports whether a request whose caller still waits failed because the connection broke.
func (cn *Conn) broke(err error) bool {
	return errors.Is(err, context.Canceled) || !cn.nc.IsConnected()
}

// patience implements settle.Patience.
type patience struct{ conn *Conn }

func (p patience) Transient(err error) bool { return p.conn.transient(err) }

func (p patience) Wait() settle.Wait { return p.conn.wait() }

// UnlessRefused calls do with a context that ends when the broker reports that
// this program's NATS user lacks a permission. A refused request gets no answer
// and would wait for its timeout. The error then says what was refused.
func (cn *Conn) UnlessRefused(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(cn.refusals.unbroken(), func() { cancel(*cn.outages.refusal.Load()) })()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, nats.ErrPermissionViolation) {
		return cause
	}
	return err
}

// OutOfReach reports whether a request failed because the broker was out of reach.
func (cn *Conn) OutOfReach(err error) bool {
	return errors.Is(err, ErrUnreachable) || cn.transient(err)
}

// NewWait returns the wait of one caller for a broker that is out of reach. ok is false
// for a queue whose requests fail at once (Config.BrokerWait).
func (cn *Conn) NewWait() (w settle.Wait, ok bool) { return cn.wait(), cn.patient() }

// Refusals returns how often the broker has refused this connection a permission, and what
// it said last; nil = never. Such a request gets no answer.
func (cn *Conn) Refusals() (n uint64, last error) {
	if denied := cn.outages.refusal.Load(); denied != nil {
		last = *denied
	}
	return cn.outages.refused.Load(), last
}
