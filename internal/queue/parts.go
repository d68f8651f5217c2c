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
		info, err := tp.reader.info(ctx, spec.config.Name)
		switch {
		case err == nil:
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
	info, err := tp.workersConsumer(ctx)
	switch {
	case err == nil:
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
		have, err := tp.conn.info(ctx, spec.config.Name)
		if err != nil {
			return err
		}
		want := spec.kept(have.Config)
		_, safe := compareStream(have.Config, want)
		return tp.updateStream(ctx, have.Config, want, safe)
	}
	return nil
}

// ReviveConsumer creates the consumer again, unless another worker did so
// first. The caller has waited for AckWait since the consumer was found
// missing. So no worker has a claim from the lost one.
func (tp *Topology) ReviveConsumer(ctx context.Context) error {
	err := tp.putConsumer(ctx, tp.consumerConfig(), tp.conn.js.CreateConsumer)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s could not be created again: %w", tp.conn.n.consumer, tp.conn.n.intents, err)
	}
	return nil
}

// RemoveConsumer removes the workers' consumer. They create it again once the claims from this
// one are over, and it delivers all that is stored again: what was delivered before counts as
// possibly posted (R2, R3).
func (tp *Topology) RemoveConsumer(ctx context.Context) error {
	err := tp.conn.request(ctx, func(ctx context.Context) error {
		return tp.conn.js.DeleteConsumer(ctx, tp.conn.n.intents, tp.conn.n.consumer)
	})
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("consumer %s of stream %s could not be removed: %w", tp.conn.n.consumer, tp.conn.n.intents, err)
	}
	return nil
}

// ReviveJournal creates the journal again, empty.
func (tp *Topology) ReviveJournal(ctx context.Context) error {
	for _, spec := range tp.conn.cfg.streams() {
		if spec.part == PartJournal {
			_, err := tp.makeUnlessThere(ctx, spec)
			return err
		}
	}
	return nil
}

// MakeLost creates the missing streams again, empty, and returns the names of the precious
// ones. A person must decide to call it, because what they held is lost. Workers go on
// holding until [Queue.AcceptLosses].
func (tp *Topology) MakeLost(ctx context.Context) (made []string, err error) {
	for _, want := range tp.conn.cfg.streams() {
		lost, err := tp.makeUnlessThere(ctx, want)
		if err != nil {
			return made, err
		}
		if lost && want.precious {
			made = append(made, want.title())
		}
	}
	if tp.bucket.kv == nil {
		if err := tp.openBucket(ctx); err != nil {
			return made, err
		}
	}
	return made, nil
}

// makeUnlessThere creates a stream that is missing, and reports whether it was. A command whose
// connection breaks meanwhile looks again: what a lost answer created, it has made.
func (tp *Topology) makeUnlessThere(ctx context.Context, want streamSpec) (missing bool, err error) {
	err = tp.conn.patiently(ctx, func(ctx context.Context) error {
		_, err := tp.conn.info(ctx, want.config.Name)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return wrapStream(want.config.Name, "cannot be read", err)
		}
		missing = true
		return tp.makeStreams(ctx, []streamSpec{want})
	})
	return missing, err
}
