package settle

import (
	"context"
	"time"
)

// PullStart is the state before a pull request was sent. The claims of the
// messages that answer it run from then (R7).
type PullStart struct {
	link  link
	birth int64     // of the intents stream
	high  uint64    // the highest high-water mark of all workers
	sent  time.Time // directly before the request was sent
}

// BeginPull must be called before messages are requested.
func (wk *Worker) BeginPull(ctx context.Context) (PullStart, error) {
	p := PullStart{link: wk.ledger.link()}
	var err error
	p.birth, p.high, err = wk.highWater.high(ctx, p.link)
	p.sent = wk.ledger.time.Now()
	return p, err
}

// Arrival is a message as the broker delivered it.
type Arrival struct {
	*Message
	Answer Answer
	// Reply is the subject that acknowledgements go to.
	Reply string
	// Delivered is the broker's count of deliveries, this one included.
	Delivered uint64
}

// Arrived prepares messages that arrived together for the Handler. It makes
// their claims, ends those that were pulled over a lost connection, recognises
// messages that were delivered before, and checks the results. A delivery whose
// check failed has Work WorkNone.
func (wk *Worker) Arrived(ctx context.Context, p PullStart, messages []Arrival) []*Delivery {
	group := make([]*Delivery, len(messages))
	for i, m := range messages {
		group[i] = wk.claim(m, p)
	}
	if wk.ledger.link() != p.link {
		for _, d := range group {
			d.lease.endNow()
		}
	}
	wk.vouch(group)
	wk.checkOrGiveUp(ctx, p, group)
	return group
}

// claim returns the delivery of a message, with its claim.
func (wk *Worker) claim(m Arrival, p PullStart) *Delivery {
	d := &Delivery{msg: m.Message, answer: m.Answer, lease: wk.claims.claim(m.Reply, m.Seq, m.Delivered, p.sent), Position: m.position(p.birth),
		Delivered: m.Delivered, counted: m.Delivered, serverID: p.link.serverID, CountLost: m.Delivered == 1 && m.Seq <= p.high}
	d.Invalid = wk.ledger.readIntent(d)
	if e := wk.ledger.log.Debug(); e.Enabled() { // not later than the first thing that is done about it: histories rely on that
		e.Str("order_no", d.OrderNo()).Str("intent_id", d.Intent.ID).Uint64("sequence", d.Seq).Uint64("delivered", m.Delivered).
			Str("delivery", m.Reply).Int64("at_ns", wk.ledger.time.Now().UnixNano()).Msg("intent delivered")
	}
	return d
}

// checkOrGiveUp repeats the check while the claims last, but for one term at
// most, even if the claims are extended. After that another worker may try.
// Besides reading the results it writes the delivered high-water mark. Nothing
// of the group may be acted on before the broker has confirmed that write.
func (wk *Worker) checkOrGiveUp(ctx context.Context, p PullStart, group []*Delivery) {
	since := wk.ledger.time.Now()
	for {
		err := wk.ledger.time.Each(2, 2, func(i int) error {
			if i == 0 {
				return wk.Check(ctx, group)
			}
			return wk.highWater.advance(ctx, highest(group))
		})
		if err == nil {
			marked := wk.ledger.link() == p.link
			for _, d := range group {
				d.marked = marked
			}
			return
		}
		for _, d := range group {
			d.Work = WorkNone
		}
		if ctx.Err() != nil || !group[0].lease.Valid() || age(since, wk.ledger.time.Now()) > wk.claims.Term() {
			wk.ledger.log.Warn().Err(err).Int("orders", len(group)).Msg("results cannot be read; giving up the orders of this pull; nothing was sent for them, and they are delivered again")
			return
		}
		_ = wk.ledger.time.Sleep(ctx, rereadPause)
	}
}

// highest returns the highest sequence of a group.
func highest(group []*Delivery) (seq uint64) {
	for _, d := range group {
		seq = max(seq, d.Seq)
	}
	return seq
}
