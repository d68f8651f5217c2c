package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// topologyVersion is written into the streams' metadata. A program that finds
// a newer one than it knows leaves the streams alone and refuses to start.
const topologyVersion = 1

const versionKey = "orderpost.topology"

// ensureTopology makes what is missing and checks what is there.
func (q *Queue) ensureTopology(ctx context.Context) error {
	ctx, cancel := q.link.within(ctx, q.cfg.ConnectTimeout+requestTimeout)
	defer cancel()
	for _, want := range q.streams() {
		if err := q.ensureStream(ctx, want); err != nil {
			return err
		}
	}
	if err := q.ensureBucket(ctx); err != nil {
		return q.bucketError(err)
	}
	if err := q.ensureConsumer(ctx); err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", q.n.consumer, q.n.intents, err)
	}
	return nil
}

// ensureBucket leaves a bucket that is there as it is.
func (q *Queue) ensureBucket(ctx context.Context) (err error) {
	q.kv, err = q.js.KeyValue(ctx, q.cfg.Bucket)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	q.kv, err = q.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: q.cfg.Bucket, History: 1, Storage: jetstream.FileStorage, Replicas: q.cfg.Replicas,
		Description: "orderpost: fleet control",
	})
	return err
}

// ensureConsumer: only a worker may change it, so that a producer with other
// settings does not shorten the fleet's claims; and not while another worker
// is present, whose leases count on the AckWait that is there.
func (q *Queue) ensureConsumer(ctx context.Context) (err error) {
	q.consumer, err = q.js.Consumer(ctx, q.n.intents, q.n.consumer)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	if err == nil {
		have := q.consumer.CachedInfo().Config
		if !q.cfg.Worker || have.AckWait == q.cfg.AckWait && have.MaxAckPending == q.cfg.MaxAckPending {
			return nil
		}
		if err := q.mayChangeAckWait(ctx, have.AckWait); err != nil {
			return err
		}
	}
	q.consumer, err = q.js.CreateOrUpdateConsumer(ctx, q.n.intents, q.consumerConfig())
	return err
}

func (q *Queue) mayChangeAckWait(ctx context.Context, have time.Duration) error {
	if have == q.cfg.AckWait {
		return nil
	}
	workers, err := q.Workers(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.Worker != q.cfg.Name {
			return fmt.Errorf("ORDERPOST_ACK_WAIT: is %s here and %s in the fleet, whose worker %s relies on it; use the fleet's, or stop its workers before you change it",
				q.cfg.AckWait, have, w.Worker)
		}
	}
	return nil
}

func (q *Queue) streams() []jetstream.StreamConfig {
	base := jetstream.StreamConfig{
		Storage: jetstream.FileStorage, Replicas: q.cfg.Replicas, Discard: jetstream.DiscardNew,
		Duplicates: 2 * time.Minute,
		MaxMsgs:    -1, MaxBytes: -1, AllowDirect: true, AllowAtomicPublish: true,
		MaxMsgSize: -1, Metadata: map[string]string{versionKey: strconv.Itoa(topologyVersion)},
	}
	intents, results, dead := base, base, base

	intents.Name, intents.Description = q.n.intents, "orderpost: order intents"
	intents.Subjects = []string{q.n.newPre + "*"}
	intents.Retention = jetstream.WorkQueuePolicy
	intents.MaxMsgsPerSubject, intents.DiscardNewPerSubject = 1, true
	intents.MaxMsgs, intents.MaxBytes = q.cfg.MaxIntents, q.cfg.MaxBytes

	results.Name, results.Description = q.n.results, "orderpost: last word on each order_no"
	results.Subjects = []string{q.n.resPre + "*"}
	results.Retention, results.MaxMsgsPerSubject = jetstream.LimitsPolicy, 1
	results.AllowMsgTTL = true

	dead.Name, dead.Description = q.n.dead, "orderpost: dead letters"
	dead.Subjects = []string{q.n.deadPre + "*", q.n.deadPre + "*.tail.*"}
	dead.Retention, dead.MaxMsgsPerSubject = jetstream.LimitsPolicy, 1

	return []jetstream.StreamConfig{intents, results, dead}
}

func (q *Queue) consumerConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       q.n.consumer,
		Description:   "orderpost: the pool of workers",
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       q.cfg.AckWait,
		MaxDeliver:    -1, // a cap would leave messages stored and never delivered again; R8 caps by its own notes
		MaxAckPending: q.cfg.MaxAckPending,
		MaxWaiting:    10_000,
		Replicas:      q.cfg.Replicas,
	}
}

