package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Counts are the sizes of the streams.
type Counts struct {
	// Pending counts the intents that no worker has settled, delayed ones and those in
	// flight included. Settled ones are stored for a moment longer.
	Pending uint64 `json:"pending"`
	// Results counts the records that are kept, notes included.
	Results uint64 `json:"results"`
	// Letters counts dead letters, for up to an hour also such as no record names.
	Letters uint64 `json:"dead_letters"`
	// Waiting counts the intents in the waiting room.
	Waiting uint64 `json:"waiting"`
	// LastIntent counts the intents that were ever stored.
	LastIntent uint64 `json:"last_intent"`
	// Oldest is when the oldest pending intent was stored; zero if there is none.
	Oldest time.Time `json:"-"`
}

// Census counts what the streams hold, and keeps their limits.
type Census struct {
	conn     *Conn
	reader   *reader
	topology *Topology
	due      dueLook
}

// Count reads the sizes of the streams.
func (cs *Census) Count(ctx context.Context) (Counts, error) {
	return patiently(ctx, cs.conn, cs.count)
}

func (cs *Census) count(ctx context.Context) (c Counts, err error) {
	ctx, cancel := cs.conn.link.within(ctx, 2*requestTimeout)
	defer cancel()
	for _, s := range []struct {
		name string
		size *uint64
	}{{cs.conn.n.waiting, &c.Waiting}, // first: what leaves is in the intents stream then
		{cs.conn.n.intents, &c.Pending}, {cs.conn.n.results, &c.Results}, {cs.conn.n.dead, &c.Letters}} {
		info, err := cs.conn.info(ctx, s.name)
		if err != nil {
			return c, fmt.Errorf("stream %s: %w", s.name, err)
		}
		state := info.State
		*s.size = state.Msgs
		if s.name != cs.conn.n.intents {
			continue
		}
		c.LastIntent = state.LastSeq
		if c.Pending, err = cs.pending(ctx, state); err != nil {
			return c, err
		}
		if c.Pending > 0 {
			c.Oldest = state.FirstTime
		}
	}
	return c, nil
}

// pending returns how many of the stored intents are not acknowledged.
func (cs *Census) pending(ctx context.Context, state jetstream.StreamState) (uint64, error) {
	if state.Msgs == 0 {
		return 0, nil
	}
	info, err := cs.topology.readConsumer(ctx)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound): // a new one delivers everything
		return state.Msgs, nil
	case err != nil:
		return 0, fmt.Errorf("consumer %s of stream %s: %w", cs.conn.n.consumer, cs.conn.n.intents, err)
	}
	return pendingBy(state, info), nil
}

// pendingBy counts what is not acknowledged by the stream, and by its consumer a moment later. The
// broker tells its consumers of an intent after it has confirmed it, so the stream says how many there are at least.
func pendingBy(state jetstream.StreamState, info *jetstream.ConsumerInfo) uint64 {
	held, toCome := uint64(max(info.NumAckPending, 0)), info.NumPending
	if past := max(info.Delivered.Stream, state.FirstSeq-1); past < state.LastSeq {
		toCome = max(toCome, state.LastSeq-past-min(state.LastSeq-past, uint64(max(state.NumDeleted, 0))))
		if held+toCome == 0 {
			toCome = 1
		}
	}
	return min(held+toCome, state.Msgs)
}

// Deliveries is how far the queue was given to workers.
type Deliveries struct {
	// Undelivered counts the intents that no worker was given yet, without those in
	// flight and delayed ones. Last is the sequence of the last one that was.
	Undelivered, Last uint64
	// AckWait is how long a silent worker keeps its claim on an order.
	AckWait time.Duration
}

// Deliveries reads the state of the workers' consumer.
func (cs *Census) Deliveries(ctx context.Context) (Deliveries, error) {
	info, err := cs.topology.readConsumer(ctx)
	if err != nil {
		return Deliveries{}, fmt.Errorf("consumer %s of stream %s: %w", cs.conn.n.consumer, cs.conn.n.intents, err)
	}
	return Deliveries{Undelivered: info.NumPending, Last: info.Delivered.Stream, AckWait: info.Config.AckWait}, nil
}

// A look at the queue reads what producers stored with times that have not come, up to the
// first intent without one.
const (
	dueOften = 4 * pageSize // a look that read at most this many intents is repeated at once
	dueEvery = time.Minute  // any other is repeated when it is this old
	dueMost  = 50_000       // the intent behind so many is taken for due
)

// dueLook is the last look at the queue.
type dueLook struct {
	mu     sync.Mutex
	at     time.Time
	read   int
	oldest time.Time
}

