package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Topology makes and checks the streams of an installation, and the workers' consumer.
type Topology struct {
	conn   *Conn
	reader *reader
	bucket *Bucket
	made   []string // the streams that Open created
}

// wrapStream adds the stream's name to an error.
func wrapStream(name, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("stream %s %s: %w", name, what, err)
}

// changeTimeout bounds one request that creates or changes a stream. A cluster that is
// busy takes longer for it than for an answer.
const changeTimeout = 4 * requestTimeout

// findStream asks once for a stream, with a timeout of its own: the client would wait for
// a lost answer as long as ctx lasts.
func (tp *Topology) findStream(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := tp.conn.link.bound(ctx)
	defer cancel()
	return tp.conn.js.Stream(ctx, name)
}

// Made returns the names of the streams that Open created.
func (tp *Topology) Made() []string { return tp.made }

// madeKey in a stream's metadata says by which request it was created, and bornKey when. The
// metadata is part of a backup. The server's own time of creation is not: a stream that is
// restored is created at that moment (nats-server 2.15).
const (
	madeKey = "orderpost.made"
	bornKey = "orderpost.born"
)

// bornAt tells a stream from another one of its name, also after it was restored from a backup.
func bornAt(info *jetstream.StreamInfo) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, info.Config.Metadata[bornKey]); err == nil {
		return at
	}
	return info.Created
}

const (
	// streamsSoon is how long a program waits for streams that a starting
	// worker may be about to create.
	streamsSoon = 2 * time.Second
	ensurePause = 100 * time.Millisecond
)
