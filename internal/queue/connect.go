package queue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"orderpost/internal/settle"
)

// ErrUnreachable is returned by Open when no broker answered in time. The
// message names the address.
var ErrUnreachable = settle.ErrUnreachable

// requestTimeout bounds one request to JetStream.
const requestTimeout = settle.RequestTimeout

// dialTimeout bounds one attempt to connect.
const dialTimeout = 2 * time.Second

// Queue is an open connection to the streams of one installation. It is safe
// for concurrent use. Close it when everything that uses it has stopped.
type Queue struct {
	*settle.Protocol
	cfg   Config
	store jetStore
	n     names
	log   zerolog.Logger

	nc       *nats.Conn
	js       jetstream.JetStream
	bucket   Bucket
	replicas replicas
	made     []string // the streams that Open created

	results *writer
	letters *writer
	marks   *writer // for delivered high-water marks, at most one write at a time
	inboxes inboxes // for reads
	pulls   inboxes // for pulls, in which a status may follow the last message
	tails   tailCount

	claims claims
	link   link
	holder holder
	mover  mover
	// reconnected is called after each reconnect; nil = by nobody.
	reconnected atomic.Pointer[func()]

	refusals link // ends what must not wait after the broker refused a permission
	outages  outages
}

// Open connects and returns the queue. A worker creates the streams on a broker
// that has none. Other programs find them there, see Config.Missing.
//
// Open waits for the broker for at most cfg.ConnectTimeout and then returns an
// error that wraps ErrUnreachable. It returns *MissingError if streams are
// missing that it must not create. The connection reconnects forever after
// later disconnects. With cfg.BrokerWait, requests wait for the reconnect. opts
// are added to the connection's options, for instance for an in-process server.
func Open(ctx context.Context, cfg Config, log zerolog.Logger, opts ...nats.Option) (*Queue, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Worker && cfg.Present == nil {
		return nil, errors.New("queue.Config.Present is not set: a worker must know which others are present (fleet.Present)")
	}
	q := &Queue{cfg: cfg, n: cfg.names(), log: log}
	q.store, q.bucket.q, q.bucket.silentTerm = jetStore{q}, q, silentTerm
	protocol := settle.Config{Worker: cfg.Name, IntentSubjects: q.n.newPre, WaitingSubjects: q.n.waitPre, AttemptTimeout: cfg.AttemptTimeout, Log: log}
	if q.patient() {
		protocol.Patience = patience{q}
	}
	q.Protocol = settle.New(protocol, q.store, settle.RealTime()) // before connect: the connection's handlers use it
	if err := q.connect(ctx, opts); err != nil {
		return nil, err
	}
	ackWait, err := q.prepare(ctx)
	if err != nil {
		q.nc.Close()
		return nil, err
	}
	q.holder.find(ctx, q)
	q.mover.modes.roundTrip = q.roundTrip
	q.results = newWriter(q, q.n.results)
	q.letters = newWriter(q, q.n.dead)
	q.marks = newWriter(q, q.bucket.stream())
	if err := q.startClaims(ackWait); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

// minPayload is the smallest max_payload of a broker that can store dead
// letters.
const minPayload = 4 * settle.LetterReserve

// prepare makes sure of the streams and returns the AckWait that claims rely
// on.
func (q *Queue) prepare(ctx context.Context) (ackWait time.Duration, err error) {
	if have := q.nc.MaxPayload(); have < minPayload {
		return 0, fmt.Errorf("broker at %s accepts messages of at most %d bytes (max_payload); orderpost needs %d", RedactURL(q.cfg.URL), have, minPayload)
	}
	err = q.patiently(ctx, func(ctx context.Context) error {
		ackWait, err = q.ensureTopology(ctx)
		return err
	})
	return ackWait, err
}

// connect opens the connection and the JetStream context.
func (q *Queue) connect(ctx context.Context, extra []nats.Option) error {
	opts := []nats.Option{
		nats.Name("orderpost " + q.cfg.Name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a broker that is being set up may refuse us for a while
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 500*time.Millisecond),
		nats.ReconnectBufSize(-1), // no buffer: a worker that lost its claim must not send late (R7)
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(dialTimeout),
		nats.DisconnectErrHandler(q.onDisconnect),
		nats.ReconnectHandler(q.onReconnect),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { q.outages.dial.Store(&err) }),
		nats.ErrorHandler(q.onError),
	}
	secure, err := q.cfg.security()
	if err != nil {
		return err
	}
	opts = append(opts, secure...)
	switch {
	case q.cfg.Locate != nil:
		opts = append(opts, nats.SetCustomDialer(&locator{find: q.cfg.Locate}), nats.TokenHandler(func() string {
			_, token, _ := q.cfg.Locate() // without a token the broker refuses us and we try again
			return token
		}))
	case q.cfg.Token != "":
		opts = append(opts, nats.Token(q.cfg.Token))
	}
	nc, err := q.dial(ctx, append(opts, extra...))
	if err != nil {
		return err
	}
	q.nc, q.inboxes.nc, q.pulls.nc = nc, nc, nc
	q.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(requestTimeout), jetstream.WithPublishAsyncTimeout(requestTimeout))
	return err
}

