package settle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/planted"
)

const (
	// TrimEvery is how often the log of intents is trimmed while orders are settled.
	TrimEvery = 250 * time.Millisecond
	// lingerMax is how long a settled intent may stay in the log above an intent that is
	// not settled, or while nothing may be purged.
	lingerMax = 5 * time.Second
	// lookAgain is the time between two looks at an intent that keeps the log from
	// being trimmed although the broker counts it as acknowledged.
	lookAgain = 15 * time.Second
	// maxLingering bounds what a worker remembers of the intents that it acknowledged.
	maxLingering = 100_000
	// purgeBusy is the time between two purges while all workers are busy.
	purgeBusy = time.Second
	// purgeFrom is how many settled intents are worth a purge. Fewer are removed one by
	// one, which holds up nothing.
	purgeFrom = 5
)

// trimmer keeps the log of intents short (R14).
type trimmer struct {
	mu    sync.Mutex
	on    link           // the connection that acked is about
	acked []acknowledged // in the order of their times

	trimming sync.Mutex // one trim of this process at a time; it guards the rest
	// What lies at or below the floor was proven on this connection. Since then,
	// the floor rises only with acknowledgements.
	proven   link
	trimmed  uint64 // up to here
	stranded uint64 // the first intent at or below the floor that is not settled; 0 = none
	lookedAt time.Time
	told     uint64 // the stranded intent that was logged

	heard    heard
	purgedAt time.Time
}

// heard is what Trim heard last of the workers' progress.
type heard struct {
	on        link
	at        time.Time
	delivered uint64
}

// acknowledged is an intent that this process settled and acknowledged.
type acknowledged struct {
	seq uint64
	at  time.Time
}

// remember notes an intent that is settled and acknowledged. Another run of the broker may
// give the sequences of the former one to other intents.
func (t *trimmer) remember(seq uint64, at time.Time, on link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on != on {
		t.on, t.acked = on, nil
	}
	if len(t.acked) < maxLingering {
		t.acked = append(t.acked, acknowledged{seq, at})
	}
}

// lingering takes the sequences of the intents that were acknowledged before a time, on
// this connection.
func (t *trimmer) lingering(before time.Time, on link) (seqs []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on != on {
		return nil
	}
	n := 0
	for n < len(t.acked) && !t.acked[n].at.After(before) {
		seqs = append(seqs, t.acked[n].seq)
		n++
	}
	t.acked = slices.Delete(t.acked, 0, n)
	return seqs
}

// Trim removes the settled intents at the start of the log, many in one purge (R14). Any
// number of processes may call it, one after the other or at once; one of a fleet is
// enough.
func (q *Protocol) Trim(ctx context.Context) error {
	t := &q.trimmer
	if !t.trimming.TryLock() {
		return nil
	}
	defer t.trimming.Unlock()
	asked, connection := q.time.Now(), q.link()
	p, err := q.store.Progress(ctx)
	if err != nil {
		return err
	}
	may := t.mayPurge(p, asked, connection)
	floor := p.Floor
	if floor == 0 || floor == t.trimmed && connection == t.proven {
		return nil
	}
	anew := connection != t.proven || floor < t.trimmed // a consumer that was made again begins at 0
	if anew || t.stranded != 0 && age(t.lookedAt, asked) > lookAgain {
		if err := q.prove(ctx, floor); err != nil {
			return err
		}
		t.proven, t.lookedAt = connection, q.time.Now()
		if anew {
			t.trimmed = 0
		}
		if p, err = q.store.Progress(ctx); err != nil { // that took a while
			return err
		}
		may = t.mayPurge(p, q.time.Now(), connection)
	}
	upTo := floor
	if t.stranded != 0 {
		upTo = min(upTo, t.stranded-1)
	}
	if q.mutated(TrimOneTooMany) {
		upTo++
	}
	if q.mutated(TrimDelivered) || planted.Is(planted.TrimAhead) {
		upTo = p.Delivered
	}
	// The floor may be another broker's by now, which gives sequences again.
	if q.link() != connection || age(asked, q.time.Now()) > q.leases.term() {
		return nil
	}
	switch {
	case upTo <= t.trimmed:
		return nil
	case upTo-t.trimmed < purgeFrom:
		var seqs []uint64
		for seq := t.trimmed + 1; seq <= upTo; seq++ {
			seqs = append(seqs, seq)
		}
		err = q.removeEach(ctx, connection, seqs)
	case may:
		t.purgedAt = q.time.Now()
		err = q.store.PurgeIntents(ctx, upTo)
	default:
		return nil
	}
	if err == nil {
		t.trimmed = upTo
	}
	return err
}

// mayPurge reports whether a purge makes hardly any intent late. One that waits to be
// delivered again comes after a purge only when its ack wait is over. With thousands of
// them, after an outage, a purge every quarter of a second would leave the workers idle.
//
// While all workers are busy, some may wait at any time. But the broker delivers those
// first, so none waited when it delivered a new intent.
func (t *trimmer) mayPurge(p Progress, now time.Time, on link) bool {
	last := t.heard
	t.heard = heard{on, now, p.Delivered}
	flows := last.on == on && p.Delivered > last.delivered && age(last.at, now) < purgeBusy
	return p.NoneAgain || flows && age(t.purgedAt, now) >= purgeBusy
}

