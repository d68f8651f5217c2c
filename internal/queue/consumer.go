package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// workersConsumer reads the configuration and the state of the workers' consumer.
func (tp *Topology) workersConsumer(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	info, err := patiently(ctx, tp.conn, tp.readConsumer)
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", tp.conn.n.consumer, err)
	}
	return info, nil
}

// consumerConfig returns the wanted configuration of the workers' consumer.
func (tp *Topology) consumerConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       tp.conn.n.consumer,
		Description:   "orderpost: the pool of workers",
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       tp.conn.cfg.AckWait,
		MaxDeliver:    -1, // a cap would strand messages in the stream; R8 limits deliveries by its own notes
		MaxAckPending: MaxAckPending,
		MaxWaiting:    10_000,
		Replicas:      tp.conn.cfg.Replicas,
	}
}

// ensureConsumer makes sure of the workers' consumer and returns its AckWait.
// Only a worker may create or change it, so that a producer with other settings
// does not shorten the fleet's claims. A worker must not do so while another
// one is present, whose leases rely on the AckWait of the existing consumer.
func (tp *Topology) ensureConsumer(ctx context.Context) (ackWait time.Duration, err error) {
	told := false
	for since := time.Now(); ; {
		have, err := tp.readConsumer(ctx)
		switch {
		case err == nil:
			if text := unusableConsumer(have.Config); text != "" && tp.conn.cfg.Worker {
				return 0, fmt.Errorf("%s; nothing was changed. Delete it while no worker runs, then start one: workers create it again", text)
			}
			return tp.alignConsumer(ctx, have.Config)
		case !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound):
			return 0, err
		case tp.conn.cfg.Missing != MakeMissing:
			return tp.conn.cfg.AckWait, nil
		}
		other, err := tp.otherWorker(ctx)
		if err != nil {
			return 0, err
		}
		// If other workers run, somebody deleted the consumer. They create it again
		// once their claims have ended (R7).
		if other == "" || time.Since(since) > 2*tp.conn.cfg.AckWait {
			return tp.conn.cfg.AckWait, tp.putConsumer(ctx, tp.consumerConfig(), tp.conn.js.CreateOrUpdateConsumer)
		}
		if !told {
			tp.conn.log.Warn().Str("consumer", tp.conn.n.consumer).Str("present", other).Msg("the consumer is missing; waiting for the running worker to create it again")
			told = true
		}
		if err := settle.Sleep(ctx, time.Second); err != nil {
			return 0, err
		}
	}
}

// minWaiting is how many pulls of all workers together may wait at the consumer at least:
// JetStream's default.
const minWaiting = 512

// unusableConsumer says why a consumer does not hand out every intent at once until it is
// acknowledged, or forgets that it did; "" = none of that. A damaged disk or a person may have changed it.
// The broker changes none of it on an existing consumer but the filter.
func unusableConsumer(have jetstream.ConsumerConfig) string {
	switch {
	case have.DeliverPolicy != jetstream.DeliverAllPolicy:
		return fmt.Sprintf("its deliver policy is %v, wanted %v", have.DeliverPolicy, jetstream.DeliverAllPolicy)
	case have.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Sprintf("its ack policy is %v, wanted %v", have.AckPolicy, jetstream.AckExplicitPolicy)
	case have.FilterSubject != "" || len(have.FilterSubjects) > 0:
		return fmt.Sprintf("it has the filter %s, wanted none", strings.TrimSpace(strings.Join(append(have.FilterSubjects, have.FilterSubject), " ")))
	case have.ReplayPolicy != jetstream.ReplayInstantPolicy:
		return fmt.Sprintf("its replay policy is %v, wanted %v", have.ReplayPolicy, jetstream.ReplayInstantPolicy)
	case have.MemoryStorage: // after a restart of the broker, what it had delivered would count as possibly posted
		return "it is in memory, wanted on file"
	case have.MaxWaiting > 0 && have.MaxWaiting < minWaiting:
		return fmt.Sprintf("its max_waiting is %d, wanted at least %d", have.MaxWaiting, minWaiting)
	}
	return ""
}

// readConsumer asks once for the workers' consumer.
func (tp *Topology) readConsumer(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := tp.conn.link.bound(ctx)
	defer cancel()
	c, err := tp.conn.js.Consumer(ctx, tp.conn.n.intents, tp.conn.n.consumer)
	if err != nil {
		return nil, err
	}
	return c.CachedInfo(), nil
}

// putConsumer creates the workers' consumer by put. A server that has just deleted the
// former one may still write its state, and then cannot write the new one's, because both
// have the same file (nats-server 2.15). So putConsumer tries again for a moment. It does so
// for longer while the cluster gives the stream the replicas that the consumer is to have.
func (tp *Topology) putConsumer(ctx context.Context, want jetstream.ConsumerConfig, put func(context.Context, string, jetstream.ConsumerConfig) (jetstream.Consumer, error)) error {
	began := time.Now()
	for tries := 1; ; tries++ {
		bounded, cancel := tp.conn.link.bound(ctx)
		_, err := put(bounded, tp.conn.n.intents, want)
		cancel()
		var refused *jetstream.APIError
		if !errors.As(err, &refused) {
			return err
		}
		again := refused.ErrorCode == jetstream.JSErrCodeConsumerCreate && tries < 3 ||
			refused.ErrorCode == codeReplicasExceedStream && time.Since(began) < tp.conn.cfg.ConnectTimeout
		if !again {
			return err
		}
		if err := settle.Sleep(ctx, againPause); err != nil {
			return err
		}
	}
}

