package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// maxOffenders bounds the list of an audit; the counts are complete.
const maxOffenders = 100

// Audit says whether the books balance (protocol R11).
type Audit struct {
	// Intents is the number of intents that had ever been stored when the audit
	// began; what came later is left out of its sum.
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
	// Moving counts the orders that several intents went through while the audit
	// read them: how many of those belong to its sum is not known.
	Moving uint64 `json:"moving"`
	// Looks is how often the audit read the streams.
	Looks int `json:"looks"`
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

// Unsure says whether the sum does not fit, and may do so only since orders moved
// again and again while the audit read them.
func (a *Audit) Unsure() bool {
	return a.OffenderCount == 0 && a.Moving > 0 && !a.Balanced()
}

func (a *Audit) offend(orderNo, format string, args ...any) {
	a.OffenderCount++
	if len(a.Offenders) < maxOffenders {
		a.Offenders = append(a.Offenders, Offender{orderNo, fmt.Sprintf(format, args...)})
	}
}

// An audit looks again while its books do not balance and orders move: a
// follower that lags, or an order_no that several intents went through, can
// spoil one look.
const (
	auditLooks = 5
	auditPause = 500 * time.Millisecond
)

// Audit reads the three streams, also while orders flow. It remembers about 8
// bytes for each result and each pending intent. Results older than the
// retention are gone, so that in an installation older than that the sum proves
// less; what contradicts is found nevertheless.
func (q *Queue) Audit(ctx context.Context) (*Audit, error) {
	for look := 1; ; look++ {
		a, moved, err := q.auditOnce(ctx)
		if err != nil {
			return nil, err
		}
		if a.Looks = look; a.Balanced() || a.OffenderCount > 0 || !moved || look == auditLooks {
			return a, nil
		}
		if err := pause(ctx, auditPause); err != nil {
			return nil, err
		}
	}
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

// settledBy: the record counts this stored intent, and not only an earlier one
// with the same ID.
func settledBy(intent *settle.Message, r *order.Record) bool {
	id := settle.IntentID(intent.Header.Get(settle.HeaderIntentID), intent.Seq, intent.Time)
	if c := r.ConflictOf(id); c != nil {
		return !intent.Time.After(c.EnqueuedAt)
	}
	return r.Outcome() != order.OutcomeNone && !intent.Time.After(r.EnqueuedAt) && r.IntentID == id
}

// sameTokens looks up, for each message of a page, the last message of the
// same order_no in another stream.
func (q *Queue) sameTokens(ctx context.Context, page []*settle.Message, prefix, stream, otherPrefix string) ([]*settle.Message, error) {
	subjects := make([]string, len(page))
	for i, raw := range page {
		subjects[i] = otherPrefix + settle.FileToken(strings.TrimPrefix(raw.Subject, prefix))
	}
	read := q.lastMsgs
	if stream == q.n.dead {
		read = q.lastHeads // letters are as large as their orders
	}
	found, err := read(ctx, stream, subjects)
	if err != nil {
		return nil, err
	}
	out := make([]*settle.Message, len(page))
	for i, subject := range subjects {
		out[i] = found[subject]
	}
	return out, nil
}

func isConflict(raw *settle.Message) bool {
	var l struct {
		Conflict bool `json:"conflict"`
	}
	return json.Unmarshal([]byte(raw.Header.Get(headerLetter)), &l) == nil && l.Conflict
}

// EachRecord passes the last word on every order_no to visit, in the order in
// which they were written, in constant memory.
func (q *Queue) EachRecord(ctx context.Context, visit func(*order.Record) error) error {
	return q.walk(ctx, q.n.results, q.n.resPre+"*", func(page []*settle.Message) error {
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
func (q *Queue) EachLetter(ctx context.Context, visit func(*settle.Letter) error) error {
	return q.walk(ctx, q.n.dead, q.n.deadPre+"*", func(page []*settle.Message) error {
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
