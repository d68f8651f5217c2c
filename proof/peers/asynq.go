package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/order"
)

// onAsynq has asynq work the orders off. It enqueues one task a call, so that as many calls are
// under way as there are orders in flight. A task's result is kept for a day, and
// the order's number is the task's ID, which makes a second enqueueing of it a mistake.
func onAsynq(ctx context.Context, o options) (r result, err error) {
	poster, err := newPoster(o)
	if err != nil {
		return r, err
	}
	redis := asynq.RedisClientOpt{Network: "unix", Addr: o.database, PoolSize: 2 * o.slots}
	var worked atomic.Int64
	server := asynq.NewServer(redis, asynq.Config{Concurrency: o.slots, LogLevel: asynq.WarnLevel, TaskCheckInterval: o.fetchEvery})
	err = server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		a, err := poster.post(ctx, task.Payload())
		if err != nil {
			return err // asynq tries again, after a delay
		}
		text, err := json.Marshal(a)
		if err != nil {
			return err
		}
		_, err = task.ResultWriter().Write(text)
		worked.Add(1)
		return err
	}))
	if err != nil {
		return r, err
	}
	defer server.Shutdown()
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	defer func() { err = errors.Join(err, client.Close(), inspector.Close()) }()
	return system{worked: &worked,
		stored: func(context.Context) (int, error) {
			info, err := inspector.GetQueueInfo("default")
			if err != nil {
				return 0, err
			}
			return info.Completed, nil
		},
		insert: func(ctx context.Context, orders []string) error {
			all, ctx := errgroup.WithContext(ctx)
			all.SetLimit(o.slots)
			for _, text := range orders {
				all.Go(func() error {
					parsed, err := order.Parse([]byte(text))
					if err != nil {
						return err
					}
					_, err = client.EnqueueContext(ctx, asynq.NewTask("order", []byte(text)), asynq.TaskID(parsed.OrderNo()), asynq.Retention(24*time.Hour))
					return err
				})
			}
			return all.Wait()
		}}.measure(ctx, o.file)
}