// TrimSingly removes the intents that this process settled a while ago, and that Trim does
// not reach, because one before them is not settled, or leaves, because it may not purge.
func (q *Protocol) TrimSingly(ctx context.Context) error {
	connection := q.link()
	seqs := q.trimmer.lingering(q.time.Now().Add(-lingerMax), connection)
	if len(seqs) == 0 {
		return nil
	}
	first, err := q.store.IntentAfter(ctx, 1)
	if err != nil || first == nil {
		return err
	}
	seqs = slices.DeleteFunc(seqs, func(seq uint64) bool { return seq < first.Seq })
	return q.removeEach(ctx, connection, seqs)
}

// removeEach removes settled intents by their sequences, while the connection lasts.
func (q *Protocol) removeEach(ctx context.Context, connection link, seqs []uint64) error {
	return q.time.Each(len(seqs), trimAtOnce, func(i int) error {
		if q.link() != connection {
			return nil
		}
		return q.store.DeleteIntent(ctx, seqs[i])
	})
}

// trimAtOnce bounds the single removals under way, so that orders do not wait for them.
const trimAtOnce = 8

// prove looks for an intent at or below the floor that is not settled. The broker's
// word is not enough: one that was killed may have stored an acknowledgement before what
// it acknowledges, and a person may have made or restored the consumer.
func (q *Protocol) prove(ctx context.Context, floor uint64) error {
	for next := uint64(1); ; {
		var page []*Message
		var tokens []string
		for len(page) < ReadBatch {
			m, err := q.store.IntentAfter(ctx, next)
			if err != nil {
				return err
			}
			if m == nil || m.Seq > floor {
				break
			}
			next = m.Seq + 1
			page, tokens = append(page, m), append(tokens, q.filedToken(m))
		}
		if len(page) == 0 {
			q.trimmer.stranded = 0
			return nil
		}
		words, err := q.readLastWords(ctx, tokens)
		if err != nil {
			return err
		}
		for i, m := range page {
			done, err := q.done(ctx, m, words[i])
			if err != nil {
				return err
			}
			if !done {
				q.stranded(m)
				return nil
			}
		}
	}
}

// done reports whether nothing is left to do about a stored intent that the broker counts
// as acknowledged. The stream holds one intent of an order_no, so a record about a later one
// shows that this one was removed before, and that a broker has brought it back.
func (q *Protocol) done(ctx context.Context, m *Message, last LastWord) (bool, error) {
	if last.Unreadable != nil {
		return false, nil
	}
	if r := last.Record; r != nil && r.LastEnqueued().After(m.Time) {
		return true, nil
	}
	return q.isComplete(ctx, m, last.Record)
}

// Stranded reads an intent at or below the floor again, and reports whether something is
// left to do about it. The broker delivers it to nobody.
func (q *Protocol) Stranded(ctx context.Context, seq uint64) (bool, error) {
	m, err := q.store.IntentAt(ctx, seq)
	if err != nil || m == nil {
		return false, err
	}
	words, err := q.readLastWords(ctx, []string{q.filedToken(m)})
	if err != nil {
		return false, err
	}
	done, err := q.done(ctx, m, words[0])
	return !done, err
}

// stranded notes an intent that keeps the log from being trimmed.
func (q *Protocol) stranded(m *Message) {
	t := &q.trimmer
	if t.stranded = m.Seq; t.told == m.Seq {
		return
	}
	t.told = m.Seq
	q.log.Error().Str("subject", m.Subject).Uint64("sequence", m.Seq).
		Msg("this intent has no outcome or lacks its dead letter, and the broker counts it as acknowledged and delivers it to nobody: see After a broker was killed in docs/operations.md")
}

// filedToken returns the token that a stored intent's record and letter are filed under.
func (q *Protocol) filedToken(m *Message) string {
	return FiledToken(m.Subject[len(q.cfg.IntentSubjects):], m.Seq, m.Time)
}

// SettledBy reports whether a record counts this stored intent, and not only an earlier
// one with the same ID.
func (m *Message) SettledBy(r *order.Record) bool {
	id := m.IntentID()
	if c := r.ConflictOf(id); c != nil {
		return !m.Time.After(c.EnqueuedAt)
	}
	return r.Outcome() != order.OutcomeNone && !m.Time.After(r.EnqueuedAt) && r.IntentID == id
}

// completedBy reports whether a record settles this intent, and the letter of the order_no
// (nil = none) is the one that it needs (R4).
func (m *Message) completedBy(r *order.Record, l *Letter) bool {
	return m.SettledBy(r) && (!r.NeedsLetter() || l != nil && l.IntentID == m.IntentID())
}

// isComplete reads the letter for completedBy.
func (q *Protocol) isComplete(ctx context.Context, m *Message, r *order.Record) (bool, error) {
	if !m.SettledBy(r) || !r.NeedsLetter() {
		return m.SettledBy(r), nil
	}
	l, err := q.store.Letter(ctx, q.filedToken(m))
	if errors.Is(err, ErrNotALetter) {
		return false, nil
	}
	return m.completedBy(r, l), err
}

// storedAndRecord reads the stored intent of an order_no, nil if there is none, and then the
// record about it.
func (q *Protocol) storedAndRecord(ctx context.Context, orderNo string) (*Message, Entry, error) {
	m, err := q.store.Intent(ctx, orderNo)
	if err != nil || m == nil {
		return nil, Entry{}, err
	}
	entry, err := q.store.Record(ctx, q.filedToken(m))
	if errors.Is(err, ErrUnreadable) {
		return m, Entry{}, nil
	}
	if err != nil {
		return nil, Entry{}, fmt.Errorf("order %s: %w", orderNo, err)
	}
	return m, entry, nil
}
