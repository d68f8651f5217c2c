package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Streams and consumer as queue.DefaultConfig names them.
const (
	intentsStream = "ORDERS"
	resultsStream = "ORDERS_RESULTS"
	controlStream = "KV_ORDERPOST"
	poolConsumer  = "workers"
)

// placeLeaders gives each trial on a cluster the same leaders: the first node
// has the intents and their consumer, the second the outcomes, the third the
// control bucket. Left alone, a cluster draws lots, and a trial whose leaders
// all fell on one node is quicker than another.
func (b *broker) placeLeaders(ctx context.Context) error {
	if b.replicas == 1 {
		return nil
	}
	nc, js, err := b.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	for stream, node := range map[string]int{intentsStream: 1, resultsStream: 2, outcomesStream: 2, controlStream: 3} {
		err := b.placeLeader(ctx, nc, "STREAM.LEADER.STEPDOWN."+stream, node, func(ctx context.Context) (*jetstream.ClusterInfo, error) {
			s, err := js.Stream(ctx, stream)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				return nil, nil // the contender has none
			}
			if err != nil {
				return nil, err
			}
			return s.CachedInfo().Cluster, nil
		})
		if err != nil {
			return fmt.Errorf("leader of stream %s: %w", stream, err)
		}
	}
	err = b.placeLeader(ctx, nc, "CONSUMER.LEADER.STEPDOWN."+intentsStream+"."+poolConsumer, 1, func(ctx context.Context) (*jetstream.ClusterInfo, error) {
		c, err := js.Consumer(ctx, intentsStream, poolConsumer)
		if err != nil {
			return nil, err
		}
		return c.CachedInfo().Cluster, nil
	})
	if err != nil {
		return fmt.Errorf("leader of the consumer: %w", err)
	}
	return nil
}

// placeLeader asks for a leader until it is the wanted one. ask returns nil if there is
// nothing to lead. A request is lost now and then while the nodes still close routes that
// they have twice.
func (b *broker) placeLeader(ctx context.Context, nc *nats.Conn, verb string, node int, ask func(context.Context) (*jetstream.ClusterInfo, error)) error {
	want := b.nodes[node-1].name
	request, err := json.Marshal(map[string]any{"placement": map[string]string{"preferred": want}})
	if err != nil {
		return err
	}
	return b.untilElected(ctx, func(ctx context.Context) error {
		info, err := ask(ctx)
		if err != nil || info == nil || info.Leader == want {
			return err
		}
		if info.Leader == "" {
			return errors.New("there is none yet")
		}
		if _, err := nc.Request("$JS.API."+verb, request, time.Second); err != nil {
			return err
		}
		return fmt.Errorf("it is %s, not %s", info.Leader, want)
	})
}
