package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// topologyVersion is written into the streams' metadata. A program that finds a
// newer version leaves the streams alone and refuses to start.
const topologyVersion = 1

const versionKey = "orderpost.topology"

// baseStream returns what the configurations of all streams have in common.
func (q *Queue) baseStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Storage: jetstream.FileStorage, Replicas: q.cfg.Replicas, Discard: jetstream.DiscardNew,
		Duplicates: 2 * time.Minute,
		MaxMsgs:    -1, MaxBytes: -1, AllowDirect: true, AllowAtomicPublish: true,
		MaxMsgSize: -1, Metadata: map[string]string{versionKey: strconv.Itoa(topologyVersion)},
	}
}

// streams returns the wanted configuration of each stream that orders go
// through. The journal is not among them: orders go on without it.
func (q *Queue) streams() []jetstream.StreamConfig {
	base := q.baseStream()
	intents, results, dead := base, base, base

	intents.Name, intents.Description = q.n.intents, "orderpost: order intents"
	intents.Subjects = []string{q.n.newPre + "*"}
	intents.Retention = jetstream.WorkQueuePolicy
	intents.MaxMsgsPerSubject, intents.DiscardNewPerSubject = 1, true
	intents.MaxMsgs, intents.MaxBytes, intents.MaxMsgSize = q.cfg.MaxIntents, q.cfg.MaxBytes, settle.MaxIntentSize

	results.Name, results.Description = q.n.results, "orderpost: last word on each order_no"
	results.Subjects = []string{q.n.resPre + "*"}
	results.Retention, results.MaxMsgsPerSubject = jetstream.LimitsPolicy, 1
	results.AllowMsgTTL = true
	results.DenyPurge = true // without its result an order may be posted again

	dead.Name, dead.Description = q.n.dead, "orderpost: dead letters"
	dead.Subjects = []string{q.n.deadPre + "*", q.n.deadPre + "*.tail.*"}
	dead.Retention, dead.MaxMsgsPerSubject = jetstream.LimitsPolicy, 1

	return []jetstream.StreamConfig{intents, results, dead}
}

// journalStream returns the wanted configuration of the journal. Each entry has
// a subject of its own, so that a repeated write stores nothing twice and no
// entry takes the place of another.
func (q *Queue) journalStream() jetstream.StreamConfig {
	c := q.baseStream()
	c.Name, c.Description = q.n.journal, "orderpost: who did what"
	c.Subjects = []string{q.n.journalPre + ">"}
	c.Retention = jetstream.LimitsPolicy
	c.MaxMsgsPerSubject, c.DiscardNewPerSubject = 1, true
	c.DenyDelete, c.DenyPurge = true, true
	return c
}

// consumerConfig returns the wanted configuration of the workers' consumer.
func (q *Queue) consumerConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       q.n.consumer,
		Description:   "orderpost: the pool of workers",
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       q.cfg.AckWait,
		MaxDeliver:    -1, // a cap would strand messages in the stream; R8 limits deliveries by its own notes
		MaxAckPending: q.cfg.MaxAckPending,
		MaxWaiting:    10_000,
		Replicas:      q.cfg.Replicas,
	}
}

// checkStream compares a stream with its wanted configuration. A worker updates
// the stream's limits to its own settings.
func (q *Queue) checkStream(ctx context.Context, stream jetstream.Stream, want jetstream.StreamConfig) error {
	have := stream.CachedInfo().Config
	q.replicas.atLeast(have.Replicas)
	if text := have.Metadata[versionKey]; text != "" {
		if v, err := strconv.Atoi(text); err != nil || v > topologyVersion {
			return fmt.Errorf("stream %s has topology version %s, newer than this program's %d: use a newer orderpost", want.Name, text, topologyVersion)
		}
	}
	unsafe, safe := compareStream(have, want)
	if len(unsafe) > 0 {
		return &TopologyError{Stream: want.Name, Differences: unsafe}
	}
	if q.cfg.Worker && slices.ContainsFunc(safe, isSize) && !q.alone(ctx) {
		q.log.Info().Str("stream", want.Name).Int32("max_msg_size", want.MaxMsgSize).
			Msg("the stream takes messages of any size; the next worker that starts while no other worker is present sets a limit")
		safe, want.MaxMsgSize = slices.DeleteFunc(safe, isSize), have.MaxMsgSize
	}
	if len(safe) == 0 || !q.cfg.Worker {
		return nil
	}
	return q.updateStream(ctx, have, want, safe)
}

