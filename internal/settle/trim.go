package settle

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
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
	// provePages is how many pages of a long log are proven before one purge, after which the
	// server writes its index of all that is stored.
	provePages = 8
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
	over     link          // the connection that the rest is about
	settled  uint64        // up to here every stored intent is settled
	trimmed  uint64        // up to here
	stranded atomic.Uint64 // the first intent that is not settled and delivered to nobody; 0 = none
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
	gaveBack  uint64 // Ledger.gaveBack
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
	may := tr.mayPurge(p, asked, connection)
	looked, err := tr.look(ctx, p, connection)
	if err != nil {
		return err
	}
	if looked { // that took a while
		if p, err = tr.ledger.store.Progress(ctx); err != nil {
			return err
		}
		may = tr.mayPurge(p, tr.ledger.time.Now(), connection)
	}
	upTo := tr.settled
	// The stream may be another one by now, which gives sequences again.
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
		tr.ledger.purging.Store(true) // before gaveBack is read: what is given back later comes after the purge
		defer tr.ledger.purging.Store(false)
		if tr.ledger.gaveBack.Load() != tr.heard.gaveBack {
			return nil
		}
		tr.purgedAt = tr.ledger.time.Now()
		err = tr.ledger.store.PurgeIntents(ctx, upTo)
	default:
		return nil
	}
	if err == nil {
		tr.trimmed = upTo
		tr.acked.forget(upTo)
	}
	return err
}

