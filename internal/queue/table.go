package queue

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// Part is one of the things at the broker that orderpost works with. Its values
// are label values of a metric.
type Part string

// The parts.
const (
	PartIntents  Part = "intents"
	PartResults  Part = "results"
	PartLetters  Part = "dead_letters"
	PartFleet    Part = "fleet"
	PartWaiting  Part = "waiting"
	PartJournal  Part = "journal"
	PartConsumer Part = "consumer"
)

// streamSpec is a row of the table of streams.
type streamSpec struct {
	part   Part
	config jetstream.StreamConfig
	// precious says that nobody can make the content again. If the stream is lost, a person
	// must restore it or accept the loss. Workers create other streams again.
	precious bool
}

// title returns the name for people.
func (s streamSpec) title() string {
	if s.part == PartFleet {
		return "bucket " + strings.TrimPrefix(s.config.Name, bucketPrefix)
	}
	return "stream " + s.config.Name
}

// streams is the table of the streams that an installation has. One loop creates, checks
// and aligns them (ensureStreams).
func (c Config) streams() []streamSpec {
	n := c.names()
	base := jetstream.StreamConfig{
		Storage: jetstream.FileStorage, Replicas: c.Replicas, Discard: jetstream.DiscardNew,
		Duplicates: 2 * time.Minute,
		MaxMsgs:    -1, MaxBytes: -1, AllowDirect: true, AllowAtomicPublish: true,
		MaxMsgsPerSubject: 1, MaxMsgSize: -1,
	}
	intents, results, dead, waiting, journal, bucket := base, base, base, base, base, base

	intents.Name, intents.Description = n.intents, "orderpost: order intents"
	intents.Subjects = []string{n.newPre + "*"}
	intents.DiscardNewPerSubject = true // what is settled leaves in groups (R14), since each removal is an fsync
	intents.MaxMsgs, intents.MaxBytes, intents.MaxMsgSize = c.MaxIntents, c.MaxBytes, settle.MaxIntentSize

	results.Name, results.Description = n.results, "orderpost: last word on each order_no"
	results.Subjects = []string{n.resPre + "*"}

	dead.Name, dead.Description = n.dead, "orderpost: dead letters"
	dead.Subjects = []string{n.deadPre + "*"}
	dead.MaxMsgsPerSubject = -1 // the record says which of them count (R4)

	// The subjects of the waiting room name lane and import, but no order. So the broker
	// counts what waits by lane and import without looking at messages, and a million
	// waiting orders take no memory for subjects. What was moved leaves in groups, by
	// purges (R13).
	waiting.Name, waiting.Description = n.waiting, "orderpost: intents that wait for their turn or their time"
	waiting.Subjects = []string{n.waitPre + "*.*", n.waitPre + "at.*.*.*.*.*"}
	waiting.MaxMsgsPerSubject = -1
	waiting.MaxMsgSize = settle.MaxIntentSize - waitingReserve

	// Each entry of the journal has a subject of its own, so that a repeated write stores
	// nothing twice and no entry takes the place of another.
	journal.Name, journal.Description = n.journal, "orderpost: who did what"
	journal.Subjects = []string{n.journalPre + ">"}
	journal.DiscardNewPerSubject = true
	journal.DenyDelete, journal.DenyPurge = true, true
	journal.MaxMsgSize = MaxJournalEntry

	// The bucket is a key-value bucket for its clients. It refuses roll-ups: one message
	// with the header Nats-Rollup would delete every key, the fleet's hold included, and
	// whoever may write a single key could send it.
	bucket.Name, bucket.Description = bucketPrefix+n.bucket, "orderpost: fleet control"
	bucket.Subjects = []string{"$KV." + n.bucket + ".>"}
	bucket.AllowAtomicPublish = false
	bucket.DenyDelete = true
	bucket.MaxMsgSize = maxValue

	return []streamSpec{
		{PartIntents, intents, true},
		{PartResults, results, true},
		{PartLetters, dead, true},
		{PartWaiting, waiting, true},
		{PartJournal, journal, false}, // orders go on without it
		{PartFleet, bucket, true},
	}
}

