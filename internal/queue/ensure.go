package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

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
			"Start a worker first (cmd/worker), which creates them, or correct ORDERPOST_NATS_URL or ORDERPOST_PREFIX", e.Parts[0], e.Broker)
	}
	return fmt.Sprintf("%s at %s, although other streams of this installation are there. %s", DescribeMissing(e.Parts), e.Broker, MissingAdvice)
}

// MissingAdvice tells a person what to do about missing streams.
const MissingAdvice = "Restore what is missing from a backup (nats stream restore), or accept that what it held is lost: worker repair; " +
	"see OrderpostStreamsMissing in docs/runbook.md"

// DescribeMissing returns a sentence that names the missing parts.
func DescribeMissing(parts []string) string {
	text, verb := parts[0], "is"
	for i, p := range parts[1:] {
		verb = "are"
		if i == len(parts)-2 {
			text += " and " + p
		} else {
			text += ", " + p
		}
	}
	return text + " " + verb + " missing"
}

const (
	// streamsSoon is how long a program waits for streams that a starting
	// worker may be about to create.
	streamsSoon = 2 * time.Second
	ensurePause = 100 * time.Millisecond
)

// Topology makes and checks the streams of an installation, and the workers' consumer.
type Topology struct {
	conn   *Conn
	reader *reader
	bucket *Bucket
	made   []string // the streams that Open created
}

// minPayload is the smallest max_payload of a broker that can store dead
// letters.
const minPayload = 4 * settle.LetterReserve

// prepare makes sure of the streams and returns the AckWait that claims rely
// on.
func (tp *Topology) prepare(ctx context.Context) (ackWait time.Duration, err error) {
	if why := tp.conn.Refused(); why != "" {
		return 0, errors.New(why)
	}
	tp.conn.judgeBroker()
	if have := tp.conn.nc.MaxPayload(); have < minPayload {
		return 0, fmt.Errorf("broker at %s accepts messages of at most %d bytes (max_payload); orderpost needs %d", RedactURL(tp.conn.cfg.URL), have, minPayload)
	}
	err = tp.conn.UnlessRefused(ctx, func(ctx context.Context) error {
		return tp.conn.patiently(ctx, func(ctx context.Context) error {
			ackWait, err = tp.ensureSoon(ctx)
			return err
		})
	})
	return ackWait, err
}

// ensureSoon is ensureTopology for a cluster that has no leader yet, or another one soon. A
// program that waits for its broker by itself is told at once.
func (tp *Topology) ensureSoon(ctx context.Context) (ackWait time.Duration, err error) {
	for began := time.Now(); ; {
		ackWait, err = tp.ensureTopology(ctx)
		switch {
		case tp.conn.patient() || !busy(err) && !lost(err) || ctx.Err() != nil:
			return ackWait, err
		case lost(err) || time.Since(began) >= tp.conn.cfg.ConnectTimeout: // ensureTopology has repeated what was lost
			return 0, fmt.Errorf("%w: JetStream at %s is not ready after %s: %w; a cluster needs more than half of its servers",
				ErrUnreachable, tp.conn.broker(), time.Since(began).Round(time.Second), err)
		case pause(ctx, ensurePause) != nil:
			return 0, err
		}
	}
}

// ensureTopology creates what is missing and may be created, and checks what
// exists. It returns the AckWait that claims rely on.
func (tp *Topology) ensureTopology(ctx context.Context) (ackWait time.Duration, err error) {
	brief, cancel := tp.conn.link.within(ctx, tp.conn.cfg.ConnectTimeout+requestTimeout)
	defer cancel()
	soon := time.Now().Add(min(streamsSoon, tp.conn.cfg.ConnectTimeout))
	for {
		err = tp.ensureStreams(brief)
		var missing *MissingError
		appears := tp.conn.cfg.Missing == RefuseMissing && errors.As(err, &missing) && time.Now().Before(soon)
		if !appears && !lost(err) || brief.Err() != nil {
			break
		}
		_ = pause(brief, ensurePause)
	}
	if err != nil {
		return 0, err
	}
	cancel()
	ackWait, err = tp.ensureConsumer(ctx)
	if err != nil {
		return 0, fmt.Errorf("consumer %s of stream %s: %w", tp.conn.n.consumer, tp.conn.n.intents, err)
	}
	return ackWait, nil
}

