package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Part is one of the things at the broker that orderpost works with.
type Part string

// The parts. Their names are the values of a metric's label.
const (
	PartIntents  Part = "intents"
	PartResults  Part = "results"
	PartLetters  Part = "dead_letters"
	PartFleet    Part = "fleet"
	PartConsumer Part = "consumer"
)

// Parts lists all of them.
func Parts() []Part { return []Part{PartIntents, PartResults, PartLetters, PartFleet, PartConsumer} }

// PartState is a part as the broker has it.
type PartState struct {
	Part Part
	// Name is how people call it, as in "stream ORDERS".
	Name string
	// Created is when the broker made it; zero where it is missing.
	Created time.Time
}

// Missing says whether the broker does not have it.
func (s PartState) Missing() bool { return s.Created.IsZero() }

// Precious says whether what the part holds cannot be made anew: only a person
// can decide what becomes of it.
func (s PartState) Precious() bool { return s.Part != PartFleet && s.Part != PartConsumer }

// Inspect looks which parts the broker has, in the order of [Parts]. It makes
// nothing. An error means that the broker did not say.
func (q *Queue) Inspect(ctx context.Context) ([]PartState, error) {
	states := []PartState{
		{Part: PartIntents, Name: "stream " + q.n.intents},
		{Part: PartResults, Name: "stream " + q.n.results},
		{Part: PartLetters, Name: "stream " + q.n.dead},
		{Part: PartFleet, Name: "bucket " + q.cfg.Bucket},
		{Part: PartConsumer, Name: "consumer " + q.n.consumer + " of stream " + q.n.intents},
	}
	for i, stream := range []string{q.n.intents, q.n.results, q.n.dead, q.bucket.stream()} {
		s, err := q.stream(ctx, stream)
		switch {
		case err == nil:
			states[i].Created = s.CachedInfo().Created
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, err
		}
	}
	if states[3].Missing() {
		q.bucket.noteLoss()
	}
	c, err := q.workersConsumer(ctx)
	switch {
	case err == nil:
		states[4].Created = c.CachedInfo().Created
	case !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, err
	}
	return states, nil
}