// sizeField is limited on an existing stream only by a worker that is alone.
// Workers of older versions refuse to start on a stream with such a limit, and
// a rolling upgrade may have to be rolled back.
const sizeField = "max_msg_size"

func isSize(d Difference) bool { return d.Field == sizeField }

// alone reports whether the bucket lists no other worker.
func (q *Queue) alone(ctx context.Context) bool {
	others, err := q.otherWorkers(ctx)
	return err == nil && len(others) == 0
}

// updateStream changes an existing stream where that is safe.
func (q *Queue) updateStream(ctx context.Context, have, want jetstream.StreamConfig, safe []Difference) error {
	q.log.Info().Str("stream", want.Name).Strs("changes", describe(safe)).Msg("updating stream")
	if have.Metadata[roomKey] == "" {
		have.MaxMsgs, have.MaxBytes = want.MaxMsgs, want.MaxBytes
	}
	if have.MaxMsgSize <= 0 {
		have.MaxMsgSize = want.MaxMsgSize
	}
	have.Replicas = max(have.Replicas, want.Replicas)
	have.Description, have.Duplicates = want.Description, want.Duplicates
	have.DenyPurge = have.DenyPurge || want.DenyPurge
	if have.Metadata == nil {
		have.Metadata = make(map[string]string, 1)
	}
	have.Metadata[versionKey] = want.Metadata[versionKey]
	_, err := q.js.UpdateStream(ctx, have)
	return wrapStream(want.Name, "cannot be updated", err)
}

// wrapStream adds the stream's name to an error.
func wrapStream(name, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("stream %s %s: %w", name, what, err)
}

// Difference is one field of a stream's configuration that differs from the
// wanted one.
type Difference struct {
	Field      string
	Have, Want any
}

// TopologyError is returned if a stream exists with a configuration that breaks
// the promise. Nothing was changed.
type TopologyError struct {
	Stream      string
	Differences []Difference
}

// Error lists the fields that differ.
func (e *TopologyError) Error() string {
	return fmt.Sprintf("stream %s is not as orderpost needs it (%s); nothing was changed. "+
		"Use other names (ORDERPOST_STREAM_PREFIX, ORDERPOST_SUBJECT_PREFIX), or change the stream's configuration",
		e.Stream, strings.Join(describe(e.Differences), "; "))
}

func describe(diffs []Difference) []string {
	out := make([]string, len(diffs))
	for i, d := range diffs {
		out[i] = fmt.Sprintf("%s is %v, wanted %v", d.Field, d.Have, d.Want)
	}
	return out
}

// compareStream returns the differences that would break the promise, and those
// that may be changed on a stream in use.
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
	if want.MaxMsgSize <= 0 { // otherwise any limit is fine: the operator may set a lower one
		check(&unsafe, "max_msg_size", have.MaxMsgSize, want.MaxMsgSize)
	} else if have.MaxMsgSize <= 0 {
		check(&safe, sizeField, have.MaxMsgSize, want.MaxMsgSize)
	}
	check(&unsafe, "no_ack", have.NoAck, want.NoAck)
	check(&unsafe, "sealed", have.Sealed, want.Sealed)
	check(&unsafe, "deny_delete", have.DenyDelete, want.DenyDelete)
	check(&unsafe, "mirror", have.Mirror != nil, want.Mirror != nil)
	check(&unsafe, "allow_direct", have.AllowDirect, want.AllowDirect)
	check(&unsafe, "allow_atomic", have.AllowAtomicPublish, want.AllowAtomicPublish)
	check(&unsafe, "allow_msg_ttl", have.AllowMsgTTL, want.AllowMsgTTL)
	if have.Metadata[roomKey] == "" {
		check(&safe, "max_msgs", have.MaxMsgs, want.MaxMsgs)
		check(&safe, "max_bytes", have.MaxBytes, want.MaxBytes)
	}
	if want.Replicas > have.Replicas { // a worker's default must not remove replicas
		check(&safe, "num_replicas", have.Replicas, want.Replicas)
	}
	if have.Metadata[versionKey] != want.Metadata[versionKey] {
		safe = append(safe, Difference{versionKey, have.Metadata[versionKey], want.Metadata[versionKey]})
	}
	if want.DenyPurge { // JetStream cannot unset it on an existing stream
		check(&safe, "deny_purge", have.DenyPurge, want.DenyPurge)
	}
	check(&unsafe, "allow_rollup_hdrs", have.AllowRollup, want.AllowRollup)
	check(&safe, "description", have.Description, want.Description)
	check(&safe, "duplicate_window", have.Duplicates, want.Duplicates)
	return unsafe, safe
}
