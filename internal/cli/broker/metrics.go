package broker

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"orderpost/internal/cli"
	"orderpost/internal/ops"
	"orderpost/internal/queue"
)

// ServeMetrics serves the metrics and the health of a program that has no pool; addr "" = it serves none. If usual,
// its default address, is in use, as beside a worker, the program goes without, and the log says so in the words of
// without. stop is never nil.
func ServeMetrics(ctx context.Context, addr, usual, without string, reg *prometheus.Registry, q *queue.Queue, log zerolog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	server, err := ops.Listen(ctx, ops.ServerOptions{Addr: addr, Metrics: reg, Log: log, State: func() ops.Snapshot {
		return ops.Snapshot{Started: true, Connected: q.Conn.Connected(), Missing: q.Conn.Refused(), Draining: ctx.Err() != nil, Gate: ops.Gate{Open: true}}
	}})
	switch {
	case err == nil:
		return server.Stop, nil
	case addr == usual:
		log.Warn().Err(err).Msg(without)
		return func() {}, nil
	default:
		return func() {}, &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("ORDERPOST_OPS_ADDR: %w", err)}
	}
}
