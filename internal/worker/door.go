package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"orderpost/internal/door"
	"orderpost/internal/gateway"
	"orderpost/internal/ops"
	"orderpost/internal/queue"
)

// openDoor opens the HTTP door beside the pool, if the settings name its address. The
// door takes nothing new once ctx ends. shut waits until its last request has its answer,
// for at most Config.DrainTimeout; the broker must outlive it.
func openDoor(ctx context.Context, cfg Config, q *queue.Queue, reg prometheus.Registerer, log zerolog.Logger) (shut func(), err error) {
	if !cfg.Gateway.Enabled() {
		return func() {}, nil
	}
	d := door.New(q)
	s, err := gateway.Listen(ctx, gateway.Options{Config: cfg.Gateway, Door: d, Connected: q.Connected,
		Metrics: ops.NewGateway(reg, gateway.MetricsOptions()), Log: log, DrainTimeout: cfg.DrainTimeout})
	if err != nil {
		d.Close()
		if errors.Is(err, gateway.ErrConfig) {
			err = fmt.Errorf("%w: %w", ErrConfig, err)
		}
		return nil, err
	}
	log.Info().Str("url", s.URL()).Msg("the HTTP door is open")
	forget := context.AfterFunc(ctx, s.Stop)
	return func() {
		forget()
		s.Stop()
		d.Close()
	}, nil
}
