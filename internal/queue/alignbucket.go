package queue

import "context"

// alignBucket gives the bucket the replicas that this program's settings ask for, and
// forbids roll-ups in it. JetStream creates a bucket with roll-ups allowed. One message
// with the header Nats-Rollup then deletes every key, the fleet's hold included, and
// whoever may write a single key could send it.
func (q *Queue) alignBucket(ctx context.Context) error {
	stream, err := q.js.Stream(ctx, "KV_"+q.cfg.Bucket)
	if err != nil {
		return err
	}
	cfg := stream.CachedInfo().Config
	if !cfg.AllowRollup && cfg.Replicas >= q.cfg.Replicas {
		return nil
	}
	cfg.AllowRollup, cfg.Replicas = false, max(cfg.Replicas, q.cfg.Replicas)
	_, err = q.js.UpdateStream(ctx, cfg)
	return wrapStream(cfg.Name, "cannot be updated (it must refuse roll-ups and have ORDERPOST_REPLICAS)", err)
}
