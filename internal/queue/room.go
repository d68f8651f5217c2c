package queue

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

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
func (cs *Census) Room(ctx context.Context) (Room, error) {
	stream, err := cs.intents(ctx)
	if err != nil {
		return Room{}, err
	}
	return roomOf(stream), nil
}

func roomOf(stream jetstream.Stream) Room {
	info := stream.CachedInfo()
	return Room{Stream: info.Config.Name, Msgs: int64(info.State.Msgs), Bytes: int64(info.State.Bytes),
		MaxMsgs: info.Config.MaxMsgs, MaxBytes: info.Config.MaxBytes}
}

// WaitingRoom is Room for the waiting room.
func (cs *Census) WaitingRoom(ctx context.Context) (Room, error) {
	stream, err := cs.reader.stream(ctx, cs.conn.n.waiting)
	if err != nil {
		return Room{}, err
	}
	return roomOf(stream), nil
}

// LimitWaitingRoom is LimitRoom for the waiting room, which no setting limits.
func (cs *Census) LimitWaitingRoom(ctx context.Context, maxMsgs, maxBytes int64) error {
	stream, err := cs.reader.stream(ctx, cs.conn.n.waiting)
	if err != nil {
		return err
	}
	return cs.limitRoom(ctx, stream, maxMsgs, maxBytes)
}

// LimitRoom sets the limits of the intents stream, but never above
// ORDERPOST_MAX_INTENTS and ORDERPOST_MAX_BYTES. A stream that holds more
// discards nothing.
func (cs *Census) LimitRoom(ctx context.Context, maxMsgs, maxBytes int64) error {
	stream, err := cs.intents(ctx)
	if err != nil {
		return err
	}
	return cs.limitRoom(ctx, stream, lower(maxMsgs, cs.conn.cfg.MaxIntents), lower(maxBytes, cs.conn.cfg.MaxBytes))
}

func (cs *Census) limitRoom(ctx context.Context, stream jetstream.Stream, maxMsgs, maxBytes int64) error {
	cfg := stream.CachedInfo().Config
	if cfg.Metadata == nil {
		cfg.Metadata = make(map[string]string, 1)
	}
	cfg.Metadata[roomKey] = "disk"
	cfg.MaxMsgs, cfg.MaxBytes = maxMsgs, maxBytes
	ctx, cancel := cs.conn.link.bound(ctx)
	defer cancel()
	_, err := cs.conn.js.UpdateStream(ctx, cfg)
	return wrapStream(cfg.Name, "cannot be limited", err)
}

// lower returns the lower of both; a setting below 1 is no limit.
func lower(limit, setting int64) int64 {
	if setting > 0 {
		return min(limit, setting)
	}
	return limit
}

// intents reads the state of the intents stream, without waiting for a broker
// that is out of reach.
func (cs *Census) intents(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := cs.conn.link.bound(ctx)
	defer cancel()
	stream, err := cs.conn.js.Stream(ctx, cs.conn.n.intents)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", cs.conn.n.intents, err)
	}
	return stream, nil
}
