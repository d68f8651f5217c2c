package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// changedRounds is how often an order that changes while it is read is read.
const changedRounds = 20

// readAgain adds up the orders that changed. An order's record and its stored
// intent belong together where the record was the same before and after.
func (l *auditor) readAgain(ctx context.Context) error {
	q := l.q
	left := slices.Sorted(maps.Values(l.changed))
	for round := 0; len(left) > 0 && round < changedRounds; round++ {
		var moved []string
		for tokens := range slices.Chunk(left, lookupSize) {
			before, err := q.lastByToken(ctx, q.n.results, q.n.resPre, tokens)
			if err != nil {
				return err
			}
			intents, err := l.lastIntents(ctx, tokens)
			if err != nil {
				return err
			}
			letters, err := q.lastByToken(ctx, q.n.dead, q.n.deadPre, tokens)
			if err != nil {
				return err
			}
			after, err := q.lastByToken(ctx, q.n.results, q.n.resPre, tokens)
			if err != nil {
				return err
			}
			for i, token := range tokens {
				if seqOf(before[i]) != seqOf(after[i]) {
					moved = append(moved, token)
					continue
				}
				l.add(token, after[i], intents[i], letters[i])
			}
		}
		left = moved
	}
	l.a.Moving += uint64(len(left))
	return nil
}

// add counts one order that was read by itself.
func (l *auditor) add(token string, raw, intent, letter *settle.Message) {
	var r *order.Record
	if raw != nil {
		entry, err := decodeRecord(raw)
		if err != nil {
			l.a.offend(raw.Subject, "%v", err)
		} else {
			r = entry.Record
			l.a.outcome(r.Outcome())
			l.a.Settled += uint64(r.Settled) - l.later(r)
			l.compare(token, r, letter)
		}
	}
	if intent != nil && intent.Seq <= l.lastIntent {
		l.a.stored(r != nil && settledBy(intent, r))
	}
}

// later counts the intents that a record has settled and that were stored after
// the audit began. The record tells the time of the last one alone: where others
// were settled, too, those may be later as well.
func (l *auditor) later(r *order.Record) (n uint64) {
	if l.lastStored.Unix() <= 0 && l.lastIntent > 0 || !r.LastEnqueued().After(l.lastStored) {
		return 0 // an emptied stream can have lost the time of its last intent
	}
	if r.Outcome() != order.OutcomeNone && r.EnqueuedAt.After(l.lastStored) {
		n++
	}
	for i := range r.Conflicts {
		if c := &r.Conflicts[i]; c.EnqueuedAt.After(l.lastStored) && c.IntentID != r.IntentID {
			n++
		}
	}
	if n = min(n, uint64(r.Settled)); n < uint64(r.Settled) {
		l.a.Moving++
	}
	return n
}

func seqOf(raw *settle.Message) uint64 {
	if raw == nil {
		return 0
	}
	return raw.Seq
}

// lastByToken reads the last message of each token; nil where there is none.
func (q *Queue) lastByToken(ctx context.Context, stream, prefix string, tokens []string) ([]*settle.Message, error) {
	subjects := make([]string, len(tokens))
	for i, token := range tokens {
		subjects[i] = prefix + token
	}
	found := make(map[string]*settle.Message, len(subjects))
	err := q.lastOfEach(ctx, stream, subjects, func(raw *settle.Message) { found[raw.Subject] = raw })
	out := make([]*settle.Message, len(tokens))
	for i, s := range subjects {
		out[i] = found[s]
	}
	return out, err
}

// lastIntents reads the stored intents. One with an odd subject is found by its
// sequence.
func (l *auditor) lastIntents(ctx context.Context, tokens []string) ([]*settle.Message, error) {
	q := l.q
	out, err := q.lastByToken(ctx, q.n.intents, q.n.newPre, tokens)
	for i := 0; err == nil && i < len(tokens); i++ {
		if seq := l.odd[tokens[i]]; seq != 0 {
			out[i], err = q.msgAt(ctx, q.n.intents, seq)
		}
	}
	return out, err
}

// maxSuspects bounds what is looked at a second time.
const maxSuspects = 10_000

// suspect notes an order whose streams seem to contradict each other. Records,
// letters and intents are written one after another, so that only another look
// tells.
func (l *auditor) suspect(token string) {
	if len(l.suspects) < maxSuspects {
		l.suspects = append(l.suspects, token)
		return
	}
	l.a.offend(token, "result and dead letter contradict each other")
}

// A contradiction stands where it is still there after so many looks.
const (
	suspectLooks = 8
	suspectPause = 250 * time.Millisecond
)

// confirm looks at the suspects again: several times while orders move.
func (l *auditor) confirm(ctx context.Context, moved bool) error {
	for look := 1; len(l.suspects) > 0; look++ {
		last := !moved || look == suspectLooks
		var still []string
		for _, token := range l.suspects {
			no, problem, err := l.contradiction(ctx, token)
			switch {
			case err != nil:
				return err
			case problem != "" && last:
				l.a.offend(no, "%s", problem)
			case problem != "":
				still = append(still, token)
			}
		}
		if l.suspects = still; len(still) > 0 {
			if err := pause(ctx, suspectPause); err != nil {
				return err
			}
		}
	}
	return nil
}

// contradiction reads an order's streams at their leaders. While an intent is
// stored, whoever has it completes result and letter (R4), and after a replay the
// letter is in the queue.
func (l *auditor) contradiction(ctx context.Context, token string) (orderNo, problem string, err error) {
	q := l.q
	for range changedRounds {
		before, err := q.store.Record(ctx, token)
		if errors.Is(err, settle.ErrUnreadable) {
			return "", "", nil // an offender of its own
		}
		if err != nil {
			return "", "", err
		}
		intents, err := l.lastIntents(ctx, []string{token})
		if err != nil {
			return "", "", err
		}
		letter, err := q.store.Letter(ctx, token)
		if errors.Is(err, settle.ErrNotALetter) {
			return "", "", nil
		}
		if err != nil {
			return "", "", err
		}
		after, err := q.store.Record(ctx, token)
		if err != nil {
			return "", "", err
		}
		if before.Seq == after.Seq {
			orderNo, problem = contradicts(after.Record, intents[0], letter)
			return orderNo, problem, nil
		}
	}
	return "", "", nil // it moves: no contradiction stays
}

func contradicts(r *order.Record, intent *settle.Message, letter *settle.Letter) (orderNo, problem string) {
	switch {
	case r == nil && letter != nil && !letter.Conflict:
		return letter.OrderNo, "dead letter without a result (removed by hand?)"
	case r == nil || intent != nil:
		return "", ""
	case r.NeedsLetter() && letter == nil:
		return r.OrderNo, fmt.Sprintf("outcome %s without a dead letter", r.Word)
	case r.Outcome() == order.OutcomeAccepted && letter != nil && !letter.Conflict:
		return r.OrderNo, "accepted, but a dead letter is left"
	default:
		return "", ""
	}
}
