package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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
	PartConsumer Part = "consumer"
	// PartWaiting is the waiting room. It is a part once a worker has created it.
	PartWaiting Part = "waiting"
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
}

// Missing reports whether the broker does not have the part.
func (s PartState) Missing() bool { return s.Created.IsZero() }

// Precious reports whether the part's content cannot be restored. Only a person
// may decide what happens to such a part.
func (s PartState) Precious() bool { return s.Part != PartFleet && s.Part != PartConsumer }

// Inspect returns the state of every part: the three streams, the bucket, the
// consumer, and the waiting room if there ever was one. It creates nothing. An error
// means that the broker did not answer.
func (q *Queue) Inspect(ctx context.Context) ([]PartState, error) {
	states := []PartState{
		{Part: PartIntents, Name: "stream " + q.n.intents},
		{Part: PartResults, Name: "stream " + q.n.results},
		{Part: PartLetters, Name: "stream " + q.n.dead},
		{Part: PartFleet, Name: "bucket " + q.cfg.Bucket},
		{Part: PartConsumer, Name: "consumer " + q.n.consumer + " of stream " + q.n.intents},
	}
	hasRoom := false
	for i, stream := range []string{q.n.intents, q.n.results, q.n.dead, q.bucket.stream()} {
		s, err := q.stream(ctx, stream)
		switch {
		case err == nil:
			states[i].Created = s.CachedInfo().Created
			hasRoom = hasRoom || i == 0 && s.CachedInfo().Config.Metadata[waitingKey] != ""
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
		states[4].Created, states[4].AckWait = c.CachedInfo().Created, c.CachedInfo().Config.AckWait
	case !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, err
	}
	if !hasRoom {
		return states, nil
	}
	waiting := PartState{Part: PartWaiting, Name: "stream " + q.n.waiting}
	room, err := q.stream(ctx, q.n.waiting)
	if err == nil {
		waiting.Created = room.CachedInfo().Created
	} else if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, err
	}
	return append(states, waiting), nil
}
