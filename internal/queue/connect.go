package queue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
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

// errLinkBroken means that the connection broke while a request waited.
var errLinkBroken = errors.New("the connection to the broker broke")

// ErrSilent is returned by PutSoon and SwapSoon.
var ErrSilent = errors.New("the broker answers, and has not stored this: its disk may be full or failing. Workers that cannot store results post nothing. " +
	"To be sure, stop the workers' processes")

// errUnconfirmed means that the broker's confirmation did not come. The write
// may have happened.
var errUnconfirmed = errors.New("write not confirmed by the broker")

// fullCodes say that the broker has no room.
var fullCodes = []jetstream.ErrorCode{codeStoreFailed, codeInsufficient, codeStorageExceeded}

// passingCodes say that the cluster is busy for the moment, not that it has no
// room.
var passingCodes = []jetstream.ErrorCode{codeClusterNotAvailable, codeStreamOffline, codeTooManyRequests}

// Codes and texts of JetStream's API errors.
const (
	codeStoreFailed          = 10077 // "already pending" and "stream full" share it; the text tells them apart
	codeWrongLastSeq         = 10071
	codeWrongLastSeqConstant = 10164 // with replicas: another write to the subject is in flight
	codeInsufficient         = 10023
	codeStorageExceeded      = 10047
	codeClusterNotAvailable  = 10008
	codeStreamOffline        = 10118
	codeTooManyRequests      = 10167
	codeStreamCreate         = 10049
	codeNoPeers              = 10005 // "peer offline" is that a server is away, and not that there are too few
	codeMessageTooLarge      = 10054 // larger than the stream's max_msg_size
	codeIDInProcess          = 10158 // with replicas: an earlier publish of this ID has no answer yet
	textPeerOffline          = "peer offline"
	textSubjectIsFull        = "maximum messages per subject exceeded"
)

// writeError classifies JetStream's answer to a conditional write.
func writeError(err error) error {
	var api *jetstream.APIError
	switch {
	case !errors.As(err, &api):
		return fmt.Errorf("%w: %w", errUnconfirmed, err)
	case api.ErrorCode == codeWrongLastSeq || api.ErrorCode == codeWrongLastSeqConstant:
		return settle.ErrStale
	case slices.Contains(passingCodes, api.ErrorCode):
		return fmt.Errorf("%w: %s (code %d)", errUnconfirmed, api.Description, api.ErrorCode)
	default:
		return fmt.Errorf("%w: %s (code %d)", settle.ErrStorage, api.Description, api.ErrorCode)
	}
}

// requestTimeout bounds one request to JetStream.
const requestTimeout = settle.RequestTimeout

// link tells requests that the connection broke. Their answers cannot come any
// more, so they end at once and not at their timeouts.
type link struct {
	mu    sync.Mutex
	whole context.Context // nil = nobody has asked for it since the last break
	broke context.CancelFunc
}

// unbroken returns a context that ends when the connection breaks.
func (l *link) unbroken() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole == nil {
		l.whole, l.broke = context.WithCancel(context.Background())
	}
	return l.whole
}

// disconnect ends all requests that wait.
func (l *link) disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole != nil {
		l.broke()
		l.whole = nil
	}
}

// bound returns the context of one request. It ends after requestTimeout or
// when the connection breaks.
func (l *link) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return l.within(ctx, requestTimeout)
}

// within returns the context of several requests. It ends after d or when the
// connection breaks.
func (l *link) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d)
	whole := l.unbroken()
	go func() {
		select {
		case <-whole.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// dialTimeout bounds one attempt to connect.
const dialTimeout = 2 * time.Second

// Conn is the connection to the broker. With Config.BrokerWait, requests wait for a broker
// that is out of reach.
type Conn struct {
	cfg Config
	n   names
	log zerolog.Logger

	nc   *nats.Conn
	js   jetstream.JetStream
	link link
	acks acks
	// worker is told of lost connections.
	worker *settle.Worker
	// reconnected is called after each reconnect; nil = by nobody.
	reconnected atomic.Pointer[func()]

	refusals link // ends what must not wait after the broker refused a permission
	outages  outages
	denials  denials
}

// connect opens the connection and the JetStream context.
func (cn *Conn) connect(ctx context.Context, extra []nats.Option) error {
	opts := []nats.Option{
		nats.Name("orderpost " + cn.cfg.Name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a broker that is being set up may refuse us for a while
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 500*time.Millisecond),
		nats.ReconnectBufSize(-1), // no buffer: a worker that lost its claim must not send late (R7)
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(dialTimeout),
		nats.DisconnectErrHandler(cn.onDisconnect),
		nats.ReconnectHandler(cn.onReconnect),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { cn.outages.dial.Store(&err) }),
		nats.ErrorHandler(cn.onError),
	}
	access, err := cn.cfg.access()
	if err != nil {
		return err
	}
	nc, err := cn.dial(ctx, slices.Concat(opts, access, extra))
	if err != nil {
		return err
	}
	cn.nc = nc
	if cn.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(requestTimeout)); err != nil {
		return err
	}
	return cn.acks.start(nc, &cn.link)
}

