package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orderpost/internal/order"
)

// maxOffenders bounds the list of an audit; the counts are complete.
const maxOffenders = 100

// Audit says whether the books balance (protocol R11).
type Audit struct {
	// Intents is the number of intents that were ever stored.
	Intents uint64 `json:"intents"`
	// Settled is the number of intents that have their outcome.
	Settled uint64 `json:"settled"`
	// Pending is the number of intents that are stored and have none yet.
	Pending uint64 `json:"pending"`
	// Unacked is the number of intents that have their outcome and are still
	// stored: a crash came between result and acknowledgement, or between that
	// and the removal. Their next delivery removes them, or a worker
	// (RemoveLeftovers).
	Unacked uint64 `json:"unacked"`
	// Expired is the number of intents whose outcome is not kept any more. An
	// audit cannot tell them from intents that were removed by hand, and counts
	// any only where the results stream is older than the retention.
	Expired uint64 `json:"expired"`
	// Outcomes counts the last words by outcome, "retrying" for notes.
	Outcomes map[string]uint64 `json:"outcomes"`
	Letters  uint64            `json:"dead_letters"`
	// Conflicts counts the letters of intents whose order_no was accepted
	// before with another body.
	Conflicts uint64 `json:"conflicts"`
	// Orphans counts the letters that are older than the retention and whose
	// result has expired, as earlier versions let it (ADR 5).
	Orphans uint64 `json:"orphans"`
	// Offenders names what does not fit, at most 100; OffenderCount is complete.
	Offenders     []Offender `json:"offenders,omitempty"`
	OffenderCount int        `json:"offender_count"`
}

// Offender is one order_no about which the streams contradict each other.
type Offender struct {
	OrderNo string `json:"order_no"`
	Problem string `json:"problem"`
}

// Balanced says whether every intent is accounted for and nothing contradicts.
func (a *Audit) Balanced() bool {
	return a.OffenderCount == 0 && a.Settled+a.Pending+a.Expired == a.Intents
}

func (a *Audit) offend(orderNo, format string, args ...any) {
	a.OffenderCount++
	if len(a.Offenders) < maxOffenders {
		a.Offenders = append(a.Offenders, Offender{orderNo, fmt.Sprintf(format, args...)})
	}
}

// Audit reads the three streams in constant memory. It is exact while nothing
// is being worked on; beside running workers its counts may be off by what
// moved meanwhile. Results older than the retention are gone, so that in an
// installation older than that the sum proves less; what contradicts is found
// nevertheless.
func (q *Queue) Audit(ctx context.Context) (*Audit, error) {
	a := &Audit{Outcomes: make(map[string]uint64)}
	counts, err := q.Count(ctx)
	if err != nil {
		return nil, err
	}
	a.Intents = counts.LastIntent
	floor, err := q.ackFloor(ctx) // before the rest: what was acknowledged by now has its outcome
	if err != nil {
		return nil, err
	}
	if err := q.walk(ctx, q.n.results, q.n.resPre+"*", func(page []*rawMsg) error { return q.auditResults(ctx, a, page) }); err != nil {
		return nil, err
	}
	if err := q.walk(ctx, q.n.intents, q.n.newPre+"*", func(page []*rawMsg) error { return q.auditPending(ctx, a, page, floor) }); err != nil {
		return nil, err
	}
	if err := q.walk(ctx, q.n.dead, q.n.deadPre+"*", func(page []*rawMsg) error { return q.auditLetters(ctx, a, page) }); err != nil {
		return nil, err
	}
	return a, q.auditExpired(ctx, a)
}

// auditExpired explains what is missing from the sum by expiry, where there was
// time for that.
func (q *Queue) auditExpired(ctx context.Context, a *Audit) error {
	stream, err := q.stream(ctx, q.n.results)
	if err != nil {
		return err
	}
	if have := a.Settled + a.Pending; have < a.Intents && time.Since(stream.CachedInfo().Created) > q.cfg.ResultRetention {
		a.Expired = a.Intents - have
	}
	return nil
}