func (q *Queue) ensureStream(ctx context.Context, want jetstream.StreamConfig) error {
	q.replicas = max(q.replicas, want.Replicas)
	stream, err := q.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = q.js.CreateStream(ctx, want)
		if err == nil || !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return wrapStream(want.Name, "cannot be made", err)
		}
		stream, err = q.js.Stream(ctx, want.Name) // another program made it meanwhile
	}
	if err != nil {
		return wrapStream(want.Name, "cannot be read", err)
	}
	have := stream.CachedInfo().Config
	q.replicas = max(q.replicas, have.Replicas)
	if text := have.Metadata[versionKey]; text != "" {
		if v, err := strconv.Atoi(text); err != nil || v > topologyVersion {
			return fmt.Errorf("stream %s has topology version %s, newer than this program's %d: use a newer orderpost", want.Name, text, topologyVersion)
		}
	}
	unsafe, safe := compareStream(have, want)
	if len(unsafe) > 0 {
		return &TopologyError{Stream: want.Name, Differences: unsafe}
	}
	if len(safe) == 0 || !q.cfg.Worker {
		return nil
	}
	return q.updateStream(ctx, have, want, safe)
}

func (q *Queue) updateStream(ctx context.Context, have, want jetstream.StreamConfig, safe []Difference) error {
	q.log.Info().Str("stream", want.Name).Strs("changes", describe(safe)).Msg("updating stream")
	have.MaxMsgs, have.MaxBytes = want.MaxMsgs, want.MaxBytes
	have.Replicas = max(have.Replicas, want.Replicas)
	have.Description, have.Duplicates = want.Description, want.Duplicates
	if have.Metadata == nil {
		have.Metadata = make(map[string]string, 1)
	}
	have.Metadata[versionKey] = want.Metadata[versionKey]
	_, err := q.js.UpdateStream(ctx, have)
	return wrapStream(want.Name, "cannot be updated", err)
}

func wrapStream(name, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("stream %s %s: %w", name, what, err)
}

// Difference is one field of a stream's configuration that is not as wanted.
type Difference struct {
	Field      string
	Have, Want any
}

// TopologyError is returned where a stream exists with a configuration under
// which the promise does not hold. Nothing was changed.
type TopologyError struct {
	Stream      string
	Differences []Difference
}

// Error lists the differing fields.
func (e *TopologyError) Error() string {
	return fmt.Sprintf("stream %s is not as orderpost needs it (%s); nothing was changed. "+
		"Use other names (ORDERPOST_STREAM_PREFIX, ORDERPOST_SUBJECT_PREFIX), or bring the stream in line",
		e.Stream, strings.Join(describe(e.Differences), "; "))
}

func describe(diffs []Difference) []string {
	out := make([]string, len(diffs))
	for i, d := range diffs {
		out[i] = fmt.Sprintf("%s is %v, wanted %v", d.Field, d.Have, d.Want)
	}
	return out
}

// compareStream sorts what differs into what would break the promise and what
// may be changed on a running stream.
func compareStream(have, want jetstream.StreamConfig) (unsafe, safe []Difference) {
	check := func(list *[]Difference, field string, h, w any) {
		if fmt.Sprint(h) != fmt.Sprint(w) {
			*list = append(*list, Difference{field, h, w})
		}
	}
	check(&unsafe, "subjects", have.Subjects, want.Subjects)
	check(&unsafe, "retention", have.Retention, want.Retention)
	check(&unsafe, "storage", have.Storage, want.Storage)
	check(&unsafe, "discard", have.Discard, want.Discard)
	check(&unsafe, "discard_new_per_subject", have.DiscardNewPerSubject, want.DiscardNewPerSubject)
	check(&unsafe, "max_msgs_per_subject", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	check(&unsafe, "max_age", have.MaxAge, want.MaxAge)
	check(&unsafe, "max_msg_size", have.MaxMsgSize, want.MaxMsgSize)
	check(&unsafe, "no_ack", have.NoAck, want.NoAck)
	check(&unsafe, "sealed", have.Sealed, want.Sealed)
	check(&unsafe, "deny_delete", have.DenyDelete, want.DenyDelete)
	check(&unsafe, "mirror", have.Mirror != nil, want.Mirror != nil)
	check(&unsafe, "allow_direct", have.AllowDirect, want.AllowDirect)
	check(&unsafe, "allow_atomic", have.AllowAtomicPublish, want.AllowAtomicPublish)
	check(&unsafe, "allow_msg_ttl", have.AllowMsgTTL, want.AllowMsgTTL)
	check(&safe, "max_msgs", have.MaxMsgs, want.MaxMsgs)
	check(&safe, "max_bytes", have.MaxBytes, want.MaxBytes)
	if want.Replicas > have.Replicas { // fewer is a decision that a worker's default must not make
		check(&safe, "num_replicas", have.Replicas, want.Replicas)
	}
	if have.Metadata[versionKey] != want.Metadata[versionKey] {
		safe = append(safe, Difference{versionKey, have.Metadata[versionKey], want.Metadata[versionKey]})
	}
	check(&safe, "description", have.Description, want.Description)
	check(&safe, "duplicate_window", have.Duplicates, want.Duplicates)
	return unsafe, safe
}
