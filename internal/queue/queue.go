package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"orderpost/internal/settle"
)

// Queue is an open connection to the streams of one installation. It is safe
// for concurrent use. Close it when everything that uses it has stopped.
type Queue struct {
	// Conn is the connection to the broker.
	Conn *Conn
	// Topology makes and checks the streams and the workers' consumer.
	Topology *Topology
	// Extents remembers how far the streams had come.
	Extents *ExtentKeeper
	// Census counts what the streams hold, and keeps their limits.
	Census *Census
	// Retention forgets results that were kept for long enough.
	Retention *Retention
	// Waiting is the waiting room.
	Waiting *WaitingRoom

	// The settle protocol over these streams, one part for each who acts.
	settle.Protocol

	reader *reader
	store  jetStore
	bucket *Bucket

	results *writer
	letters *writer
	marks   *writer // for delivered high-water marks, at most one write at a time
	pulls   inboxes // for pulls, in which a status may follow the last message

	stopClaims func()
	holder     holder
	moved      *pipeline // for what the feeder moves
}

// Open connects and returns the queue. A worker creates the streams on a broker
// that has none. Other programs find them there, see Config.Missing.
//
// Open waits for the broker for at most cfg.ConnectTimeout and then returns an
// error that wraps ErrUnreachable. It returns *MissingError if streams are
// missing that it must not create. The connection reconnects forever after
// later disconnects. With cfg.BrokerWait, requests wait for the reconnect. opts
// are added to the connection's options.
func Open(ctx context.Context, cfg Config, log zerolog.Logger, opts ...nats.Option) (*Queue, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Worker && cfg.Living == nil {
		return nil, errors.New("queue.Config.Living is not set: a worker must know which others live (fleet.Living)")
	}
	cn := &Conn{cfg: cfg, n: cfg.names(), log: log}
	rd := &reader{conn: cn}
	q := &Queue{Conn: cn, reader: rd, Waiting: &WaitingRoom{conn: cn, reader: rd}}
	q.store, q.bucket = jetStore{q}, &Bucket{conn: cn, reader: rd, silentTerm: silentTerm}
	q.Topology = &Topology{conn: cn, reader: rd, bucket: q.bucket}
	q.Census = &Census{conn: cn, reader: rd, topology: q.Topology}
	q.Retention = &Retention{q: q, Keep: cfg.ResultRetention}
	protocol := settle.Config{Worker: cfg.Name, IntentSubjects: cn.n.newPre, WaitingSubjects: cn.n.waitPre, AttemptTimeout: cfg.AttemptTimeout, LongestDelay: cfg.LongestDelay, Log: log}
	if cn.patient() {
		protocol.Patience = patience{cn}
	}
	q.Protocol = settle.New(protocol, q.store, settle.RealTime())
	cn.worker = q.Worker // before connect: the connection's handlers use it
	if err := cn.connect(ctx, opts); err != nil {
		return nil, err
	}
	rd.inboxes, q.pulls = newInboxes(cn.nc, cn.log), newInboxes(cn.nc, cn.log)
	ackWait, err := q.Topology.prepare(ctx)
	if err != nil {
		cn.nc.Close()
		return nil, err
	}
	q.holder.find(ctx, cn, rd)
	q.moved = newPipeline(cn)
	q.results = newWriter(cn, rd, cn.n.results)
	q.letters = newWriter(cn, rd, cn.n.dead)
	q.marks = newWriter(cn, rd, q.bucket.stream())
	q.Extents = &ExtentKeeper{conn: cn, reader: rd, bucket: q.bucket, results: q.results, letters: q.letters}
	if q.stopClaims, err = extendClaims(cn.nc, q.Claims, ackWait); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

// Close flushes and closes the connection. Everything that uses the queue must
// have stopped before.
func (q *Queue) Close() {
	if q.stopClaims != nil {
		q.stopClaims()
	}
	for _, w := range []*writer{q.results, q.letters, q.marks} {
		w.stop()
	}
	if q.Conn.nc.IsConnected() {
		_ = q.Conn.nc.FlushTimeout(requestTimeout) // flushes acks; after a lost one, the redelivery finds its result
	}
	q.Conn.nc.Close()
}

// Bucket returns the bucket.
func (q *Queue) Bucket() *Bucket { return q.bucket }

// MayLag reports whether a read may be answered by a replica that lags, or lacks something.
func (q *Queue) MayLag() bool { return q.reader.replicated() }

// Intents returns the stream of intents that are stored and not acknowledged.
func (q *Queue) Intents() Stream {
	return Stream{q.reader, q.Conn.n.intents, q.Conn.n.newPre, true, "*"}
}

// Results returns the stream of the last words on orders. [DecodeRecord] reads
// its messages.
func (q *Queue) Results() Stream {
	return Stream{q.reader, q.Conn.n.results, q.Conn.n.resPre, false, "*"}
}

// Letters returns the dead-letter stream. [Stream.Letter] reads its messages. A letter counts for nothing
// unless the record of its order names it (settle.Letter.About).
func (q *Queue) Letters() Stream { return Stream{q.reader, q.Conn.n.dead, q.Conn.n.deadPre, true, "*"} }

// Store returns the streams as the settle protocol sees them. It reads single
// messages at their leaders (R2).
func (q *Queue) Store() settle.Store { return q.store }

// ErrNoStream is returned by reads of a stream that does not exist.
var ErrNoStream = jetstream.ErrStreamNotFound

// ErrNoJournal is returned by AppendJournal if the broker has lost the journal.
var ErrNoJournal = errors.New("the broker has no journal; a worker creates it again within seconds")

// Journal returns the stream of people's acts. Package journal gives its
// messages a meaning.
func (q *Queue) Journal() Stream {
	return Stream{q.reader, q.Conn.n.journal, q.Conn.n.journalPre, false, ">"}
}

// AppendJournal stores an entry under a name that no other entry has: the
// subject's tokens after the prefix. Repeated with the same name it stores
// nothing twice. Error: ErrNoJournal, settle.ErrFull, nats.ErrPermissionViolation (wrapped).
func (q *Queue) AppendJournal(ctx context.Context, name string, entry []byte) error {
	return q.Conn.UnlessRefused(ctx, func(ctx context.Context) error {
		return q.Conn.request(ctx, func(ctx context.Context) error { return q.appendJournal(ctx, name, entry) })
	})
}

// appendJournal tries it once.
func (q *Queue) appendJournal(ctx context.Context, name string, entry []byte) error {
	_, err := q.Conn.js.PublishMsg(ctx, &nats.Msg{Subject: q.Conn.n.journalPre + name, Data: entry}, jetstream.WithExpectStream(q.Conn.n.journal))
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		if _, look := q.Conn.info(ctx, q.Conn.n.journal); errors.Is(look, jetstream.ErrStreamNotFound) {
			err = ErrNoJournal
		}
		return fmt.Errorf("stream %s: %w", q.Conn.n.journal, err) // its leader may only be away
	case !errors.As(err, &api):
		return fmt.Errorf("stream %s: the broker did not confirm the entry: %w", q.Conn.n.journal, err)
	case api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, textSubjectIsFull):
		return nil // an earlier try stored it
	case slices.Contains(fullCodes, api.ErrorCode):
		return fmt.Errorf("stream %s: %w: %s", q.Conn.n.journal, settle.ErrFull, api.Description)
	default:
		return fmt.Errorf("stream %s: the broker refused the entry: %w", q.Conn.n.journal, err)
	}
}
