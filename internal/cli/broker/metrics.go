package broker

import (
	"context"
	"fmt"

	"orderpost/internal/cli"
	"orderpost/internal/ops"
	"orderpost/internal/queue"
)

// ServeMetrics serves the metrics and the health of a program that has no pool, as o says; Addr "" = it serves none. If
// usual, the program's default address, is in use, as beside a worker, it goes without, and the log says so in the
// words of without. stop is never nil.
func ServeMetrics(ctx context.Context, o ops.ServerOptions, usual, without string, q *queue.Queue) (stop func(), err error) {
	if o.Addr == "" {
		return func() {}, nil
	}
	o.State = func() ops.Snapshot {
		return ops.Snapshot{Started: true, Connected: q.Conn.Connected(), Missing: q.Conn.Refused(), Draining: ctx.Err() != nil, Gate: ops.Gate{Open: true}}
	}
	server, err := ops.Listen(ctx, o)
	switch {
	case err == nil:
		return server.Stop, nil
	case o.Addr == usual:
		o.Log.Warn().Err(err).Msg(without)
		return func() {}, nil
	default:
		return func() {}, &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("ORDERPOST_OPS_ADDR: %w", err)}
	}
}
