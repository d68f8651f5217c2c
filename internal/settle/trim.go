package settle

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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
	// purgeBusy is the time between two purges while all workers are busy.
	purgeBusy = time.Second
	// purgeFrom is how many settled intents are worth a purge. Fewer are removed one by
	// one, which holds up nothing.
	purgeFrom = 5
)

// Trimmer keeps the log of intents short (R14).
type Trimmer struct {
	ledger *Ledger
	claims *Claims
	acked  *acknowledged

	trimming sync.Mutex    // one trim of this process at a time; it guards the rest
	by       counter       // who counted at the last look
	before   uint64        // what was delivered before the first look at that one's counts
	proven   uint64        // up to here nothing is stranded
	trimmed  uint64        // up to here
	stranded atomic.Uint64 // the first intent that is not settled and delivered to nobody; 0 = none
	lookedAt time.Time
	told     uint64 // the stranded intent that was logged

	heard    heard
	purgedAt time.Time
}

// counter is one run of the broker, or one leader of its consumer. What was delivered before
// it counts, it may have forgotten: then nobody acknowledged it, and the floor passes over it all the
// same. For what is delivered later, the floor rises only with acknowledgements.
type counter struct {
	on     link
	leader string
}

// heard is what Trim heard last of the workers' progress.
type heard struct {
	on        link
	at        time.Time
	delivered uint64
}

// Trim removes the settled intents at the start of the log, many in one purge (R14). Any
// number of processes may call it, one after the other or at once; one of a fleet is
// enough.
func (tr *Trimmer) Trim(ctx context.Context) error {
	if !tr.trimming.TryLock() {
		return nil
	}
	defer tr.trimming.Unlock()
	asked, connection := tr.ledger.time.Now(), tr.ledger.link()
	p, err := tr.ledger.store.Progress(ctx)
	if err != nil {
		return err
	}
	may, floor := tr.mayPurge(p, asked, connection), p.Floor
	looked, err := tr.prove(ctx, p, counter{connection, p.Leader})
	if err != nil || floor == 0 || floor == tr.trimmed {
		return err
	}
	if looked { // that took a while
		if p, err = tr.ledger.store.Progress(ctx); err != nil {
			return err
		}
		may = tr.mayPurge(p, tr.ledger.time.Now(), connection)
	}
	upTo := floor
	if seq := tr.stranded.Load(); seq != 0 {
		upTo = min(upTo, seq-1)
	} else if tr.proven < min(floor, tr.before) {
		upTo = tr.proven
	}
	if tr.ledger.mutated(TrimOneTooMany) {
		upTo++
	}
	if tr.ledger.mutated(TrimDelivered) || planted.Is(planted.TrimAhead) {
		upTo = p.Delivered
	}
	// The floor may be another broker's by now, which gives sequences again.
	if tr.ledger.link() != connection || age(asked, tr.ledger.time.Now()) > tr.claims.Term() {
		return nil
	}
	switch {
	case upTo <= tr.trimmed:
		return nil
	case upTo-tr.trimmed < purgeFrom:
		var seqs []uint64
		for seq := tr.trimmed + 1; seq <= upTo; seq++ {
			seqs = append(seqs, seq)
		}
		err = tr.removeEach(ctx, connection, seqs)
	case may:
		tr.purgedAt = tr.ledger.time.Now()
		err = tr.ledger.store.PurgeIntents(ctx, upTo)
	default:
		return nil
	}
	if err == nil {
		tr.trimmed = upTo
	}
	return err
}

// mayPurge reports whether a purge makes hardly any intent late. One that waits to be
// delivered again comes after a purge only when its ack wait is over. With thousands of
// them, after an outage, a purge every quarter of a second would leave the workers idle.
//
// While all workers are busy, some may wait at any time. But the broker delivers those
// first, so none waited when it delivered a new intent.
func (tr *Trimmer) mayPurge(p Progress, now time.Time, on link) bool {
	last := tr.heard
	tr.heard = heard{on, now, p.Delivered}
	flows := last.on == on && p.Delivered > last.delivered && age(last.at, now) < purgeBusy
	return p.NoneAgain || flows && age(tr.purgedAt, now) >= purgeBusy
}