// locator dials the broker at its current address.
type locator struct {
	find   func() (url, token string, err error)
	dialer net.Dialer
}

// Dial ignores the address that it is given, which is the first one.
func (l *locator) Dial(network, _ string) (net.Conn, error) {
	text, _, err := l.find()
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	return l.dialer.DialContext(ctx, network, at.Host)
}

// dial tries until the broker answers or the time is up. It stops at once if
// the broker refuses the credentials, because waiting does not correct them.
func (q *Queue) dial(ctx context.Context, opts []nats.Option) (*nats.Conn, error) {
	cfg, began := q.cfg, time.Now()
	for told := false; ; told = true {
		nc, err := q.connectOnce(opts)
		if err == nil {
			if told {
				q.tell(fmt.Sprintf("the broker answered after %s", time.Since(began).Round(100*time.Millisecond)))
			}
			return nc, nil
		}
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return nil, fmt.Errorf("broker at %s refused our credentials: %w", RedactURL(cfg.URL), err)
		}
		if time.Since(began) > cfg.ConnectTimeout {
			return nil, fmt.Errorf("%w: no answer from %s within %s: %w", ErrUnreachable, q.broker(), cfg.ConnectTimeout, err)
		}
		if !told {
			q.tell(q.waitingFor(err, cfg.ConnectTimeout))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// connectOnce tries to connect once.
func (q *Queue) connectOnce(opts []nats.Option) (*nats.Conn, error) {
	at := q.cfg.URL
	if q.cfg.Locate != nil {
		var err error
		if at, _, err = q.cfg.Locate(); err != nil {
			return nil, err
		}
	}
	return nats.Connect(at, opts...)
}

// broker returns the broker's name for messages, with its address.
func (q *Queue) broker() string {
	if at := q.address(); at != "" {
		return "the broker at " + at
	}
	return "the broker"
}

// address returns the broker's current address without secrets.
func (q *Queue) address() string {
	at := q.cfg.URL
	if q.cfg.Locate != nil {
		if now, _, err := q.cfg.Locate(); err == nil {
			at = now
		}
	}
	return RedactURL(at)
}

// waitingFor returns the line that tells a person about a broker that is out of
// reach.
func (q *Queue) waitingFor(cause error, left time.Duration) string {
	if errors.Is(cause, nats.ErrNoServers) { // the client tried every address
		cause = errors.New("no NATS server answers there")
	}
	return fmt.Sprintf("waiting for %s: %v (Ctrl-C stops; gives up in %s)", q.broker(), cause, left.Round(time.Second))
}

func (q *Queue) onDisconnect(_ *nats.Conn, err error) {
	q.link.disconnect()
	q.Disconnected() // R7: a disconnect ends every lease
	switch {
	case err == nil:
	case q.patient(): // waiting requests tell the user themselves
		q.log.Debug().Err(err).Msg("broker connection lost; reconnecting")
	default:
		q.log.Warn().Err(err).Msg("broker connection lost; reconnecting")
	}
}

func (q *Queue) onReconnect(nc *nats.Conn) {
	q.Reconnected()
	q.log.Info().Str("server", nc.ConnectedServerName()).Msg("broker connection is back")
	if do := q.reconnected.Load(); do != nil {
		(*do)()
	}
}

// OnReconnect sets what is called after each reconnect. It must return at once.
func (q *Queue) OnReconnect(do func()) { q.reconnected.Store(&do) }

func (q *Queue) onError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		q.outages.refusal.Store(&err)
		q.outages.refused.Add(1)
		q.refusals.disconnect()
	}
	ev := q.log.Warn().Err(err)
	if sub != nil {
		ev = ev.Str("subject", sub.Subject)
	}
	ev.Msg("broker reported an error")
}

// Connected reports whether the connection is up at this moment.
func (q *Queue) Connected() bool { return q.nc.IsConnected() }

// Close flushes and closes the connection. Everything that uses the queue must
// have stopped before.
func (q *Queue) Close() {
	q.claims.stop()
	for _, w := range []*writer{q.results, q.letters, q.marks} {
		if w != nil {
			w.stop()
		}
	}
	if q.nc.IsConnected() {
		_ = q.nc.FlushTimeout(requestTimeout) // flushes acks; after a lost one, the redelivery finds its result
	}
	q.nc.Close()
}

// Server returns host and port of the broker that the queue is connected to, or
// was last.
func (q *Queue) Server() string { return q.nc.ConnectedAddr() }
