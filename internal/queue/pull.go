package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// groupMax bounds how many deliveries are checked in one batched read.
const groupMax = 256

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
func (q *Queue) Pull(ctx context.Context, n int, wait time.Duration, take func([]*Delivery)) error {
	epoch, life := q.disconnects.Load(), q.store.Life()
	below, err := q.seen.refresh(ctx)
	if err != nil {
		return fmt.Errorf("pull from stream %s: %w", q.n.intents, err)
	}
	sent := q.leases.now() // the lease runs from before the pull (R7)
	p, err := q.startPull(n, min(wait, q.leases.term/3))
	if err != nil {
		return fmt.Errorf("pull from stream %s: %w", q.n.intents, err)
	}
	defer p.end()
	for msg := p.next(); msg != nil; msg = p.next() {
		group := q.gather(msg, p, sent)
		q.takeIn(ctx, group, pulled{epoch: epoch, life: life, below: below})
		take(group)
	}
	if p.err != nil {
		return fmt.Errorf("pull from stream %s: %w", q.n.intents, p.err)
	}
	return nil
}

// pulled is what a pull knew before it was sent.
type pulled struct {
	epoch uint64 // of the connection
	life  string // of the broker
	below uint64 // the highest mark
}

// takeIn prepares a group for the worker: what was delivered before, what was
// pulled over a connection that is gone, and what the results say.
func (q *Queue) takeIn(ctx context.Context, group []*Delivery, p pulled) {
	for _, d := range group {
		d.life, d.Again = p.life, d.Delivered == 1 && d.Seq <= p.below
	}
	if q.disconnects.Load() != p.epoch {
		for _, d := range group {
			d.lease.endNow()
		}
	}
	q.checkOrGiveUp(ctx, group)
}

// gather takes what has arrived, without waiting for more.
func (q *Queue) gather(first *nats.Msg, p *pulling, sent time.Time) []*Delivery {
	group := []*Delivery{q.newDelivery(first, sent)}
	for len(group) < groupMax {
		msg := p.arrived()
		if msg == nil {
			return group
		}
		group = append(group, q.newDelivery(msg, sent))
	}
	return group
}

func (q *Queue) newDelivery(msg *nats.Msg, sent time.Time) *Delivery {
	m := &Message{Subject: msg.Subject, Header: msg.Header, Data: msg.Data}
	delivered := uint64(0)
	if meta, err := msg.Metadata(); err == nil { // a pulled message always has it
		m.Seq, m.Time, delivered = meta.Sequence.Stream, meta.Timestamp, meta.NumDelivered
	}
	return q.claim(m, brokerAnswer{q.nc, msg.Reply}, msg.Reply, delivered, sent)
}

func (q *Queue) claim(m *Message, a Answer, reply string, delivered uint64, sent time.Time) *Delivery {
	d := &Delivery{msg: m, answer: a, lease: q.leases.claim(reply, m.Seq, delivered, sent), Seq: m.Seq, StoredAt: m.Time, Delivered: delivered, counted: delivered}
	d.Invalid = q.readIntent(d)
	return d
}

// checkOrGiveUp repeats the check while the claims last, or would without being
// extended: what cannot be checked for so long is not kept from others. Beside the reading of
// results it marks how far the stream has been delivered; nothing of the group
// may be acted on before that is confirmed.
func (q *Queue) checkOrGiveUp(ctx context.Context, group []*Delivery) {
	since := q.leases.now()
	for {
		err := q.time.Each(2, 2, func(i int) error {
			if i == 0 {
				return q.Check(ctx, group)
			}
			return q.seen.reach(ctx, highest(group))
		})
		if err == nil {
			return
		}
		for _, d := range group {
			d.Work = WorkNone
		}
		if ctx.Err() != nil || !group[0].lease.Valid() || age(since, q.leases.now()) > q.leases.term {
			q.log.Warn().Err(err).Int("orders", len(group)).Msg("results cannot be read; giving up the orders of this pull, nothing was sent")
			return
		}
		_ = q.time.Sleep(ctx, rereadPause)
	}
}

func highest(group []*Delivery) (seq uint64) {
	for _, d := range group {
		seq = max(seq, d.Seq)
	}
	return seq
}