// mayPurge reports whether a purge makes hardly any intent late. One that waits to be
// delivered again comes after a purge only when its ack wait is over. With thousands of
// them, after an outage, a purge every quarter of a second would leave the workers idle.
//
// While all workers are busy, some may wait at any time. But the broker delivers those
// first, so none waited when it delivered a new intent. What this process gave back since the last look
// may wait, whatever the broker says: it handles a NAK after it has answered.
func (tr *Trimmer) mayPurge(p Progress, now time.Time, on link) bool {
	last := tr.heard
	tr.heard = heard{on, now, p.Delivered, tr.ledger.gaveBack.Load()}
	if tr.heard.gaveBack != last.gaveBack {
		return false
	}
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
	first, err := tr.ledger.store.IntentsFrom(ctx, 1, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	seqs = slices.DeleteFunc(seqs, func(seq uint64) bool { return seq < first[0].Seq })
	return tr.removeEach(ctx, connection, seqs)
}

// removeEach removes settled intents by their sequences, while the connection lasts.
func (tr *Trimmer) removeEach(ctx context.Context, connection link, seqs []uint64) error {
	return tr.ledger.eachRemoval(len(seqs), func(i int) error {
		if tr.ledger.link() != connection {
			return nil
		}
		return tr.ledger.store.DeleteIntent(ctx, seqs[i])
	})
}

// trimAtOnce bounds the single removals and looks under way, so that orders do not wait for them.
const trimAtOnce = 8

// eachRemoval calls remove for 0 to n-1, each of which removes one message. A server without replicas syncs
// each before it takes the next, and answers no question about a stream or a consumer while others
// wait (nats-server 2.15, processJSAPIRoutedRequests). An order without a record that is looked at again before
// its attempt needs such an answer: it would be held meanwhile, and hold the floor. So there the next one waits here.
func (lg *Ledger) eachRemoval(n int, remove func(i int) error) error {
	atOnce := 1
	if lg.store.Replicated() {
		atOnce = trimAtOnce
	}
	return lg.time.Each(n, atOnce, remove)
}

// look extends the prefix of the log that records settle, as far as the consumer's floor. The floor
// only says where to look: a broker that was killed may have stored an acknowledgement before what
// it acknowledges, or forgotten what it had delivered, and a person may have moved it. What this
// process settled itself over this connection is not read.
//
// A long log takes several calls. Trim removes what each has found.
func (tr *Trimmer) look(ctx context.Context, p Progress, over link) (looked bool, err error) {
	if over != tr.over || p.Floor < tr.trimmed { // a consumer that was made again begins at 0
		tr.over, tr.settled, tr.trimmed = over, 0, 0
	}
	again := age(tr.lookedAt, tr.ledger.time.Now()) > lookAgain
	if tr.stranded.Load() != 0 && !again {
		return false, nil
	}
	for page := 1; tr.settled < p.Floor; page++ {
		m, seen, over, read, err := tr.lookFrom(ctx, tr.settled+1, p.Floor, tr.finish)
		if err != nil {
			return false, err
		}
		if m != nil {
			tr.settled = m.Seq - 1
			tr.tellStranded(m)
			return true, nil
		}
		tr.settled, looked = seen, looked || read
		if over {
			break
		}
		if page == provePages {
			return looked, nil
		}
	}
	if tr.stranded.Load() == 0 && (p.Past() == p.Floor || !again) {
		return looked, nil
	}
	for next := p.Floor + 1; ; { // what nobody holds, and the broker counts as delivered
		m, seen, over, _, err := tr.lookFrom(ctx, next, p.Past(), tr.finish)
		if err != nil {
			return looked, err
		}
		if m != nil || over {
			tr.tellStranded(m)
			return true, nil
		}
		next = seen + 1
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
		m, seen, over, _, err := tr.lookFrom(ctx, next, p.Past(), tr.done)
		if m != nil || err != nil || over {
			return m, err
		}
		next = seen + 1
	}
}

// judge reports whether nothing is left to do about a stored intent that the broker counts as
// acknowledged.
type judge func(ctx context.Context, m *Message, last LastWord) (bool, error)

// lookFrom looks at the first ProveAtOnce of the intents from one sequence to another. It returns
// the first that is stranded; nil = none is, up to seen, which is stored, or was until this process
// removed it. That nothing is stored behind seen is not proven (R2). over says that there was nothing
// more to look at, and read that it asked the broker.
func (tr *Trimmer) lookFrom(ctx context.Context, next, last uint64, done judge) (m *Message, seen uint64, over, read bool, err error) {
	own := func(seq uint64) bool { return tr.acked.has(seq, tr.ledger.link()) }
	for seen = next - 1; seen < last && own(seen+1); {
		seen++
	}
	if seen >= last {
		return nil, seen, true, false, nil
	}
	most := tr.ledger.cfg.ProveAtOnce
	page, err := tr.ledger.store.IntentsFrom(ctx, seen+1, most)
	if err != nil {
		return nil, 0, false, true, err
	}
	over = len(page) == 0
	if later := slices.IndexFunc(page, func(m *Message) bool { return m.Seq > last }); later >= 0 {
		page, over, seen = page[:later], true, last
	} else if !over {
		seen = page[len(page)-1].Seq
		over = seen == last
	}
	page = slices.DeleteFunc(page, func(m *Message) bool { return own(m.Seq) })
	words, err := tr.ledger.wordsOf(ctx, page)
	if err != nil {
		return nil, 0, false, true, err
	}
	finished := make([]bool, len(page))
	err = tr.ledger.time.Each(len(page), trimAtOnce, func(i int) (err error) {
		finished[i], err = done(ctx, page[i], words[i])
		return err
	})
	if i := slices.Index(finished, false); i >= 0 {
		return page[i], seen, over, true, err
	}
	return nil, seen, over, true, err
}

// finish looks, and does what no delivery comes back to do (R14): it stores the letter that a settled intent
// lacks, because a late acceptance made it a conflict, or a worker reported a doubt after it was acknowledged.
func (tr *Trimmer) finish(ctx context.Context, m *Message, last LastWord) (bool, error) {
	done, err := tr.done(ctx, m, last)
	if err != nil || done || !m.SettledBy(last.Record) {
		return done, err
	}
	d := &Delivery{msg: m, Position: m.position(last.Record.Birth)}
	d.Invalid = tr.ledger.readIntent(d)
	err = tr.ledger.ensureLetter(ctx, d, last.Record, nil)
	return err == nil, err
}

// done looks, and changes nothing. An intent that a broker has brought back after its removal is done.
// So is one that has left meanwhile: its record may be about another intent since.
func (tr *Trimmer) done(ctx context.Context, m *Message, last LastWord) (bool, error) {
	if last.Unreadable != nil {
		return false, nil
	}
	if complete, err := tr.ledger.isComplete(ctx, m, last.Record); err != nil || complete {
		return complete, err
	}
	if r := last.Record; r != nil && !m.SettledBy(r) {
		if back, err := tr.ledger.broughtBack(ctx, m.IntentID(), m.position(0), r); err != nil || back {
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
	words, err := tr.ledger.wordsOf(ctx, []*Message{m})
	if err != nil {
		return false, err
	}
	done, err := tr.done(ctx, m, words[0])
	return !done, err
}

// tellStranded notes an intent that keeps the log from being trimmed; nil = there is none.
func (tr *Trimmer) tellStranded(m *Message) {
	tr.lookedAt = tr.ledger.time.Now()
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
		Msg("this intent has no outcome, and the broker counts it as acknowledged and delivers it to nobody: orderpost worker repair mends it. See After a broker was killed in docs/operations.md")
}

// maxAcknowledged bounds what a process remembers of the intents that it acknowledged.
const maxAcknowledged = 100_000

// acknowledged holds the intents that this process settled and acknowledged: the worker
// puts them in, and the trimmer takes those that linger in the log.
type acknowledged struct {
	mu      sync.Mutex
	on      link // the connection that the intents are about
	intents []acknowledgedIntent
	seqs    map[uint64]bool // of the intents
}

// acknowledgedIntent is one of them. They are kept in the order of their times.
type acknowledgedIntent struct {
	seq uint64
	at  time.Time
}

// put notes an intent. Another run of the broker may give the sequences of the former one
// to other intents.
func (a *acknowledged) put(seq uint64, at time.Time, on link) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on != on || a.seqs == nil {
		a.on, a.intents, a.seqs = on, nil, make(map[uint64]bool)
	}
	if len(a.intents) < maxAcknowledged {
		a.intents = append(a.intents, acknowledgedIntent{seq, at})
		a.seqs[seq] = true
	}
}

// take takes the sequences of the intents that were acknowledged before a time, on this
// connection.
func (a *acknowledged) take(before time.Time, on link) (seqs []uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on != on {
		return nil
	}
	n := 0
	for n < len(a.intents) && !a.intents[n].at.After(before) {
		seqs = append(seqs, a.intents[n].seq)
		delete(a.seqs, a.intents[n].seq)
		n++
	}
	a.intents = slices.Delete(a.intents, 0, n)
	return seqs
}

// has reports whether this process settled an intent over this connection.
func (a *acknowledged) has(seq uint64, on link) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.on == on && a.seqs[seq]
}

// forget forgets the intents up to a sequence: they have left the log.
func (a *acknowledged) forget(upTo uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.intents = slices.DeleteFunc(a.intents, func(i acknowledgedIntent) bool {
		if i.seq <= upTo {
			delete(a.seqs, i.seq)
		}
		return i.seq <= upTo
	})
}