// auditResults: every failed result has its letter, and no accepted one has.
func (q *Queue) auditResults(ctx context.Context, a *Audit, page []*rawMsg) error {
	letters, err := q.sameTokens(ctx, page, q.n.resPre, q.n.dead, q.n.deadPre)
	if err != nil {
		return err
	}
	for i, raw := range page {
		entry, err := decodeRecord(raw)
		if err != nil {
			a.offend(raw.Subject, "%v", err)
			continue
		}
		r := entry.Record
		a.Settled += uint64(r.Settled)
		a.Outcomes[r.Word]++
		needs := r.NeedsLetter()
		switch letter := letters[i]; {
		case needs && letter == nil:
			a.offend(r.OrderNo, "outcome %s without a dead letter", r.Word)
		case r.Outcome() == order.OutcomeAccepted && letter != nil && !isConflict(letter):
			a.offend(r.OrderNo, "accepted, but a dead letter is left")
		}
	}
	return nil
}

// auditPending counts the stored intents that have no outcome yet. None of them
// can lie at or below the floor: the broker would deliver it to nobody.
func (q *Queue) auditPending(ctx context.Context, a *Audit, page []*rawMsg, floor uint64) error {
	records, err := q.sameTokens(ctx, page, q.n.newPre, q.n.results, q.n.resPre)
	if err != nil {
		return err
	}
	for i, raw := range page {
		if records[i] != nil {
			entry, err := decodeRecord(records[i])
			if err == nil && settledBy(raw, entry.Record) {
				a.Unacked++
				continue
			}
		}
		if raw.Seq > floor {
			a.Pending++
			continue
		}
		stored, settled, err := q.settledLeftover(ctx, raw.Seq)
		if err != nil {
			return err
		}
		if settled {
			a.Unacked++
			continue
		}
		a.Pending++
		if stored != nil {
			a.offend(q.orderNoOf(raw), "stored without an outcome, but the broker counts it as acknowledged and will deliver it to nobody; see After a broker was killed in docs/operations.md")
		}
	}
	return nil
}

// settledBy: the record counts this stored intent, and not only an earlier one
// with the same ID.
func settledBy(intent *rawMsg, r *order.Record) bool {
	return r.Outcome() != order.OutcomeNone && !intent.Time.After(r.EnqueuedAt) &&
		r.IntentID == intentID(intent.Header.Get(HeaderIntentID), intent.Seq, intent.Time)
}

func (q *Queue) auditLetters(ctx context.Context, a *Audit, page []*rawMsg) error {
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
			a.offend(letter.OrderNo, "dead letter without a result (removed by hand?)")
		}
	}
	return nil
}

// sameTokens looks up, for each message of a page, the last message of the
// same order_no in another stream.
func (q *Queue) sameTokens(ctx context.Context, page []*rawMsg, prefix, stream, otherPrefix string) ([]*rawMsg, error) {
	subjects := make([]string, len(page))
	for i, raw := range page {
		subjects[i] = otherPrefix + fileToken(strings.TrimPrefix(raw.Subject, prefix))
	}
	found, err := q.lastMsgs(ctx, stream, subjects)
	if err != nil {
		return nil, err
	}
	out := make([]*rawMsg, len(page))
	for i, subject := range subjects {
		out[i] = found[subject]
	}
	return out, nil
}

func isConflict(raw *rawMsg) bool {
	var l struct {
		Conflict bool `json:"conflict"`
	}
	return json.Unmarshal([]byte(raw.Header.Get(headerLetter)), &l) == nil && l.Conflict
}

// EachRecord passes the last word on every order_no to visit, in the order in
// which they were written, in constant memory.
func (q *Queue) EachRecord(ctx context.Context, visit func(*order.Record) error) error {
	return q.walk(ctx, q.n.results, q.n.resPre+"*", func(page []*rawMsg) error {
		for _, raw := range page {
			entry, err := decodeRecord(raw)
			if err != nil {
				return err
			}
			if err := visit(entry.Record); err != nil {
				return err
			}
		}
		return nil
	})
}

// EachLetter passes every dead letter to visit, oldest first, in constant
// memory. The tail of a body that was stored in two parts is not read.
func (q *Queue) EachLetter(ctx context.Context, visit func(*Letter) error) error {
	return q.walk(ctx, q.n.dead, q.n.deadPre+"*", func(page []*rawMsg) error {
		for _, raw := range page {
			letter, err := decodeLetter(raw)
			if err != nil {
				return err
			}
			if err := visit(letter); err != nil {
				return err
			}
		}
		return nil
	})
}