// access returns the options by which a program gets in.
func (c Config) access() ([]nats.Option, error) {
	opts, err := c.security()
	switch {
	case c.Locate != nil:
		opts = append(opts, nats.SetCustomDialer(&locator{find: c.Locate}), nats.TokenHandler(func() string {
			_, token, _ := c.Locate() // without a token the broker refuses us and we try again
			return token
		}))
	case c.Token != "":
		opts = append(opts, nats.Token(c.Token))
	}
	return opts, err
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
func (cn *Conn) dial(ctx context.Context, opts []nats.Option) (*nats.Conn, error) {
	cfg, began := cn.cfg, time.Now()
	for told := false; ; told = true {
		at, err := cfg.URL, error(nil)
		if cfg.Locate != nil {
			at, _, err = cfg.Locate()
		}
		var nc *nats.Conn
		if err == nil {
			nc, err = nats.Connect(at, opts...)
		}
		if err == nil {
			if told {
				cn.tell(fmt.Sprintf("the broker answered after %s", time.Since(began).Round(100*time.Millisecond)))
			}
			return nc, nil
		}
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return nil, fmt.Errorf("broker at %s refused our credentials: %w", RedactURL(cfg.URL), err)
		}
		if time.Since(began) > cfg.ConnectTimeout {
			return nil, fmt.Errorf("%w: no answer from %s within %s: %w", ErrUnreachable, cn.broker(), cfg.ConnectTimeout, err)
		}
		if !told {
			cn.tell(cn.waitingFor(err, cfg.ConnectTimeout))
		}
		if err := settle.Sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// broker returns the broker's name for messages, with its address.
func (cn *Conn) broker() string {
	if at := cn.address(); at != "" {
		return "the broker at " + at
	}
	return "the broker"
}

// address returns the broker's current address without secrets.
func (cn *Conn) address() string {
	at := cn.cfg.URL
	if cn.cfg.Locate != nil {
		if now, _, err := cn.cfg.Locate(); err == nil {
			at = now
		}
	}
	return RedactURL(at)
}

// waitingFor returns the line that tells a person about a broker that is out of
// reach.
func (cn *Conn) waitingFor(cause error, left time.Duration) string {
	if errors.Is(cause, nats.ErrNoServers) { // the client tried every address
		cause = errors.New("no NATS server answers there")
	}
	return fmt.Sprintf("waiting for %s: %v (Ctrl-C stops; gives up in %s)", cn.broker(), cause, left.Round(time.Second))
}

func (cn *Conn) onDisconnect(_ *nats.Conn, err error) {
	cn.link.disconnect()
	cn.worker.Disconnected() // R7: a disconnect ends every lease
	switch {
	case err == nil:
	case cn.patient(): // waiting requests tell the user themselves
		cn.log.Debug().Err(err).Msg("broker connection lost; reconnecting")
	default:
		cn.log.Warn().Err(err).Msg("broker connection lost; reconnecting")
	}
}

func (cn *Conn) onReconnect(nc *nats.Conn) {
	cn.worker.Reconnected()
	cn.log.Info().Str("server", nc.ConnectedServerName()).Msg("broker connection is back")
	cn.judgeBroker()
	if do := cn.reconnected.Load(); do != nil {
		(*do)()
	}
}

// OnReconnect sets what is called after each reconnect. It must return at once.
func (cn *Conn) OnReconnect(do func()) { cn.reconnected.Store(&do) }

func (cn *Conn) onError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		cn.outages.refuse(err)
		cn.refusals.disconnect()
		if cn.deny(err) {
			return // each order would repeat it
		}
	}
	ev := cn.log.Warn().Err(err)
	if sub != nil {
		ev = ev.Str("subject", sub.Subject)
	}
	ev.Msg("broker reported an error")
}

// Connected reports whether the connection is up at this moment.
func (cn *Conn) Connected() bool { return cn.nc.IsConnected() }

// Server returns host and port of the broker that the queue is connected to, or
// was last.
func (cn *Conn) Server() string { return cn.nc.ConnectedAddr() }

// outlive returns a context for the answers to what was sent. It outlives ctx until the
// connection breaks.
func (cn *Conn) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	answers, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		defer cancel()
		if whole := cn.link.unbroken(); cn.Connected() {
			select {
			case <-whole.Done():
			case <-answers.Done():
			}
		}
	})
	return answers, func() { stop(); cancel() }
}

// roundTrip measures the way to the broker and back, where nothing is stored. It returns 0
// while the broker is out of reach.
func (cn *Conn) roundTrip() time.Duration {
	ctx, cancel := cn.link.bound(context.Background())
	defer cancel()
	began := time.Now()
	if cn.nc.FlushWithContext(ctx) != nil {
		return 0
	}
	return time.Since(began)
}
