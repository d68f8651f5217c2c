package queue

import (
	"context"
	"hash/maphash"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// auditor is one look at the books while they are being written.
//
// It counts the intents that were stored up to a sequence, and reads the results
// that were written up to another, which it takes before. An order whose record
// stays the same from then on counts as it was read. Those whose records were
// written meanwhile are named by the end of the results stream: what was read of
// them is left out, and they are read once more, one by one.
type auditor struct {
	q    *Queue
	a    *Audit
	seed maphash.Seed

	lastResult, lastIntent uint64
	lastStored             time.Time // of lastIntent
	floor                  uint64

	results []uint64          // see noteResult
	large   map[uint64]uint64 // counts that do not fit into results
	intents []uint64          // see noteIntent
	odd     map[string]uint64 // intents whose subject does not follow from their token
	changed map[uint64]string // tokens by key

	suspects []string // tokens
}

func newAuditor(q *Queue) *auditor {
	return &auditor{q: q, a: &Audit{Outcomes: make(map[string]uint64)}, seed: maphash.MakeSeed(),
		large: make(map[uint64]uint64), odd: make(map[string]uint64), changed: make(map[uint64]string)}
}

// auditOnce says also whether anything moved while it read.
func (q *Queue) auditOnce(ctx context.Context) (a *Audit, moved bool, err error) {
	l := newAuditor(q)
	for _, step := range []func(context.Context) error{l.begin, l.readResults, l.readIntents, l.readLetters, l.readChanges, l.sum} {
		if err := step(ctx); err != nil {
			return nil, false, err
		}
	}
	moved = len(l.changed) > 0 || l.a.Pending+l.a.Unacked > 0
	if err := l.confirm(ctx, moved); err != nil {
		return nil, false, err
	}
	return l.a, moved, q.auditExpired(ctx, l.a)
}

// begin takes the end of the results before the end of the intents: whatever a
// record up to there has settled, was stored up to here.
func (l *auditor) begin(ctx context.Context) (err error) {
	q := l.q
	if l.lastResult, err = q.LastResult(ctx); err != nil {
		return err
	}
	stream, err := q.stream(ctx, q.n.intents)
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	l.lastIntent, l.lastStored, l.a.Intents = state.LastSeq, state.LastTime, state.LastSeq
	l.floor, err = q.ackFloor(ctx) // before the rest: what was acknowledged by now has its outcome
	return err
}

// The low bits of what is remembered: of a result its word and what it settled,
// of an intent whether it has its outcome. The rest is a hash of the token.
const (
	wordBits    = 4
	lowBits     = 12
	mostSettled = 1<<(lowBits-wordBits) - 1
)

func (l *auditor) key(token string) uint64 {
	return maphash.String(l.seed, token) >> lowBits << lowBits
}

func (l *auditor) noteResult(token string, r *order.Record) {
	n := uint64(r.Settled)
	if n >= mostSettled {
		l.large[l.key(token)], n = n, mostSettled
	}
	l.results = append(l.results, l.key(token)|n<<wordBits|uint64(r.Outcome()))
}

func (l *auditor) noteIntent(token string, settled bool) {
	v := l.key(token)
	if settled {
		v |= 1
	}
	l.intents = append(l.intents, v)
}

// walkTo is walk up to a sequence.
func (q *Queue) walkTo(ctx context.Context, stream, filter string, last uint64, visit func(page []*settle.Message) error) error {
	for next := uint64(1); next != 0 && next <= last; {
		var page []*settle.Message
		var err error
		if page, next, err = q.page(ctx, stream, filter, next); err != nil {
			return err
		}
		for len(page) > 0 && page[len(page)-1].Seq > last {
			page = page[:len(page)-1]
		}
		if len(page) > 0 {
			if err := visit(page); err != nil {
				return err
			}
		}
	}
	return nil
}

// readResults: every failed result has its letter, and no accepted one has.
func (l *auditor) readResults(ctx context.Context) error {
	q := l.q
	return q.walkTo(ctx, q.n.results, q.n.resPre+"*", l.lastResult, func(page []*settle.Message) error {
		letters, err := q.sameTokens(ctx, page, q.n.resPre, q.n.dead, q.n.deadPre)
		if err != nil {
			return err
		}
		for i, raw := range page {
			token := strings.TrimPrefix(raw.Subject, q.n.resPre)
			entry, err := decodeRecord(raw)
			if err != nil {
				l.a.offend(raw.Subject, "%v", err)
				continue
			}
			l.noteResult(token, entry.Record)
			l.compare(token, entry.Record, letters[i])
		}
		return nil
	})
}

// compare a record with the letter beside it.
func (l *auditor) compare(token string, r *order.Record, letter *settle.Message) {
	if r.NeedsLetter() && letter == nil || r.Outcome() == order.OutcomeAccepted && letter != nil && !isConflict(letter) {
		l.suspect(token)
	}
}

// readIntents tells those that have no outcome yet from the others. None of them
// can lie at or below the floor: the broker would deliver it to nobody.
func (l *auditor) readIntents(ctx context.Context) error {
	q := l.q
	return q.walkTo(ctx, q.n.intents, q.n.newPre+"*", l.lastIntent, func(page []*settle.Message) error {
		records, err := q.sameTokens(ctx, page, q.n.newPre, q.n.results, q.n.resPre)
		if err != nil {
			return err
		}
		for i, raw := range page {
			settled := false
			if records[i] != nil {
				entry, err := decodeRecord(records[i])
				settled = err == nil && settledBy(raw, entry.Record)
			}
			if !settled && raw.Seq <= l.floor {
				if settled, err = l.stranded(ctx, raw); err != nil {
					return err
				}
			}
			plain := strings.TrimPrefix(raw.Subject, q.n.newPre)
			token := settle.FileToken(plain)
			if token != plain {
				l.odd[token] = raw.Seq
			}
			l.noteIntent(token, settled)
		}
		return nil
	})
}

// stranded looks again at an intent that the broker counts as acknowledged.
func (l *auditor) stranded(ctx context.Context, raw *settle.Message) (settled bool, err error) {
	stored, settled, err := l.q.settledLeftover(ctx, raw.Seq)
	if err == nil && !settled && stored != nil {
		l.a.offend(l.q.orderNoOf(raw), "stored without an outcome, but the broker counts it as acknowledged and will deliver it to nobody; see After a broker was killed in docs/operations.md")
	}
	return settled, err
}

func (l *auditor) readLetters(ctx context.Context) error {
	q, a := l.q, l.a
	return q.walk(ctx, q.n.dead, q.n.deadPre+"*", func(page []*settle.Message) error {
		records, err := q.sameTokens(ctx, page, q.n.deadPre, q.n.results, q.n.resPre)
		if err != nil {
			return err
		}
		for i, raw := range page {
			a.Letters++
			letter, err := decodeLetter(raw)
			switch {
			case err != nil:
				a.offend(raw.Subject, "%v", err)
			case letter.Conflict:
				a.Conflicts++
			case records[i] == nil && time.Since(raw.Time) > q.cfg.ResultRetention:
				a.Orphans++
			case records[i] == nil:
				l.suspect(strings.TrimPrefix(raw.Subject, q.n.deadPre))
			}
		}
		return nil
	})
}

// readChanges names the orders whose records were written since begin.
func (l *auditor) readChanges(ctx context.Context) error {
	q := l.q
	for next := l.lastResult + 1; next != 0; {
		var page []*settle.Message
		var err error
		if page, next, err = q.page(ctx, q.n.results, q.n.resPre+"*", next); err != nil {
			return err
		}
		for _, raw := range page {
			token := strings.TrimPrefix(raw.Subject, q.n.resPre)
			l.changed[l.key(token)] = token
		}
	}
	return nil
}

// sum adds up what stayed as it was read, and then what changed.
func (l *auditor) sum(ctx context.Context) error {
	a := l.a
	for _, v := range l.results {
		key := v >> lowBits << lowBits
		if _, changed := l.changed[key]; changed {
			continue
		}
		n := v >> wordBits & mostSettled
		if n == mostSettled {
			n = l.large[key]
		}
		a.Settled += n
		a.outcome(order.Outcome(v & (1<<wordBits - 1)))
	}
	for _, v := range l.intents {
		if _, changed := l.changed[v>>lowBits<<lowBits]; changed {
			continue
		}
		a.stored(v&1 == 1)
	}
	return l.readAgain(ctx)
}

func (a *Audit) outcome(o order.Outcome) {
	word := o.String()
	if o == order.OutcomeNone {
		word = order.Retrying
	}
	a.Outcomes[word]++
}

func (a *Audit) stored(settled bool) {
	if settled {
		a.Unacked++
	} else {
		a.Pending++
	}
}
