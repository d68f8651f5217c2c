package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Leftovers is what RemoveLeftovers did.
type Leftovers struct {
	// Removed intents had their outcome, and are not stored any more.
	Removed int
	// Stranded intents have none. The broker will deliver them to nobody, and
	// only a person can help (docs/operations.md).
	Stranded []string // order numbers, maxOffenders at most

	seqs map[uint64]bool // seen in this look, at most maxLeftovers
}

// maxLeftovers bounds what one look remembers for the next.
const maxLeftovers = 10_000

// errEnough ends a walk.
var errEnough = errors.New("read far enough")

// RemoveLeftovers removes intents that the broker stores although they were
// acknowledged: it was killed when the acknowledgement was on its disk, and the
// removal from the stream was not. Such an intent is delivered to nobody, and
// keeps its order_no from being used again. It lies at or below the consumer's
// acknowledgement floor, and its outcome, which is written before the
// acknowledgement (R4), says that nothing is left to do with it.
//
// JetStream takes another acknowledgement of it, and removes it. Replicas remove
// what was acknowledged a little later than they count it: only what the look
// before has seen, too, is a leftover; the zero Leftovers stands for none before.
// Without leftovers it costs two requests. What was found is returned with an
// error as well.
func (q *Queue) RemoveLeftovers(ctx context.Context, before Leftovers) (Leftovers, error) {
	l := Leftovers{seqs: make(map[uint64]bool)}
	floor, err := q.ackFloor(ctx)
	if err != nil || floor == 0 {
		return l, err
	}
	stream, err := q.js.Stream(ctx, q.n.intents)
	if err != nil {
		return l, fmt.Errorf("stream %s: %w", q.n.intents, err)
	}
	if s := stream.CachedInfo().State; s.Msgs == 0 || s.FirstSeq > floor {
		return l, nil
	}
	err = q.walk(ctx, q.n.intents, q.n.newPre+"*", func(page []*settle.Message) error {
		for _, raw := range page {
			if raw.Seq > floor || len(l.seqs) == maxLeftovers {
				return errEnough
			}
			if l.seqs[raw.Seq] = true; !before.seqs[raw.Seq] {
				continue
			}
			if err := q.removeLeftover(ctx, raw.Seq, &l); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return l, err
}

// ackFloor is the highest sequence up to which every intent was acknowledged.
func (q *Queue) ackFloor(ctx context.Context) (uint64, error) {
	c, err := q.workersConsumer(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // it will deliver everything when it is made
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return c.CachedInfo().AckFloor.Stream, nil
}

// workersConsumer reads the state of the workers' consumer, which its CachedInfo
// then holds.
func (q *Queue) workersConsumer(ctx context.Context) (c jetstream.Consumer, err error) {
	err = q.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := q.link.bound(ctx)
		defer cancel()
		c, err = q.js.Consumer(ctx, q.n.intents, q.n.consumer)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", q.n.consumer, err)
	}
	return c, nil
}

// removeLeftover judges one intent that was walked over, and removes it if
// nothing is left to do with it.
func (q *Queue) removeLeftover(ctx context.Context, seq uint64, l *Leftovers) error {
	raw, settled, err := q.settledLeftover(ctx, seq)
	switch {
	case err != nil || raw == nil:
		return err
	case !settled:
		if len(l.Stranded) < maxOffenders {
			l.Stranded = append(l.Stranded, q.orderNoOf(raw))
		}
		return nil
	}
	return q.acknowledgeAgain(ctx, seq, l)
}

// settledLeftover looks again at the leaders: what was walked over may be a
// follower's word. raw is nil where there is nothing to say: the intent is gone,
// or its last word or letter is one that an audit names.
func (q *Queue) settledLeftover(ctx context.Context, seq uint64) (raw *settle.Message, settled bool, err error) {
	raw, err = q.store.IntentAt(ctx, seq)
	if err != nil || raw == nil {
		return nil, false, err
	}
	token := settle.FileToken(strings.TrimPrefix(raw.Subject, q.n.newPre))
	entry, err := q.store.Record(ctx, token)
	switch {
	case errors.Is(err, settle.ErrUnreadable):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case entry.Record == nil || !settledBy(raw, entry.Record) && !broughtBack(raw, entry.Record):
		return raw, false, nil
	case !entry.Record.NeedsLetter():
		return raw, true, nil
	}
	letter, err := q.store.Letter(ctx, token)
	if errors.Is(err, settle.ErrNotALetter) {
		return nil, false, nil
	}
	if letter == nil {
		raw = nil
	}
	return raw, true, err
}

// broughtBack: the record is about an intent that was stored after this leftover.
// The stream holds one intent for each order_no, so that this one had been removed
// by then, with its outcome, and a broker that was killed has brought it back. It
// is true of leftovers only: the clock of a broker can step back.
func broughtBack(leftover *settle.Message, r *order.Record) bool {
	return r.LastEnqueued().After(leftover.Time)
}

// orderNoOf names an intent by its subject.
func (q *Queue) orderNoOf(raw *settle.Message) string {
	no, err := order.OrderNoFromToken(strings.TrimPrefix(raw.Subject, q.n.newPre))
	if err != nil {
		return raw.Subject
	}
	return no
}

// acknowledgeAgain sends what a worker would, and waits for the answer.
func (q *Queue) acknowledgeAgain(ctx context.Context, seq uint64, l *Leftovers) error {
	ctx, cancel := q.link.bound(ctx)
	defer cancel()
	// $JS.ACK.stream.consumer.deliveries.stream sequence.consumer sequence.time.pending
	subject := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.1.%d.0", q.n.intents, q.n.consumer, seq, time.Now().UnixNano())
	if _, err := q.nc.RequestWithContext(ctx, subject, plainAck); err != nil {
		return fmt.Errorf("intent %d, settled and still stored: not acknowledged again: %w", seq, err)
	}
	l.Removed++
	return nil
}
