// room: notify

package service

import (
	"context"
	"fmt"

	"orderpost/internal/notify"
	"orderpost/internal/ops"
)

// openSender makes what sends outcomes as webhooks, if the settings name their address.
func (p *process) openSender(context.Context) (err error) {
	if !p.cfg.Notify.On() {
		return nil
	}
	if p.sender, err = notify.NewSender(notify.Options{Config: p.cfg.Notify, Queue: p.queue, Name: p.cfg.Name, Version: p.env.Version, Log: p.log}); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	p.beside = append(p.beside, p.sender.Run)
	return nil
}

// observeSender registers the metrics of webhooks, if they are sent.
func (o *operations) observeSender(cfg Config) {
	if !cfg.Notify.On() {
		return
	}
	ops.RegisterNotify(o.registry, func() ops.Notify {
		if p := o.process.Load(); p != nil {
			return p.sender.Stats()
		}
		return (*notify.Sender)(nil).Stats()
	})
}
