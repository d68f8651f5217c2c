package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// PartState says whether the broker has a part.
type PartState struct {
	Part Part
	// Name is the part's name for people, such as "stream ORDERS".
	Name string
	// Created is when the broker created it; zero if it is missing.
	Created time.Time
	// AckWait is how long the consumer waits for a silent worker; 0 for other parts.
	AckWait time.Duration
	// Wrong says how somebody changed the part so that it may lose or pass over orders, and what
	// to do; "" = nobody did.
	Wrong string
	// Edited says how somebody changed the part in a way that workers set back ([Topology.SetBack]);
	// "" = nobody did.
	Edited string

	precious bool
}

// Missing reports whether the broker does not have the part.
func (s PartState) Missing() bool { return s.Created.IsZero() }

// Precious reports whether the part's content cannot be restored. Only a person
// may decide what happens to such a part.
func (s PartState) Precious() bool { return s.precious }

// Inspect returns the state of every part: the streams, the bucket and the consumer. It
// creates nothing. An error means that the broker did not answer.
func (tp *Topology) Inspect(ctx context.Context) (states []PartState, err error) {
	for _, spec := range tp.conn.cfg.streams() {
		state := PartState{Part: spec.part, Name: spec.title(), precious: spec.precious}
		stream, err := tp.reader.stream(ctx, spec.config.Name)
		switch {
		case err == nil:
			info := stream.CachedInfo()
			state.Created = info.Created
			if unsafe, _ := compareStream(info.Config, spec.wanted(info.Config)); len(unsafe) > 0 && spec.part != PartJournal {
				state.Wrong = strings.Join(describe(unsafe), "; ") + ". " + editAdvice(info.Config.Name, unsafe)
			}
			_, safe := compareStream(info.Config, spec.kept(info.Config))
			state.Edited = strings.Join(describe(safe), "; ")
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, err
		}
		states = append(states, state)
	}
	workers := PartState{Part: PartConsumer, Name: "consumer " + tp.conn.n.consumer + " of stream " + tp.conn.n.intents}
	c, err := tp.workersConsumer(ctx)
	switch {
	case err == nil:
		info := c.CachedInfo()
		workers.Created, workers.AckWait = info.Created, info.Config.AckWait
		workers.Edited = strings.Join(describe(compareConsumer(info.Config, tp.consumerConfig())), "; ")
		if workers.Wrong = unusableConsumer(info.Config); workers.Wrong != "" {
			workers.Wrong += ". " + tp.deleteAdvice()
		} else if info.Paused {
			workers.Wrong = fmt.Sprintf("somebody paused it%s. Let it go on: nats consumer resume %s %s", until(info.Config.PauseUntil), tp.conn.n.intents, tp.conn.n.consumer)
		}
	case errors.Is(err, jetstream.ErrNotPullConsumer): // the client tells no more
		workers.Created, workers.AckWait = time.Unix(0, 0), tp.conn.cfg.AckWait
		workers.Wrong = "it is a push consumer, wanted a pull consumer. " + tp.deleteAdvice()
	case !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, err
	}
	return append(states, workers), nil
}

func (tp *Topology) deleteAdvice() string {
	return fmt.Sprintf("Delete it (nats consumer rm %s %s): the workers create it again", tp.conn.n.intents, tp.conn.n.consumer)
}

func until(at *time.Time) string {
	if at == nil {
		return ""
	}
	return " until " + at.UTC().Format(time.RFC3339)
}

// SetBack sets back what Inspect found edited in a part. The error says what stays as it is,
// and why.
func (tp *Topology) SetBack(ctx context.Context, part Part) error {
	if part == PartConsumer {
		return tp.setBackConsumer(ctx)
	}
	for _, spec := range tp.conn.cfg.streams() {
		if spec.part != part {
			continue
		}
		stream, err := tp.findStream(ctx, spec.config.Name)
		if err != nil {
			return err
		}
		have := stream.CachedInfo().Config
		want := spec.kept(have)
		_, safe := compareStream(have, want)
		return tp.updateStream(ctx, have, want, safe)
	}
	return nil
}
