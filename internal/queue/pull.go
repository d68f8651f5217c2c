package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"orderpost/internal/settle"
)

// Pull asks for at most n intents and waits for them for at most wait, or a
// third of a claim if that is less: the wait is taken off the claim, which would
// be over on arrival else. Deliveries are checked against the results and passed to take in
// groups as they arrive. A group whose check failed is passed with Work
// WorkNone: it must not be acted on, only given up.
//
// The caller holds a free slot for each of the n before it calls. Pull returns
// when n have arrived or the wait is over; it does not stop early, since a
// message that is on its way would be delivered to nobody and come back as an
// unexplained delivery.
func (q *Queue) Pull(ctx context.Context, n int, wait time.Duration, take func([]*settle.Delivery)) error {
	start, err := q.BeginPull(ctx)
	if err != nil {
		return fmt.Errorf("pull from stream %s: %w", q.n.intents, err)
	}
	p, err := q.startPull(n, min(wait, q.ClaimTerm()/3))
	if err != nil {
		return fmt.Errorf("pull from stream %s: %w", q.n.intents, err)
	}
	defer p.end()
	for msg := p.next(); msg != nil; msg = p.next() {
		take(q.Arrived(ctx, start, q.gather(msg, p)))
	}
	if p.err != nil {
		return fmt.Errorf("pull from stream %s: %w", q.n.intents, p.err)
	}
	return nil
}

// gather takes what has arrived, without waiting for more.
func (q *Queue) gather(first *nats.Msg, p *pulling) []settle.Arrival {
	group := []settle.Arrival{q.arrival(first)}
	for len(group) < groupMax {
		msg := p.arrived()
		if msg == nil {
			return group
		}
		group = append(group, q.arrival(msg))
	}
	return group
}

func (q *Queue) arrival(msg *nats.Msg) settle.Arrival {
	a := settle.Arrival{Message: &settle.Message{Subject: msg.Subject, Header: settle.Header(msg.Header), Data: msg.Data},
		Answer: brokerAnswer{q.nc, msg.Reply}, Reply: msg.Reply}
	if meta, err := msg.Metadata(); err == nil { // a pulled message always has it
		a.Seq, a.Time, a.Delivered = meta.Sequence.Stream, meta.Timestamp, meta.NumDelivered
	}
	return a
}

// groupMax bounds how many deliveries are checked in one batched read.
const groupMax = 256
