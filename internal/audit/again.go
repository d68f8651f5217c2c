package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// changedRounds is how often an order is read again that changes while it is read.
const changedRounds = 20

// againSize is how many orders are read again at once.
const againSize = 256

// readAgain adds up the orders that changed. An order's record and its stored
// intent belong together if the record was the same before and after.
func (l *auditor) readAgain(ctx context.Context) error {
	left := slices.Sorted(maps.Values(l.changed))
	for round := 0; len(left) > 0 && round < changedRounds; round++ {
		var moved []string
		for tokens := range slices.Chunk(left, againSize) {
			before, err := lastOf(ctx, l.q.Results(), tokens)
			if err != nil {
				return err
			}
			intents, err := l.lastIntents(ctx, tokens)
			if err != nil {
				return err
			}
			after, err := lastOf(ctx, l.q.Results(), tokens)
			if err != nil {
				return err
			}
			for i, token := range tokens {
				if seqOf(before[i]) != seqOf(after[i]) {
					moved = append(moved, token)
					continue
				}
				l.add(token, after[i], intents[i])
			}
		}
		left = moved
	}
	l.a.Moving, l.a.Unnamed = l.a.Moving+uint64(len(left)), len(l.unnamed)
	return nil
}

// add counts one order that readAgain read.
func (l *auditor) add(token string, record, intent *settle.Message) {
	var r *order.Record
	if record != nil {
		entry, err := queue.DecodeRecord(record)
		if err != nil {
			l.a.Offend(record.Subject, "%v", err)
		} else {
			r = entry.Record
			l.a.outcome(r.Outcome())
			l.a.Settled += uint64(r.Settled) - l.later(r)
			l.check(token, r)
			for _, seq := range r.Letters() {
				if key, unnamed := l.unnamed[seq]; unnamed && key == letterKey(token) {
					delete(l.unnamed, seq)
					l.count(isConflict(r, seq))
				}
			}
		}
	}
	if intent != nil && intent.Seq <= l.lastIntent {
		l.a.stored(r != nil && intent.SettledBy(r))
	}
}

// later counts the intents that a record has settled and that were stored after
// the audit began. The record names only the position of the last copy of each. If it settled
// others too, those may be later as well.
func (l *auditor) later(r *order.Record) (n uint64) {
	began := order.Position{Seq: l.lastIntent, Birth: l.birth}
	if !r.Last(l.birth).After(began, l.birth) {
		return 0
	}
	if r.Outcome() != order.OutcomeNone && r.After(began, l.birth) {
		n++
	}
	for i := range r.Conflicts {
		if c := &r.Conflicts[i]; c.After(began, l.birth) && c.IntentID != r.IntentID {
			n++
		}
	}
	if n = min(n, uint64(r.Settled)); n < uint64(r.Settled) {
		l.a.Moving++
	}
	return n
}

func seqOf(m *settle.Message) uint64 {
	if m == nil {
		return 0
	}
	return m.Seq
}

// lastOf reads the last message of each token; nil where there is none.
func lastOf(ctx context.Context, stream queue.Stream, tokens []string) ([]*settle.Message, error) {
	out := make([]*settle.Message, len(tokens))
	return out, stream.Last(ctx, tokens, func(i int, m *settle.Message) { out[i] = m })
}

// lastIntents reads the stored intents. It finds one with an odd subject by its
// sequence.
func (l *auditor) lastIntents(ctx context.Context, tokens []string) ([]*settle.Message, error) {
	out, err := lastOf(ctx, l.q.Intents(), tokens)
	for i := 0; err == nil && i < len(tokens); i++ {
		if seq := l.odd[tokens[i]]; seq != 0 {
			out[i], err = l.q.Store().IntentAt(ctx, seq)
		}
	}
	return out, err
}

// maxSuspects bounds what is looked at a second time.
const maxSuspects = 10_000

// suspect notes an order whose streams seem to contradict each other. Letters and
// records are written and removed one after another, so only another look tells
// whether they do.
func (l *auditor) suspect(token string) {
	if len(l.suspects) < maxSuspects {
		l.suspects = append(l.suspects, token)
		return
	}
	l.a.Offend(token, "result and dead letter contradict each other")
}

// A contradiction counts once it has outlasted so many looks.
const (
	suspectLooks = 8
	suspectPause = 250 * time.Millisecond
)

// confirm looks at the suspects again: several times while orders move.
func (l *auditor) confirm(ctx context.Context) error {
	for look := 1; len(l.suspects) > 0; look++ {
		last := !l.moved() || look == suspectLooks
		var still []string
		for _, token := range l.suspects {
			no, problem, err := l.contradiction(ctx, token)
			switch {
			case err != nil:
				return err
			case problem != "" && last:
				l.a.Offend(no, "%s", problem)
			case problem != "":
				still = append(still, token)
			}
		}
		if l.suspects = still; len(still) > 0 {
			if err := settle.Sleep(ctx, suspectPause); err != nil {
				return err
			}
		}
	}
	return nil
}

// contradiction reads an order's streams at their leaders. A stored intent explains
// everything: its worker still completes record and letter (R4).
func (l *auditor) contradiction(ctx context.Context, token string) (orderNo, problem string, err error) {
	store := l.q.Store()
	for range changedRounds {
		before, err := store.Record(ctx, token)
		if errors.Is(err, settle.ErrUnreadable) {
			return "", "", nil // an offender of its own
		}
		if err != nil || before.Record == nil {
			return "", "", err
		}
		intents, err := l.lastIntents(ctx, []string{token})
		if err != nil || intents[0] != nil {
			return "", "", err
		}
		if problem = ""; lacksLetter(before.Record) {
			problem = fmt.Sprintf("outcome %s without a dead letter", before.Record.Word)
		}
		for _, seq := range before.Record.Letters() {
			letter, err := store.Letter(ctx, token, seq)
			if err != nil {
				return "", "", err
			}
			if letter == nil {
				problem = fmt.Sprintf("outcome %s, and the dead letter %d that it names is not stored (removed by hand?)", before.Record.Word, seq)
			}
		}
		after, err := store.Record(ctx, token)
		if err != nil {
			return "", "", err
		}
		if before.Seq == after.Seq {
			return before.Record.OrderNo, problem, nil
		}
	}
	return "", "", nil // it moves: no contradiction stays
}