// lost reports whether a request of ensureTopology got no answer. A cluster that has no
// leader yet drops requests, and answers the next ones.
func lost(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// findStream asks once for a stream, with a timeout of its own: the client would wait for
// a lost answer as long as ctx lasts.
func (tp *Topology) findStream(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := tp.conn.link.bound(ctx)
	defer cancel()
	return tp.conn.js.Stream(ctx, name)
}

// changeTimeout bounds one request that creates or changes a stream. A cluster that is
// busy takes longer for it than for an answer.
const changeTimeout = 4 * requestTimeout

// ensureStreams checks every stream before it creates the missing ones, and opens the
// bucket.
func (tp *Topology) ensureStreams(ctx context.Context) error {
	var missing []streamSpec
	used := false
	for _, want := range tp.conn.cfg.streams() {
		tp.reader.replicas.atLeast(want.config.Replicas)
		stream, err := tp.findStream(ctx, want.config.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			missing = append(missing, want)
			continue
		case err != nil:
			return wrapStream(want.config.Name, "cannot be read", err)
		}
		if err := tp.checkStream(ctx, stream, want); err != nil {
			return err
		}
		used = used || want.precious && stream.CachedInfo().State.LastSeq > 0
	}
	if err := tp.supply(ctx, missing, used); err != nil {
		return err
	}
	return tp.openBucket(ctx)
}

// supply creates missing streams, or returns *MissingError if this program may not. used
// says that other streams hold or held messages.
func (tp *Topology) supply(ctx context.Context, missing []streamSpec, used bool) error {
	var refused []string
	for _, m := range missing {
		if m.precious && (tp.conn.cfg.Missing == RefuseMissing || tp.conn.cfg.Missing == MakeMissing && used) {
			refused = append(refused, m.title())
		}
	}
	switch {
	case len(refused) > 0:
		return &MissingError{Broker: tp.conn.address(), Parts: refused, Fresh: len(missing) == len(tp.conn.cfg.streams())}
	case tp.conn.cfg.Missing != MakeMissing:
		return nil
	}
	return tp.makeStreams(ctx, missing)
}

// Made returns the names of the streams that Open created.
func (tp *Topology) Made() []string { return tp.made }

// makeStreams creates streams.
func (tp *Topology) makeStreams(ctx context.Context, missing []streamSpec) error {
	for _, want := range missing {
		name := want.config.Name
		err := tp.createStream(ctx, want.config)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another program created it meanwhile
			var stream jetstream.Stream
			if stream, err = tp.awaitStream(ctx, name); err == nil {
				err = tp.checkStream(ctx, stream, want)
			}
		}
		if err != nil {
			return wrapStream(name, "cannot be made", err)
		}
		tp.made = append(tp.made, name)
		tp.conn.log.Debug().Str("stream", name).Msg("made the stream")
	}
	return nil
}

// awaitStream finds a stream that another program is creating.
func (tp *Topology) awaitStream(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := tp.conn.link.within(ctx, changeTimeout)
	defer cancel()
	for {
		stream, err := tp.findStream(ctx, name)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return stream, err
		}
		if pause(ctx, ensurePause) != nil {
			return nil, err
		}
	}
}

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

// createStream creates a stream. Two workers that start at once both do, and each request
// differs from the other, so that the second is refused. Servers before 2.12.15 and 2.14.5 take
// an equal one as well: after its next restart, a server of a cluster then tells another time of
// creation (nats-server #8449), by which workers would take the stream for another one.
func (tp *Topology) createStream(ctx context.Context, want jetstream.StreamConfig) error {
	ctx, cancel := tp.conn.link.within(ctx, changeTimeout)
	defer cancel()
	want.Metadata = map[string]string{madeKey: rand.Text(), bornKey: time.Now().UTC().Format(time.RFC3339Nano)}
	_, err := tp.conn.js.CreateStream(ctx, want)
	return err
}

// openBucket opens the bucket. Without one, q.bucket.kv stays nil (LeaveMissing).
func (tp *Topology) openBucket(ctx context.Context) (err error) {
	tp.bucket.kv, err = tp.findBucket(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) && tp.conn.cfg.Missing == LeaveMissing {
		tp.bucket.kv = nil
		return nil
	}
	return tp.bucket.wrap(err)
}

func (tp *Topology) findBucket(ctx context.Context) (jetstream.KeyValue, error) {
	ctx, cancel := tp.conn.link.bound(ctx)
	defer cancel()
	return tp.conn.js.KeyValue(ctx, tp.conn.n.bucket)
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
			if text := unusableConsumer(have.CachedInfo().Config); text != "" && tp.conn.cfg.Worker {
				return 0, fmt.Errorf("%s; nothing was changed. Delete it while no worker runs, then start one: workers create it again", text)
			}
			return tp.alignConsumer(ctx, have.CachedInfo().Config)
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
			return tp.conn.cfg.AckWait, tp.makeConsumer(ctx)
		}
		if !told {
			tp.conn.log.Warn().Str("consumer", tp.conn.n.consumer).Str("present", other).Msg("the consumer is missing; waiting for the running worker to create it again")
			told = true
		}
		if err := pause(ctx, time.Second); err != nil {
			return 0, err
		}
	}
}