// codeReplicasExceedStream is JetStream's answer to a consumer with more replicas than its
// stream has. The client has no name for it.
const codeReplicasExceedStream = 10126

// alignConsumer updates the existing consumer to a worker's settings, and
// returns the AckWait that holds from now on.
func (tp *Topology) alignConsumer(ctx context.Context, have jetstream.ConsumerConfig) (ackWait time.Duration, err error) {
	want := tp.consumerConfig()
	if have.Replicas == 0 || have.Replicas > want.Replicas { // a worker's default must not remove replicas
		want.Replicas = have.Replicas
	}
	same := have.AckWait == want.AckWait && have.Replicas == want.Replicas && len(compareConsumer(have, want)) == 0
	if !tp.conn.cfg.Worker || same {
		return have.AckWait, nil
	}
	if have.AckWait != want.AckWait {
		if err := tp.mayChangeAckWait(ctx, have.AckWait); err != nil {
			return 0, err
		}
	}
	return want.AckWait, tp.putConsumer(ctx, want, tp.conn.js.CreateOrUpdateConsumer)
}

// compareConsumer returns in what a consumer differs that a running worker sets back: it would
// give up an intent (max_deliver), deliver it before AckWait is over, on which claims rely (backoff, R7), leave out
// bodies, refuse what workers ask for or hand out less of it, or be gone after a pause. AckWait and replicas are
// compared by themselves.
func compareConsumer(have, want jetstream.ConsumerConfig) []Difference {
	names := []string{"max_deliver", "backoff", "headers_only", "max_ack_pending", "max_expires", "max_bytes", "inactive_threshold", "priority_groups"}
	if have.MaxRequestBatch < pullMost { // a server's own limit may be higher
		names = append(names, "max_batch")
	}
	return differences(have, want, names...)
}

// setBackConsumer sets back what compareConsumer names. Workers run, so it leaves the rest,
// AckWait included.
func (tp *Topology) setBackConsumer(ctx context.Context) error {
	c, err := tp.readConsumer(ctx)
	if err != nil {
		return err
	}
	have, want := c.Config, tp.consumerConfig()
	adopt(&have, want, compareConsumer(have, want))
	have.PriorityPolicy, have.PinnedTTL = want.PriorityPolicy, want.PinnedTTL
	if err = tp.putConsumer(ctx, have, tp.conn.js.UpdateConsumer); err != nil {
		return err
	}
	if c, err = tp.readConsumer(ctx); err != nil {
		return err
	}
	return stays(compareConsumer(c.Config, want))
}

// stays returns an error that names what the broker did not change.
func stays(diffs []Difference) error {
	if len(diffs) == 0 {
		return nil
	}
	return fmt.Errorf("the broker keeps that %s; look at the limits of the server and the account", strings.Join(describe(diffs), "; "))
}

// mayChangeAckWait returns nil once no other worker relies on the consumer's AckWait. A
// worker that lost the broker for a while is not present, although it runs, and announces
// itself when it is back. So before AckWait is lowered, mayChangeAckWait waits until every
// claim from before has ended, and looks again.
func (tp *Topology) mayChangeAckWait(ctx context.Context, have time.Duration) error {
	for began, told := time.Now(), false; ; told = true {
		other, err := tp.otherWorker(ctx)
		if err != nil {
			return err
		}
		if other != "" {
			return fmt.Errorf("ORDERPOST_ACK_WAIT: is %s here and %s in the fleet, whose worker %s relies on it; use the fleet's, or stop its workers before you change it",
				tp.conn.cfg.AckWait, have, other)
		}
		left := have - time.Since(began)
		if tp.conn.cfg.AckWait > have || left <= 0 {
			return nil
		}
		if !told {
			tp.conn.log.Warn().Stringer("from", have).Stringer("to", tp.conn.cfg.AckWait).
				Msg("ORDERPOST_ACK_WAIT is lower than in the fleet; waiting for the fleet's, in case that a worker is cut off from the broker and still relies on it")
		}
		if err := settle.Sleep(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
}

// otherWorker returns the name of another worker that lives; "" = there is none. It asks
// again while no server answers reads: a bucket with replicas that was just
// created has no leader yet.
func (tp *Topology) otherWorker(ctx context.Context) (string, error) {
	cfg := tp.conn.cfg
	if cfg.Living == nil {
		return "", nil
	}
	until := time.Now().Add(cfg.ConnectTimeout)
	other, err := cfg.Living(ctx, tp.bucket, cfg.Name)
	for errors.Is(err, nats.ErrNoResponders) && time.Now().Before(until) && settle.Sleep(ctx, ensurePause) == nil {
		other, err = cfg.Living(ctx, tp.bucket, cfg.Name)
	}
	return other, err
}
