package queue

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// waitingKey in the intents stream's metadata says that the waiting room was
// created. If it is missing then, what it held is lost. Workers of older versions
// keep metadata that they do not know.
const (
	waitingKey = "orderpost.waiting"
	roomMade   = "made"
)

// waitingReserve is what a move adds to an intent's headers, at most, in bytes.
const waitingReserve = 4 << 10

// waitingStream returns the wanted configuration of the waiting room.
//
// Its subjects name lane and import, but no order. So the broker counts what waits
// by lane and import without looking at messages, and a million waiting orders
// take no memory for subjects. It is a work queue, so that a feeder can pull the
// intents of one subject and acknowledge what it moved (feed.go).
func (q *Queue) waitingStream() jetstream.StreamConfig {
	cfg := q.streams()[0]
	cfg.Name, cfg.Description = q.n.waiting, "orderpost: intents that wait for their turn or their time"
	cfg.Subjects = []string{q.n.waitPre + "*.*", q.n.waitPre + "at.*.*.*.*.*"}
	cfg.MaxMsgsPerSubject, cfg.DiscardNewPerSubject = -1, false
	cfg.MaxMsgs, cfg.MaxBytes = q.cfg.MaxWaiting, q.cfg.MaxWaitingBytes
	cfg.MaxMsgSize = settle.MaxIntentSize - waitingReserve
	cfg.DenyPurge = true // only moves and cancellations remove what waits, one by one
	return cfg
}

// ErrNoWaitingRoom is returned by OpenWaiting if the broker has no waiting room
// and this program may not create it: no worker of this fleet knows it.
var ErrNoWaitingRoom = errors.New("the broker has no waiting room: no worker of this version has worked with it")

// OpenWaiting makes sure that the waiting room exists. A worker creates it once.
// If it is missing afterwards, OpenWaiting returns *MissingError.
func (q *Queue) OpenWaiting(ctx context.Context) error {
	want := q.waitingStream()
	stream, err := q.stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return q.makeWaiting(ctx, want)
	}
	if err != nil {
		return err
	}
	if err := q.checkStream(ctx, stream, want); err != nil || !q.cfg.Worker {
		return err
	}
	return q.markWaiting(ctx)
}

func (q *Queue) makeWaiting(ctx context.Context, want jetstream.StreamConfig) error {
	intents, err := q.intents(ctx)
	switch {
	case err != nil:
		return err
	case intents.CachedInfo().Config.Metadata[waitingKey] != "":
		return &MissingError{Broker: q.address(), Parts: []string{"stream " + want.Name}}
	case !q.cfg.Worker || q.cfg.Missing != MakeMissing:
		return ErrNoWaitingRoom
	}
	if err := q.makeStreams(ctx, []jetstream.StreamConfig{want}); err != nil {
		return err
	}
	return q.markWaiting(ctx)
}

// markWaiting notes at the intents stream that the waiting room exists.
func (q *Queue) markWaiting(ctx context.Context) error {
	intents, err := q.intents(ctx)
	if err != nil {
		return err
	}
	cfg := intents.CachedInfo().Config
	if cfg.Metadata[waitingKey] != "" {
		return nil
	}
	if cfg.Metadata == nil {
		cfg.Metadata = make(map[string]string, 1)
	}
	cfg.Metadata[waitingKey] = roomMade
	ctx, cancel := q.link.bound(ctx)
	defer cancel()
	_, err = q.js.UpdateStream(ctx, cfg)
	return wrapStream(cfg.Name, "cannot be marked", err)
}