// TrimSingly removes the intents that this process settled a while ago, and that Trim does
// not reach, because one before them is not settled, or leaves, because it may not purge.
func (tr *Trimmer) TrimSingly(ctx context.Context) error {
	connection := tr.ledger.link()
	seqs := tr.acked.take(tr.ledger.time.Now().Add(-lingerMax), connection)
	if len(seqs) == 0 {
		return nil
	}
	first, err := tr.ledger.store.IntentAfter(ctx, 1)
	if err != nil || first == nil {
		return err
	}
	seqs = slices.DeleteFunc(seqs, func(seq uint64) bool { return seq < first.Seq })
	return tr.removeEach(ctx, connection, seqs)
}

// removeEach removes settled intents by their sequences, while the connection lasts.
func (tr *Trimmer) removeEach(ctx context.Context, connection link, seqs []uint64) error {
	return tr.ledger.time.Each(len(seqs), trimAtOnce, func(i int) error {
		if tr.ledger.link() != connection {
			return nil
		}
		return tr.ledger.store.DeleteIntent(ctx, seqs[i])
	})
}

// trimAtOnce bounds the single removals and looks under way, so that orders do not wait for them.
const trimAtOnce = 8

// prove looks for an intent that is not settled, and that the broker delivers to nobody,
// before the floor is believed. The broker's word is not enough: one that was killed may have
// stored an acknowledgement before what it acknowledges, or forgotten what it had delivered,
// and a person may have made or restored the consumer.
//
// The first proof of a floor takes several calls, each for a part of the log. Trim removes each
// part that is proven, and a proof that failed resumes where it stopped.
func (tr *Trimmer) prove(ctx context.Context, p Progress, by counter) (looked bool, err error) {
	if by != tr.by || p.Floor < tr.trimmed { // a consumer that was made again begins at 0
		tr.by, tr.before, tr.proven, tr.trimmed = by, p.Delivered, 0, 0
	}
	due := tr.stranded.Load() != 0 || p.Past() > p.Floor
	switch now := tr.ledger.time.Now(); {
	case p.Floor == 0 && !due:
		return false, nil
	case tr.proven == 0 && p.Floor > 0, due && age(tr.lookedAt, now) > lookAgain:
		tr.proven = 0
	case tr.stranded.Load() != 0 || tr.proven >= min(p.Floor, tr.before):
		return false, nil
	}
	for next := tr.proven + 1; ; {
		m, end, err := tr.lookFrom(ctx, next, p.Past(), tr.finish)
		switch {
		case err != nil:
			return false, err
		case m != nil || end >= p.Past():
			tr.proven, tr.lookedAt = p.Floor, tr.ledger.time.Now()
			tr.tellStranded(m)
			return true, nil
		}
		tr.proven, next = min(end, p.Floor), end+1
		if !due {
			return true, nil
		}
	}
}

// Strands reports whether the last look found an intent that is not settled, and that the
// broker delivers to nobody.
func (tr *Trimmer) Strands() bool { return tr.stranded.Load() != 0 }

// FirstStranded returns the first stored intent that is not settled, and that the broker
// counts as acknowledged and delivers to nobody; nil = there is none.
func (tr *Trimmer) FirstStranded(ctx context.Context) (*Message, error) {
	p, err := tr.ledger.store.Progress(ctx)
	if err != nil {
		return nil, err
	}
	for next := uint64(1); ; {
		m, end, err := tr.lookFrom(ctx, next, p.Past(), tr.done)
		if m != nil || err != nil || end >= p.Past() {
			return m, err
		}
		next = end + 1
	}
}

