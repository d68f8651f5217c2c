package queue

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

// Simulated is a Queue on a broker that is only modelled: what is above [Store]
// and [Runtime] is the code that runs in production. What [Pull] and the
// connection's handlers do is called step by step instead.
type Simulated struct{ *Queue }

// NewSimulated makes a Queue of which the settle protocol works: what takes a
// Delivery, Publish, Replay, Resolve, Drop, Cancel and Lookup. Nothing runs in
// the background.
func NewSimulated(cfg Config, store Store, runtime Runtime) Simulated {
	q := &Queue{cfg: cfg, n: cfg.names(), log: zerolog.Nop(), store: store, time: runtime, replicas: 1}
	q.leases = newKeeper(q)
	q.leases.now = runtime.Now
	q.leases.setTerm(cfg.AckWait)
	q.seen = newSeen(q)
	return Simulated{q}
}

// Pulling is a pull under way.
type Pulling struct {
	pulled
	sent time.Time
}

// BeginPull is what Pull does before it asks for messages.
func (s Simulated) BeginPull(ctx context.Context) (Pulling, error) {
	p := Pulling{pulled: pulled{epoch: s.disconnects.Load(), life: s.store.Life()}}
	var err error
	p.below, err = s.seen.refresh(ctx)
	p.sent = s.time.Now()
	return p, err
}

// Arrival is a message as it was delivered.
type Arrival struct {
	*Message
	Answer    Answer
	Reply     string
	Delivered uint64
}

// Arrived is what Pull does with the messages that arrive together.
func (s Simulated) Arrived(ctx context.Context, p Pulling, messages []Arrival) []*Delivery {
	group := make([]*Delivery, len(messages))
	for i, m := range messages {
		group[i] = s.claim(m.Message, m.Answer, m.Reply, m.Delivered, p.sent)
	}
	s.takeIn(ctx, group, p.pulled)
	return group
}

// ExtendClaims is one tick of the lease keeper, ClaimExtended an answer that it
// gets.
func (s Simulated) ExtendClaims() { s.leases.extend() }

// ClaimExtended: see ExtendClaims.
func (s Simulated) ClaimExtended(answer string) { s.leases.hear(answer) }

// ExtendEvery is the time between two ticks.
func (s Simulated) ExtendEvery() time.Duration { return s.leases.period }

// ConnectionLost and ConnectionBack are the connection's handlers.
func (s Simulated) ConnectionLost() { s.onDisconnect(nil, nil) }

// ConnectionBack: see ConnectionLost.
func (s Simulated) ConnectionBack() {
	now := s.time.Now()
	s.reconnected.Store(&now)
}
