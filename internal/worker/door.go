package worker

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orderpost/internal/door"
	"orderpost/internal/fleet"
	"orderpost/internal/gateway"
	"orderpost/internal/ops"
	"orderpost/internal/orderschema"
	"orderpost/internal/queue"
)

// openDoor opens the HTTP door beside the pool, if the settings name its address. The
// door takes nothing new once ctx ends. shut waits until its last request has its answer,
// for at most Config.DrainTimeout; the broker must outlive it.
func openDoor(ctx context.Context, cfg Config, q *queue.Queue, schema *orderschema.Schema, env Env, reg prometheus.Registerer) (shut func(), err error) {
	if !cfg.Gateway.Enabled() {
		return func() {}, nil
	}
	log := env.Log
	d := door.New(q, schema)
	metrics, started := ops.NewGateway(reg, gateway.MetricsOptions()), time.Now().UTC()
	s, err := gateway.Listen(ctx, gateway.Options{Config: cfg.Gateway, Door: d, Unusable: q.Conn.Unusable,
		Metrics: metrics, Log: log, DrainTimeout: cfg.DrainTimeout,
		Queue: q, DataDir: cfg.DataDir, Schema: schema, Version: env.Version, Trace: env.Trace})
	if err != nil {
		d.Close()
		return nil, err
	}
	log.Info().Str("url", s.URL()).Msg("the HTTP door is open")
	forget := context.AfterFunc(ctx, s.Stop)
	show, hide := context.WithCancel(ctx)
	var shown sync.WaitGroup
	shown.Go(func() {
		fleet.New(q).ShowDoor(show, log, func() fleet.Door {
			return fleet.Door{Kind: fleet.DoorGateway, Name: cfg.Name, Since: started, Version: env.Version, Done: metrics.Brought()}
		})
	})
	return func() {
		forget()
		s.Stop()
		hide()
		shown.Wait()
		d.Close()
	}, nil
}