// OldestDue returns since when the oldest stored intent may be sent: it was stored then, or
// its Order-Not-Before came. It returns zero if there is none that may be sent by now.
// Behind a thousand intents whose time has not come, the answer may be a minute old.
func (cs *Census) OldestDue(ctx context.Context, now time.Time) (time.Time, error) {
	d := &cs.due
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.read > dueOften && now.Sub(d.at).Abs() < dueEvery {
		return d.oldest, nil
	}
	read, oldest := 0, time.Time{}
look:
	for page, err := range pages(ctx, cs.reader.page, cs.conn.n.intents, ">", 1) {
		if err != nil {
			return time.Time{}, err
		}
		for _, m := range page {
			since := dueSince(m)
			if read++; read == dueMost {
				since = m.Time
			}
			last := since.Equal(m.Time) // what was stored later is due later
			if (last || !since.After(now)) && (oldest.IsZero() || since.Before(oldest)) {
				oldest = since
			}
			if last {
				break look
			}
		}
	}
	d.at, d.read, d.oldest = now, read, oldest
	return oldest, nil
}

// dueSince returns from when on an intent may be sent.
func dueSince(m *settle.Message) time.Time {
	at, err := order.ParseNotBefore(m.Header.Get(settle.HeaderNotBefore), m.Time)
	if err != nil || at.Before(m.Time) { // a worker refuses a text that is no time
		return m.Time
	}
	return at
}

// Room says how much the intents stream holds and may hold; -1 = no limit.
type Room struct {
	Msgs, Bytes       int64
	MaxMsgs, MaxBytes int64
	// Stream is the stream's name.
	Stream string
}

// Closed is the limit of messages at which producers are refused. It is not 0,
// because 0 would mean no limit.
const Closed = 1

// Full reports whether producers are refused.
func (r Room) Full() bool {
	return r.MaxMsgs == Closed || r.MaxMsgs > 0 && r.Msgs >= r.MaxMsgs || r.MaxBytes > 0 && r.Bytes >= r.MaxBytes
}

// Room reads the size and the limits of the intents stream.
func (cs *Census) Room(ctx context.Context) (Room, error) { return cs.room(ctx, cs.conn.n.intents) }

// WaitingRoom is Room for the waiting room.
func (cs *Census) WaitingRoom(ctx context.Context) (Room, error) {
	return cs.room(ctx, cs.conn.n.waiting)
}

func (cs *Census) room(ctx context.Context, stream string) (Room, error) {
	info, err := cs.reader.info(ctx, stream)
	if err != nil {
		return Room{}, err
	}
	return Room{Stream: stream, Msgs: int64(info.State.Msgs), Bytes: int64(info.State.Bytes),
		MaxMsgs: info.Config.MaxMsgs, MaxBytes: info.Config.MaxBytes}, nil
}

// LimitWaitingRoom is LimitRoom for the waiting room, which no setting limits.
func (cs *Census) LimitWaitingRoom(ctx context.Context, maxMsgs, maxBytes int64) error {
	return cs.limitRoom(ctx, cs.conn.n.waiting, maxMsgs, maxBytes)
}

// LimitRoom sets the limits of the intents stream, but never above
// ORDERPOST_MAX_INTENTS and ORDERPOST_MAX_BYTES. A stream that holds more
// discards nothing.
func (cs *Census) LimitRoom(ctx context.Context, maxMsgs, maxBytes int64) error {
	return cs.limitRoom(ctx, cs.conn.n.intents, lower(maxMsgs, cs.conn.cfg.MaxIntents), lower(maxBytes, cs.conn.cfg.MaxBytes))
}

func (cs *Census) limitRoom(ctx context.Context, stream string, maxMsgs, maxBytes int64) error {
	info, err := cs.reader.info(ctx, stream)
	if err != nil {
		return err
	}
	cfg := info.Config
	if cfg.Metadata == nil {
		cfg.Metadata = make(map[string]string, 1)
	}
	cfg.Metadata[roomKey] = "disk"
	cfg.MaxMsgs, cfg.MaxBytes = maxMsgs, maxBytes
	ctx, cancel := cs.conn.link.bound(ctx)
	defer cancel()
	_, err = cs.conn.js.UpdateStream(ctx, cfg)
	return wrapStream(cfg.Name, "cannot be limited", err)
}

// lower returns the lower of both; a setting below 1 is no limit.
func lower(limit, setting int64) int64 {
	if setting > 0 {
		return min(limit, setting)
	}
	return limit
}

// Backlog is how much the intents stream has for the workers.
type Backlog struct {
	// Undelivered counts the intents that no worker was given. Delivered counts
	// those that workers have in hand or that wait for another delivery.
	Undelivered, Delivered int
	// Gone counts the intents that were settled or removed.
	Gone uint64
}

// Backlog reads it from the stream and its consumer.
func (cs *Census) Backlog(ctx context.Context) (Backlog, error) {
	stream, err := cs.reader.info(ctx, cs.conn.n.intents)
	if err != nil {
		return Backlog{}, err
	}
	info, err := cs.topology.workersConsumer(ctx)
	if err != nil {
		return Backlog{}, err
	}
	b := Backlog{Undelivered: int(info.NumPending), Delivered: info.NumAckPending}
	b.Gone = stream.State.LastSeq - min(stream.State.LastSeq, uint64(b.Undelivered+b.Delivered))
	return b, nil
}
