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

// ensurePause is the time between two looks for what another program is about to make.
const ensurePause = 100 * time.Millisecond

// findStream asks once for a stream, with a timeout of its own: the client would wait for
// a lost answer as long as ctx lasts.
func (tp *Topology) findStream(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := tp.conn.link.bound(ctx)
	defer cancel()
	return tp.conn.js.Stream(ctx, name)
}

// Made returns the names of the streams that Open created.
func (tp *Topology) Made() []string { return tp.made }
