package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

const (
	// stallTold is how long a trial may go without progress before the bench says what it
	// sees, and stallTimeout before the trial fails. A large file is checked before its first
	// order goes, so a trial has that time once more for each million orders.
	stallTold    = 3 * time.Second
	stallTimeout = time.Minute
	// stallLines is how many lines of each log it shows.
	stallLines = 20
)

// progress is what a trial had done when it moved last.
type progress struct {
	seen    int64  // orders that the API has seen
	pending uint64 // in the queue; only counted once it has seen all
	at      time.Time
	told    bool
}

// noted notes what is done, and returns for how long nothing moved.
func (p *progress) noted(seen int64, pending uint64) time.Duration {
	if p.at.IsZero() || seen != p.seen || pending != p.pending {
		*p = progress{seen, pending, time.Now(), false}
	}
	return time.Since(p.at)
}

// told says once what holds a trial up that has gone without progress for idle.
func (s *stage) told(ctx context.Context, p *progress, idle time.Duration) {
	if p.told || idle < stallTold {
		return
	}
	p.told = true
	text, about, err := s.held(ctx)
	if err != nil {
		text = fmt.Sprintf("what holds it up cannot be read: %v", err)
	}
	s.say("no progress for %s: the API has seen %d orders of %d\n%s%s", idle.Round(time.Second), p.seen, s.orders, text, s.lastWords(stallLines, about))
}

// held describes the workers' consumer, and the first stored intent that it does not count as
// acknowledged, with its record. It returns the order_no of that intent, too.
func (s *stage) held(ctx context.Context) (text, orderNo string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	nc, js, err := s.connect()
	if err != nil {
		return "", "", err
	}
	defer nc.Close()
	consumer, err := js.Consumer(ctx, intentsStream, poolConsumer)
	if err != nil {
		return "", "", err
	}
	info := consumer.CachedInfo()
	text = fmt.Sprintf("consumer: %d deliveries, up to intent %d; acknowledged up to %d; %d not acknowledged, %d delivered again; %d not delivered yet; %d pulls wait\n",
		info.Delivered.Consumer, info.Delivered.Stream, info.AckFloor.Stream, info.NumAckPending, info.NumRedelivered, info.NumPending, info.NumWaiting)
	first, err := s.queue.Store().IntentsFrom(ctx, info.AckFloor.Stream+1, 1)
	if err != nil || len(first) == 0 {
		return text + "no intent is stored above its floor\n", "", err
	}
	m := first[0]
	orderNo = m.Subject[strings.LastIndex(m.Subject, ".")+1:]
	record, err := s.queue.Store().Record(ctx, settle.FiledToken(orderNo, m.Seq, m.Time))
	if err != nil {
		return "", "", err
	}
	return text + heldText(m, record.Record), orderNo, nil
}

// heldText tells why an intent may not be acknowledged, by its record.
func heldText(m *settle.Message, r *order.Record) string {
	why, said := "it has no record: it is on its way to a worker, or the broker does not deliver it again", ""
	switch {
	case m.SettledBy(r):
		why = "it has its outcome: its acknowledgement is on its way, or had no effect"
	case r != nil:
		why = "it has a note, but no outcome: a worker holds it, or gave it back"
	}
	if r != nil {
		text, _ := r.AppendJSON(nil) // it was read from JSON
		said = string(text) + "\n"
	}
	return fmt.Sprintf("intent %d, %s, stored at %s: %s\n%s", m.Seq, m.Subject, m.Time.Format(time.RFC3339Nano), why, said)
}
