// room: gateway

package service

import (
	"context"
	"sync"

	"orderpost/internal/fleet"
	"orderpost/internal/gateway"
	"orderpost/internal/gateway/door"
	"orderpost/internal/ops"
)

// openDoor opens the HTTP door beside the pool, if the settings name its address. The
// door takes nothing new once ctx ends. When the program stops, the last request gets its
// answer, for at most Config.DrainTimeout; the broker must outlive it.
func (p *process) openDoor(ctx context.Context) error {
	if !p.cfg.Gateway.Enabled() {
		return nil
	}
	d := door.New(p.queue, p.schema)
	p.later(d.Close)
	metrics := ops.NewGateway(p.view.registry, gateway.MetricsOptions())
	s, err := gateway.Listen(ctx, gateway.Options{Config: p.cfg.Gateway, Door: d, Unusable: p.queue.Conn.Unusable,
		Metrics: metrics, Log: p.log, DrainTimeout: p.cfg.DrainTimeout, Files: p.env.Files,
		Queue: p.queue, DataDir: p.cfg.DataDir, Schema: p.schema, Version: p.env.Version, Trace: p.env.Trace})
	if err != nil {
		return err
	}
	p.log.Info().Str("url", s.URL()).Msg("the HTTP door is open")
	forget := context.AfterFunc(ctx, s.Stop)
	show, hide := context.WithCancel(ctx)
	var shown sync.WaitGroup
	shown.Go(func() {
		p.control.ShowDoor(show, p.log, func() fleet.Door {
			return fleet.Door{Kind: fleet.DoorGateway, Name: p.cfg.Name, Since: p.started, Version: p.env.Version, Done: metrics.Brought()}
		})
	})
	p.later(func() {
		forget()
		s.Stop()
		hide()
		shown.Wait()
	})
	return nil
}
