package settle

import (
	"context"
	"time"
)

// PullStart is what was known before a pull request was sent. The claims of
// what arrives run from then (R7).
type PullStart struct {
	epoch uint64 // of the connection
	life  string // of the broker
	below uint64 // the highest mark
	sent  time.Time
}

// BeginPull must be called before messages are asked for.
func (q *Protocol) BeginPull(ctx context.Context) (PullStart, error) {
	p := PullStart{epoch: q.disconnects.Load(), life: q.store.Life()}
	var err error
	p.below, err = q.seen.refresh(ctx)
	p.sent = q.time.Now()
	return p, err
}

// Arrival is a message as the broker delivered it.
type Arrival struct {
	*Message
	Answer Answer
	// Reply is the subject that its acknowledgements go to.
	Reply string
	// Delivered is the broker's count of deliveries, this one included.
	Delivered uint64
}

// Arrived checks messages that arrived together, and prepares them for the
// Handler: what was delivered before, what was pulled over a connection that is
// gone, and what the results say. Deliveries whose check failed have Work
// WorkNone.
func (q *Protocol) Arrived(ctx context.Context, p PullStart, messages []Arrival) []*Delivery {
	group := make([]*Delivery, len(messages))
	for i, m := range messages {
		group[i] = q.claim(m, p)
	}
	if q.disconnects.Load() != p.epoch {
		for _, d := range group {
			d.lease.endNow()
		}
	}
	q.checkOrGiveUp(ctx, group)
	return group
}

func (q *Protocol) claim(m Arrival, p PullStart) *Delivery {
	d := &Delivery{msg: m.Message, answer: m.Answer, lease: q.leases.claim(m.Reply, m.Seq, m.Delivered, p.sent), Seq: m.Seq, StoredAt: m.Time,
		Delivered: m.Delivered, counted: m.Delivered, life: p.life, Again: m.Delivered == 1 && m.Seq <= p.below}
	d.Invalid = q.readIntent(d)
	return d
}

// checkOrGiveUp repeats the check while the claims last, or would without being
// extended. After one term, another worker may try. Beside reading the results
// it writes the delivered high-water mark; nothing of the group may be acted on
// before that is confirmed.
func (q *Protocol) checkOrGiveUp(ctx context.Context, group []*Delivery) {
	since := q.time.Now()
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
		if ctx.Err() != nil || !group[0].lease.Valid() || age(since, q.time.Now()) > q.leases.term {
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