// unusableConsumer says why a consumer does not hand out every intent until it is
// acknowledged; "" = it does. A damaged disk or a person may have changed it.
func unusableConsumer(have jetstream.ConsumerConfig) string {
	switch {
	case have.DeliverPolicy != jetstream.DeliverAllPolicy:
		return fmt.Sprintf("its deliver policy is %v, wanted %v", have.DeliverPolicy, jetstream.DeliverAllPolicy)
	case have.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Sprintf("its ack policy is %v, wanted %v", have.AckPolicy, jetstream.AckExplicitPolicy)
	case have.FilterSubject != "" || len(have.FilterSubjects) > 0:
		return fmt.Sprintf("it has the filter %s, wanted none", strings.Join(append(have.FilterSubjects, have.FilterSubject), " "))
	}
	return ""
}

// readConsumer asks once for the workers' consumer.
func (tp *Topology) readConsumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := tp.conn.link.bound(ctx)
	defer cancel()
	return tp.conn.js.Consumer(ctx, tp.conn.n.intents, tp.conn.n.consumer)
}

// makeConsumer creates the workers' consumer, or updates it to this program's
// settings.
func (tp *Topology) makeConsumer(ctx context.Context) error {
	return tp.putConsumer(ctx, tp.consumerConfig(), tp.conn.js.CreateOrUpdateConsumer)
}

// putConsumer creates the workers' consumer by put. A server that has just deleted the
// former one may still write its state, and then cannot write the new one's, because both
// have the same file (nats-server 2.15). So putConsumer tries again for a moment. It does so
// for longer while the cluster gives the stream the replicas that the consumer is to have.
func (tp *Topology) putConsumer(ctx context.Context, want jetstream.ConsumerConfig, put func(context.Context, string, jetstream.ConsumerConfig) (jetstream.Consumer, error)) error {
	began := time.Now()
	for tries := 1; ; tries++ {
		err := func() error {
			ctx, cancel := tp.conn.link.bound(ctx)
			defer cancel()
			_, err := put(ctx, tp.conn.n.intents, want)
			return err
		}()
		var refused *jetstream.APIError
		if !errors.As(err, &refused) {
			return err
		}
		again := refused.ErrorCode == jetstream.JSErrCodeConsumerCreate && tries < 3 ||
			refused.ErrorCode == codeReplicasExceedStream && time.Since(began) < tp.conn.cfg.ConnectTimeout
		if !again {
			return err
		}
		if err := pause(ctx, againPause); err != nil {
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
	same := have.AckWait == want.AckWait && have.MaxAckPending == want.MaxAckPending && have.Replicas == want.Replicas &&
		!givesAway(have) && !have.HeadersOnly
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

// givesAway reports whether a consumer gives up an intent after some deliveries, or delivers it
// again before AckWait is over, on which claims rely (R7).
func givesAway(have jetstream.ConsumerConfig) bool {
	return have.MaxDeliver != -1 || len(have.BackOff) > 0
}

// KeepConsumer sets back what a person changed of the workers' consumer so that it gives away
// intents (max_deliver, backoff). Workers run, so it leaves the rest, AckWait included.
func (tp *Topology) KeepConsumer(ctx context.Context) error {
	c, err := tp.readConsumer(ctx)
	if err != nil {
		return err
	}
	want := c.CachedInfo().Config
	want.MaxDeliver, want.BackOff = -1, nil
	return tp.putConsumer(ctx, want, tp.conn.js.UpdateConsumer)
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
		if err := pause(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
}

// otherWorkers returns the names of the other workers that are present.
func (tp *Topology) otherWorkers(ctx context.Context) ([]string, error) {
	if tp.conn.cfg.Present == nil {
		return nil, nil
	}
	all, err := tp.conn.cfg.Present(ctx, tp.bucket)
	return slices.DeleteFunc(all, func(name string) bool { return name == tp.conn.cfg.Name }), err
}

// otherWorker returns the name of one of them; "" = none is present. It asks
// again while no server answers reads: a bucket with replicas that was just
// created has no leader yet.
func (tp *Topology) otherWorker(ctx context.Context) (string, error) {
	until := time.Now().Add(tp.conn.cfg.ConnectTimeout)
	others, err := tp.otherWorkers(ctx)
	for errors.Is(err, nats.ErrNoResponders) && time.Now().Before(until) && pause(ctx, ensurePause) == nil {
		others, err = tp.otherWorkers(ctx)
	}
	if len(others) == 0 {
		return "", err
	}
	return others[0], err
}
