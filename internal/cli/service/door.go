// room: gateway

package service

import (
	"context"

	"orderpost/internal/gateway"
	"orderpost/internal/ops"
)

// openDoor opens the HTTP door beside the pool, if the settings name its address.
func (p *process) openDoor(ctx context.Context) error {
	if !p.cfg.Gateway.Enabled() {
		return nil
	}
	stop, err := gateway.Open(ctx, p.cfg.Name, gateway.Options{Config: p.cfg.Gateway, Metrics: ops.NewGateway(p.view.registry, gateway.MetricsOptions()),
		Log: p.log, DrainTimeout: p.cfg.DrainTimeout, Files: p.env.Files,
		Queue: p.queue, DataDir: p.cfg.DataDir, Schema: p.schema, Version: p.env.Version, Trace: p.env.Trace})
	if err != nil {
		return err
	}
	p.later(stop)
	return nil
}