// StreamNames returns the names of the streams that a worker creates, with that of
// the bucket.
func (c Config) StreamNames() (names []string) {
	for _, s := range c.streams() {
		names = append(names, s.config.Name)
	}
	return names
}

// wanted is the configuration that a stream is compared with: a person may bound the journal.
func (s streamSpec) wanted(have jetstream.StreamConfig) jetstream.StreamConfig {
	want := s.config
	if s.part == PartJournal {
		want.MaxAge, want.MaxMsgs, want.MaxBytes = have.MaxAge, have.MaxMsgs, have.MaxBytes
		if have.MaxAge > 0 { // JetStream refuses a longer window
			want.Duplicates = min(want.Duplicates, have.MaxAge)
		}
	}
	return want
}

// kept is wanted for a worker that runs: the limits of the intents and the number of replicas are
// those of the worker that started last.
func (s streamSpec) kept(have jetstream.StreamConfig) jetstream.StreamConfig {
	want := s.wanted(have)
	want.Description, want.Replicas = have.Description, have.Replicas
	if s.part == PartIntents {
		want.MaxMsgs, want.MaxBytes = have.MaxMsgs, have.MaxBytes
	}
	return want
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
	return fmt.Sprintf("stream %s is not as orderpost needs it (%s); nothing was changed. Use other names (ORDERPOST_PREFIX). Or: %s",
		e.Stream, strings.Join(describe(e.Differences), "; "), editAdvice(e.Stream, e.Differences))
}

// editAdvice says how a person sets a stream back. JetStream refuses to unset some fields.
func editAdvice(stream string, diffs []Difference) string {
	for _, d := range diffs {
		if slices.Contains([]string{"sealed", "deny_delete", "deny_purge", "storage"}, d.Field) && d.Want != true {
			return "The server cannot change that on an existing stream: back up " + stream + ", delete it, and restore it with another configuration; see OrderpostStreamsMissing in docs/runbook.md"
		}
	}
	return "Set that back: nats stream edit " + stream
}

func describe(diffs []Difference) []string {
	out := make([]string, len(diffs))
	for i, d := range diffs {
		out[i] = fmt.Sprintf("%s is %v, wanted %v", d.Field, d.Have, d.Want)
	}
	return out
}

// differences compares fields of two configurations, by their names in JSON.
func differences[C any](have, want C, names ...string) (diffs []Difference) {
	for _, name := range names {
		h, w := fieldOf(&have, name).Interface(), fieldOf(&want, name).Interface()
		if fmt.Sprint(h) != fmt.Sprint(w) {
			diffs = append(diffs, Difference{name, h, w})
		}
	}
	return diffs
}

// adopt sets fields that differ to what they are wanted to be.
func adopt[C any](have *C, want C, diffs []Difference) {
	for _, d := range diffs {
		fieldOf(have, d.Field).Set(fieldOf(&want, d.Field))
	}
}

// fieldOf returns the field of a configuration that has a name in JSON.
func fieldOf(config any, name string) reflect.Value {
	v := reflect.ValueOf(config).Elem()
	for i := range v.NumField() {
		if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag == name {
			return v.Field(i)
		}
	}
	panic(fmt.Sprintf("%T has no field %s", config, name))
}

