package queue

import "context"

// refuseRollups forbids roll-ups in the bucket. JetStream creates a bucket with
// roll-ups allowed. One message with the header Nats-Rollup then deletes every
// key, the fleet's hold included, and whoever may write a single key could send
// it.
func (q *Queue) refuseRollups(ctx context.Context) error {
	stream, err := q.js.Stream(ctx, "KV_"+q.cfg.Bucket)
	if err != nil {
		return err
	}
	cfg := stream.CachedInfo().Config
	if !cfg.AllowRollup {
		return nil
	}
	cfg.AllowRollup = false
	_, err = q.js.UpdateStream(ctx, cfg)
	return wrapStream(cfg.Name, "cannot be updated (it must refuse roll-ups)", err)
}
