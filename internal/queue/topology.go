package queue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// Topology makes and checks the streams of an installation, and the workers' consumer.
type Topology struct {
	conn   *Conn
	reader *reader
	bucket *Bucket
	made   []string // the streams that Open created
}

// wrapStream adds the stream's name to an error.
func wrapStream(name, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("stream %s %s: %w", name, what, err)
}

// changeTimeout bounds one request that creates or changes a stream. A cluster that is
// busy takes longer for it than for an answer.
const changeTimeout = 4 * requestTimeout

// ensurePause is the time between two looks for what another program is about to make.
const ensurePause = 100 * time.Millisecond

// info asks once for a stream's configuration and state, with a timeout of its own: the client
// would wait for a lost answer as long as ctx lasts.
func (cn *Conn) info(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := cn.link.bound(ctx)
	defer cancel()
	stream, err := cn.js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return stream.CachedInfo(), nil
}

// Made returns the names of the streams that Open created.
func (tp *Topology) Made() []string { return tp.made }

// minPayload is the smallest max_payload of a broker that can store dead
// letters.
const minPayload = 4 * settle.LetterReserve

// createTries is how often a stream is created at most whose folder the server cannot make.
const createTries = 3

// streamsSoon is how long a program waits for streams that a starting worker may be about
// to create.
const streamsSoon = 2 * time.Second

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
		ackWait, err = patiently(ctx, tp.conn, tp.ensureSoon)
		return err
	})
	return ackWait, err
}

