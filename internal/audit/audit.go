package audit

import (
	"context"
	"fmt"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// maxOffenders bounds the list of an audit; the counts are complete.
const maxOffenders = 100

// AuditResult says whether the books balance (R11).
type AuditResult struct {
	// Intents is the number of intents that had ever been stored when the audit
	// began; later ones are left out of its sum.
	Intents uint64 `json:"intents"`
	// Settled is the number of intents that have their outcome.
	Settled uint64 `json:"settled"`
	// Pending is the number of intents that are stored and have none yet.
	Pending uint64 `json:"pending"`
	// Waiting is the number of intents in the waiting room. They are not among
	// Intents before they are moved; those that are withdrawn there never are. The sum
	// is over the intents stream: the waiting room keeps no trace of what left it, so
	// the audit proves that what was moved is settled, not that everything was moved.
	Waiting uint64 `json:"waiting"`
	// Unacked is the number of intents that have their outcome and are still
	// stored. Workers remove them in groups, a moment after the acknowledgement
	// (R14). After a crash before that, their next delivery acknowledges them.
	Unacked uint64 `json:"unacked"`
	// Forgotten is the number of intents whose outcome is not kept any more, as
	// the worker that forgot them counted.
	Forgotten uint64 `json:"forgotten"`
	// Outcomes counts the last words by outcome, "retrying" for notes.
	Outcomes map[string]uint64 `json:"outcomes"`
	// Letters counts the dead letters that records name.
	Letters uint64 `json:"dead_letters"`
	// Unnamed counts those that no record names. A worker removes them within an hour or so.
	Unnamed int `json:"unnamed_letters"`
	// Conflicts counts the letters of intents whose order_no had been accepted
	// with another body.
	Conflicts uint64 `json:"conflicts"`
	// Moving counts the orders for which several intents were settled while the
	// audit read them. It is not known how many of those intents belong to its sum.
	Moving uint64 `json:"moving"`
	// Awaiting counts the imports that wait for an approval.
	Awaiting int `json:"awaiting_approval,omitempty"`
	// Read counts the results that this audit read. Taken counts those that it took from earlier audits, because
	// the same ones are still stored. FullAt is when the last audit that read all ended.
	Read   uint64    `json:"read"`
	Taken  uint64    `json:"taken"`
	FullAt time.Time `json:"full_at,omitzero"`
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

// Balanced says whether every intent is accounted for and the streams agree.
func (a *AuditResult) Balanced() bool {
	return a.OffenderCount == 0 && a.Settled+a.Pending+a.Forgotten == a.Intents
}

// Unsure says whether the sum does not fit, and the only reason may be that
// orders changed again and again while the audit read them.
func (a *AuditResult) Unsure() bool {
	return a.OffenderCount == 0 && a.Moving > 0 && !a.Balanced()
}

// Offend adds a contradiction. orderNo may also name an import.
func (a *AuditResult) Offend(orderNo, format string, args ...any) {
	a.OffenderCount++
	if len(a.Offenders) < maxOffenders {
		a.Offenders = append(a.Offenders, Offender{orderNo, fmt.Sprintf(format, args...)})
	}
}

// An audit looks again while the sum does not fit and orders move. Follower lag,
// or an order_no for which several intents were settled meanwhile, can spoil one
// look.
const (
	auditLooks = 5
	auditPause = 500 * time.Millisecond
)

// Audit reads all intents, results and dead letters, also while orders flow. Of results older than the retention it knows
// how many intents they settled.
func Audit(ctx context.Context, q *queue.Queue) (*AuditResult, error) {
	return Run(ctx, q, Options{Full: true})
}

// AuditProgress says how far an audit is.
type AuditProgress struct {
	// Look counts the looks from 1.
	Look int
	// Read of Of messages were read in this look. More may come meanwhile.
	Read, Of uint64
}

// Options say how an audit reads.
type Options struct {
	// Full reads all results. Otherwise the audit goes on from the last one: it reads the chunks of which a result
	// was written or removed since. That finds all but a result that was damaged in its place.
	Full bool
	// Tell is called after each page; nil = nobody wants to know.
	Tell func(AuditProgress)

	chunk uint64 // how many sequences a chunk has; 0 = chunkSize
}

// Run is Audit with options. It reads all results if the books do not balance otherwise. Of those that balance it
// remembers what they add up to, for the next audit. It keeps about 8 bytes for each pending intent and for each
// result of a chunk that changes meanwhile, and 32 for each dead letter.
func Run(ctx context.Context, q *queue.Queue, o Options) (*AuditResult, error) {
	if o.chunk == 0 {
		o.chunk = chunkSize
	}
	read := make(map[uint64]*chunk) // by the look before
	for look, since := 1, 1; ; look++ {
		l := newAuditor(q, o)
		l.chunks, l.progress.Look = read, look
		if err := l.look(ctx); err != nil {
			return nil, err
		}
		l.a.Looks, read = look, l.chunks
		switch {
		case l.a.Balanced():
			l.remember(ctx)
			return l.a, nil
		case l.a.OffenderCount == 0 && l.moved() && look-since < auditLooks-1:
			if err := settle.Sleep(ctx, auditPause); err != nil {
				return nil, err
			}
		case l.a.Taken > 0: // in doubt, everything is read
			o.Full, since = true, look+1
			clear(read)
		default:
			return l.a, nil
		}
	}
}