// look reports whether nothing is left to do about a stored intent that the broker counts as
// acknowledged.
type look func(ctx context.Context, m *Message, last LastWord) (bool, error)

// lookFrom looks at the first ProveAtOnce of the intents from one sequence to another. It returns
// the first that is stranded; nil = none is, up to end.
func (tr *Trimmer) lookFrom(ctx context.Context, next, last uint64, done look) (m *Message, end uint64, err error) {
	var page []*Message
	var tokens []string
	for end = next - 1; len(page) < tr.ledger.cfg.ProveAtOnce && end < last; {
		m, err := tr.ledger.store.IntentAfter(ctx, end+1)
		if err != nil {
			return nil, 0, err
		}
		if m == nil || m.Seq > last {
			end = last
			break
		}
		end, page, tokens = m.Seq, append(page, m), append(tokens, tr.ledger.filedToken(m))
	}
	if len(page) == 0 {
		return nil, end, nil
	}
	words, err := tr.ledger.readLastWords(ctx, tokens)
	if err != nil {
		return nil, 0, err
	}
	over := make([]bool, len(page))
	err = tr.ledger.time.Each(len(page), trimAtOnce, func(i int) (err error) {
		over[i], err = done(ctx, page[i], words[i])
		return err
	})
	if i := slices.Index(over, false); i >= 0 {
		return page[i], end, err
	}
	return nil, end, err
}

// finish looks, and removes the letter that an accepted order, or a person's word, has left: no
// delivery comes back to it (R14).
func (tr *Trimmer) finish(ctx context.Context, m *Message, last LastWord) (bool, error) {
	done, err := tr.done(ctx, m, last)
	r := last.Record
	if err != nil || !done || !m.SettledBy(r) || m.needsLetter(r) || r.Outcome() != order.OutcomeAccepted && !r.Resolved() || tr.ledger.mutated(LeaveLetter) {
		return done, err
	}
	if err = tr.ledger.removeLetter(ctx, tr.ledger.filedToken(m), r); errors.Is(err, ErrNotALetter) {
		err = nil // the audit names it
	}
	return err == nil, err
}

// done looks, and changes nothing. An intent that a broker has brought back after its removal is done.
// So is one that has left meanwhile: a replay may have removed its letter since.
func (tr *Trimmer) done(ctx context.Context, m *Message, last LastWord) (bool, error) {
	if last.Unreadable != nil {
		return false, nil
	}
	if complete, err := tr.ledger.isComplete(ctx, m, last.Record); err != nil || complete {
		return complete, err
	}
	if r := last.Record; r != nil && !m.SettledBy(r) {
		if back, err := tr.ledger.broughtBack(ctx, m.position(0), r); err != nil || back {
			return back, err
		}
	}
	return tr.ledger.hasLeft(ctx, m)
}

// Stranded reads an intent at or below the floor again, and reports whether something is
// left to do about it. The broker delivers it to nobody.
func (tr *Trimmer) Stranded(ctx context.Context, seq uint64) (bool, error) {
	m, err := tr.ledger.store.IntentAt(ctx, seq)
	if err != nil || m == nil {
		return false, err
	}
	words, err := tr.ledger.readLastWords(ctx, []string{tr.ledger.filedToken(m)})
	if err != nil {
		return false, err
	}
	done, err := tr.done(ctx, m, words[0])
	return !done, err
}

// tellStranded notes an intent that keeps the log from being trimmed; nil = there is none.
func (tr *Trimmer) tellStranded(m *Message) {
	if m == nil {
		tr.stranded.Store(0)
		return
	}
	tr.stranded.Store(m.Seq)
	if tr.told == m.Seq {
		return
	}
	tr.told = m.Seq
	tr.ledger.log.Error().Str("subject", m.Subject).Uint64("sequence", m.Seq).
		Msg("this intent has no outcome or lacks its dead letter, and the broker counts it as acknowledged and delivers it to nobody: orderpost worker repair mends it. See After a broker was killed in docs/operations.md")
}