// ensureSoon is ensureTopology for a cluster that has no leader yet, or another one soon, and for a
// connection that breaks meanwhile, because its server is being replaced. A
// program that waits for its broker by itself is told at once.
func (tp *Topology) ensureSoon(ctx context.Context) (ackWait time.Duration, err error) {
	for began := time.Now(); ; {
		ackWait, err = tp.ensureTopology(ctx)
		switch {
		case tp.conn.patient() || !busy(err) && !lost(err) && !tp.conn.broke(err) || ctx.Err() != nil:
			return ackWait, err
		case lost(err) || time.Since(began) >= tp.conn.cfg.ConnectTimeout: // ensureTopology has repeated what was lost
			return 0, fmt.Errorf("%w: JetStream at %s is not ready after %s: %w; a cluster needs more than half of its servers",
				ErrUnreachable, tp.conn.broker(), time.Since(began).Round(time.Second), err)
		case settle.Sleep(ctx, ensurePause) != nil:
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
		_ = settle.Sleep(brief, ensurePause)
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

// ensureStreams checks every stream before it creates the missing ones, and opens the
// bucket.
func (tp *Topology) ensureStreams(ctx context.Context) error {
	var missing []streamSpec
	used := false
	for _, want := range tp.conn.cfg.streams() {
		tp.reader.saw(want.config.Replicas)
		have, err := tp.conn.info(ctx, want.config.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			missing = append(missing, want)
			continue
		case err != nil:
			return wrapStream(want.config.Name, "cannot be read", err)
		}
		if err := tp.checkStream(ctx, have.Config, want); err != nil {
			return err
		}
		used = used || want.precious && have.State.LastSeq > 0
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

// makeStreams creates streams.
func (tp *Topology) makeStreams(ctx context.Context, missing []streamSpec) error {
	for _, want := range missing {
		name := want.config.Name
		err := tp.storedElsewhere(ctx, name)
		if err == nil {
			err = tp.createStream(ctx, want.config)
		}
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another program created it meanwhile
			var have *jetstream.StreamInfo
			if have, err = tp.awaitStream(ctx, name); err == nil {
				err = tp.checkStream(ctx, have.Config, want)
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

// storedElsewhere returns an error if the stream of intents is to be made, and another JetStream has
// one that takes the same subjects. Behind a leaf node each would store what is sent to the other, and
// the workers of both would post each order. It asks with a message that no stream stores.
func (tp *Topology) storedElsewhere(ctx context.Context, name string) error {
	if name != tp.conn.n.intents {
		return nil
	}
	probe := nats.NewMsg(tp.conn.n.newPre + "probe")
	probe.Header.Set(nats.ExpectedStreamHdr, "none")
	brief, cancel := tp.conn.link.within(ctx, streamsSoon)
	defer cancel()
	answer, err := tp.conn.nc.RequestMsgWithContext(brief, probe)
	var taken struct{ Stream string }
	if err != nil || json.Unmarshal(answer.Data, &taken) != nil || taken.Stream == "" {
		return nil // nobody hears it, or not a stream
	}
	if _, err := tp.conn.info(ctx, name); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return jetstream.ErrStreamNameAlreadyInUse // another program made it meanwhile
	}
	return fmt.Errorf("another JetStream stores what is sent to %s* (its stream %s), probably beyond a leaf node: each order would be posted twice. "+
		"Connect to that one, or give this one another account or ORDERPOST_PREFIX; see \"May programs connect to a leaf node?\" in docs/operations.md", tp.conn.n.newPre, taken.Stream)
}

// awaitStream finds a stream that another program is creating.
func (tp *Topology) awaitStream(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := tp.conn.link.within(ctx, changeTimeout)
	defer cancel()
	for {
		have, err := tp.conn.info(ctx, name)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return have, err
		}
		if settle.Sleep(ctx, ensurePause) != nil {
			return nil, err
		}
	}
}

// createStream creates a stream. Two workers that start at once both do, and each request
// differs from the other, so that the second is refused. Servers before 2.12.15 and 2.14.5 take
// an equal one as well: after its next restart, a server of a cluster then tells another time of
// creation (nats-server #8449), by which workers would take the stream for another one.
//
// A server that has deleted its last stream, or has failed to make the first one, removes their
// folder after it has answered, and so may take that of a stream which is made meanwhile
// (nats-server 2.15, stream.stop). createStream then asks again, as it does while a server of the cluster is away for a moment.
func (tp *Topology) createStream(ctx context.Context, want jetstream.StreamConfig) error {
	ctx, cancel := tp.conn.link.within(ctx, changeTimeout)
	defer cancel()
	want.Metadata = map[string]string{madeKey: rand.Text(), bornKey: time.Now().UTC().Format(time.RFC3339Nano)}
	for try := 1; ; try++ {
		_, err := tp.conn.js.CreateStream(ctx, want)
		var api *jetstream.APIError
		again := errors.As(err, &api) && (api.ErrorCode == codeStreamCreate && try < createTries || api.ErrorCode == codeNoPeers && strings.Contains(api.Description, textPeerOffline))
		if !again || settle.Sleep(ctx, ensurePause) != nil {
			return err
		}
	}
}

// openBucket opens the bucket. Without one, q.bucket.kv stays nil (LeaveMissing).
func (tp *Topology) openBucket(ctx context.Context) (err error) {
	ctx, cancel := tp.conn.link.bound(ctx)
	defer cancel()
	tp.bucket.kv, err = tp.conn.js.KeyValue(ctx, tp.conn.n.bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) && tp.conn.cfg.Missing == LeaveMissing {
		tp.bucket.kv = nil
		return nil
	}
	return tp.bucket.wrap(err)
}

// checkStream compares a stream with its wanted configuration. A worker updates
// the stream's limits to its own settings. How long the journal keeps entries is for the
// operator to say.
func (tp *Topology) checkStream(ctx context.Context, have jetstream.StreamConfig, spec streamSpec) error {
	want := spec.wanted(have)
	tp.reader.saw(have.Replicas)
	unsafe, safe := compareStream(have, want)
	if len(unsafe) > 0 {
		return &TopologyError{Stream: want.Name, Differences: unsafe}
	}
	if len(safe) == 0 || !tp.conn.cfg.Worker {
		return nil
	}
	return tp.updateStream(ctx, have, want, safe)
}

// updateStream changes an existing stream where that is safe.
func (tp *Topology) updateStream(ctx context.Context, have, want jetstream.StreamConfig, safe []Difference) error {
	tp.conn.log.Info().Str("stream", want.Name).Strs("changes", describe(safe)).Msg("updating stream")
	adopt(&have, want, safe)
	ctx, cancel := tp.conn.link.within(ctx, changeTimeout)
	defer cancel()
	now, err := tp.conn.js.UpdateStream(ctx, have)
	if err == nil {
		_, left := compareStream(now.CachedInfo().Config, want)
		err = stays(left)
	}
	return wrapStream(want.Name, "cannot be updated", err)
}