// compareStream returns the differences that would break the promise, and those
// that may be changed on a stream in use.
func compareStream(have, want jetstream.StreamConfig) (unsafe, safe []Difference) {
	unsafe = differences(have, want, "subjects", "retention", "storage", "discard", "discard_new_per_subject", "max_msgs_per_subject", "max_age",
		"no_ack", "sealed", "deny_delete", "allow_direct", "allow_atomic")
	safe = differences(have, want, "subject_delete_marker_ttl", "consumer_limits", "allow_rollup_hdrs", "description", "duplicate_window")
	add := func(list *[]Difference, names ...string) { *list = append(*list, differences(have, want, names...)...) }
	if want.MaxMsgSize <= 0 { // otherwise any limit is fine: the operator may set a lower one
		add(&unsafe, "max_msg_size")
	} else if have.MaxMsgSize <= 0 || have.MaxMsgSize < want.MaxMsgSize && strings.HasPrefix(want.Name, bucketPrefix) {
		add(&safe, "max_msg_size")
	}
	none := func(name string, has bool) {
		if has {
			unsafe = append(unsafe, Difference{name, true, false})
		}
	}
	none("mirror", have.Mirror != nil)
	none("sources", len(have.Sources) > 0) // what another stream brings is stored on no condition (R1)
	none("subject_transform", have.SubjectTransform != nil)
	if have.Metadata[roomKey] == "" {
		add(&safe, "max_msgs", "max_bytes")
	}
	if want.Replicas > have.Replicas { // a worker's default must not remove replicas
		add(&safe, "num_replicas")
	}
	if want.DenyPurge { // JetStream cannot unset it on an existing stream
		add(&safe, "deny_purge")
	} else if !want.DenyDelete { // what is deleted in groups is purged
		add(&unsafe, "deny_purge")
	}
	return unsafe, safe
}

// roomKey in the intents stream's metadata says that a worker adapts the limits
// of that stream to the free space on the embedded broker's disk. Other
// programs do not change them.
const roomKey = "orderpost.room"

// madeKey in a stream's metadata says by which request it was created, and bornKey when. The
// metadata is part of a backup. The server's own time of creation is not: a stream that is
// restored is created at that moment (nats-server 2.15).
const (
	madeKey = "orderpost.made"
	bornKey = "orderpost.born"
)

// bornAt tells a stream from another one of its name, also after it was restored from a backup.
func bornAt(info *jetstream.StreamInfo) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, info.Config.Metadata[bornKey]); err == nil {
		return at
	}
	return info.Created
}

// MaxJournalEntry is the largest entry of the journal, in bytes with its subject. A page of the journal
// reads hundreds of entries at once.
const MaxJournalEntry = 64 << 10

// Missing says what Open does about streams that the broker does not have.
type Missing uint8

const (
	// MakeMissing creates the streams on a broker that has none of them. It is
	// for workers and for whoever sets up a broker. If only some are missing
	// and the others hold messages, only a person can tell what was lost, and
	// Open returns *MissingError.
	MakeMissing Missing = iota
	// RefuseMissing makes Open return *MissingError. It is for programs that
	// use the streams and must not trust a broker that no worker has used.
	RefuseMissing
	// LeaveMissing opens whatever exists. It is for programs that only look.
	LeaveMissing
)

// MissingError says that streams are missing. Nothing was created.
type MissingError struct {
	// Broker is the address of the broker, without secrets.
	Broker string
	// Parts names what is missing, such as "stream ORDERS".
	Parts []string
	// Fresh says that the broker has none of the streams.
	Fresh bool
}

// Error says what is missing and what to do about it.
func (e *MissingError) Error() string {
	if e.Fresh {
		return fmt.Sprintf("no %s at %s: no worker has worked with this broker yet, or it has lost all its streams. "+
			"Start a worker first (orderpost worker), which creates them, or correct ORDERPOST_NATS_URL or ORDERPOST_PREFIX", e.Parts[0], e.Broker)
	}
	return fmt.Sprintf("%s at %s, although other streams of this installation are there. %s", DescribeMissing(e.Parts), e.Broker, MissingAdvice)
}

// MissingAdvice tells a person what to do about missing streams.
const MissingAdvice = "Restore what is missing from a backup (orderpost restore FILE --missing), or accept that what it held is lost: orderpost worker repair; " +
	"see OrderpostStreamsMissing in docs/runbook.md"

// DescribeMissing returns a sentence that names the missing parts.
func DescribeMissing(parts []string) string {
	last := len(parts) - 1
	if last == 0 {
		return parts[0] + " is missing"
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last] + " are missing"
}
