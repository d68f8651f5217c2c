package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"orderpost/internal/order"
)

// LetterReserve is how much of the broker's max_payload a letter's header may
// take besides the body, in bytes. Intake refuses bodies that leave less. The
// header of a foreign body that leaves less is cut.
const LetterReserve = 64 << 10

// Bounds of what a letter keeps besides the body.
const (
	maxTrail       = 50
	maxHeaderBytes = 16 << 10
)

// Letter is a dead letter: the body of an intent that needs a person, with everything that
// was known about it when it was stored. It never changes, and counts for nothing unless the record of
// its order_no names it: the record says what became of the intent (About).
type Letter struct {
	OrderNo  string        `json:"order_no"`
	Outcome  order.Outcome `json:"outcome"`
	Reason   string        `json:"reason,omitempty"`
	Error    string        `json:"error,omitempty"`
	Verdict  order.Verdict `json:"verdict,omitzero"`
	Status   int           `json:"status,omitempty"`
	Response string        `json:"response,omitempty"`
	// Said is what the answer itself says (order.Record.Said).
	Said string `json:"said,omitempty"`
	order.History
	// Trail lists the attempts of the last submission, oldest first, at most 50.
	Trail []order.Attempt `json:"trail,omitempty"`

	IntentID string `json:"intent_id"`
	BodyHash string `json:"body_hash,omitempty"`
	Batch    string `json:"batch,omitempty"`
	Source   string `json:"source,omitempty"`
	Worker   string `json:"worker,omitempty"`
	// Position is that of the intent.
	order.Position
	FiledAt time.Time `json:"filed_at"`

	// Subject and Headers are the intent's own, stored as data. A live
	// Nats-Msg-Id would make the broker swallow a second letter.
	Subject string              `json:"subject"`
	Headers map[string][]string `json:"headers,omitempty"`
	// RawSubject and RawHeaders hold what is not UTF-8. Only the stored form
	// has them.
	RawSubject []byte      `json:"raw_subject,omitempty"`
	RawHeaders []RawHeader `json:"raw_headers,omitempty"`

	// Conflict says that the order_no was accepted before with another body.
	// The result stays accepted. This letter is about the later intent.
	Conflict bool `json:"conflict,omitempty"`
	// Replays counts the replays among the order's last submissions, this one included, as far as the record
	// remembers them.
	Replays int `json:"-"`

	// Body is the intent's body as received, JSON or not.
	Body []byte `json:"-"`
	// Seq is the letter's sequence in the dead-letter stream.
	Seq uint64 `json:"-"`

	seen string // write id of the record that About was given

	// FiledUnder is the subject token that the letter is filed under. It is set
	// for a letter that was read.
	FiledUnder string `json:"-"`
}

// RawHeader is a header that JSON cannot carry as text.
type RawHeader struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value"`
}

// Why letters say that an intent was not submitted.
const (
	reasonConflict = "conflict: the order_no was accepted before with another body"
	reasonWithheld = "withheld: the order_no's earlier outcome is unknown, and nobody allowed another attempt"
)

// About returns the letter with what a record says about its intent by now. It returns nil if the
// record does not name the letter, which then counts for nothing (R4). A letter whose header was cut
// gets from the record what it lacks.
func (l *Letter) About(r *order.Record) *Letter {
	if l == nil || r == nil || !r.Names(l.Seq) {
		return nil
	}
	now := *l
	switch c := r.Refused(l.Seq); {
	case r.Letter == l.Seq:
		now.fill(r.IntentID, r.BodyHash, r.Batch, r.Source, r.Position, r.SettledAt)
		now.Outcome, now.Reason, now.Error, now.Verdict, now.Status, now.Response, now.Said, now.History =
			r.Outcome(), r.Reason, r.Error, r.Verdict, r.Status, r.Response, r.Said, r.History
	case c == nil: // a correction is under way, or was cancelled
		i := r.EarlierWith(l.Seq)
		now.fill(i.IntentID, "", i.Batch, "", order.Position{}, i.At)
		now.Outcome, now.Reason, now.Attempts = order.OutcomeRejected, i.Reason, i.Attempts
		_ = now.Outcome.UnmarshalText([]byte(i.Outcome)) // else another version's word
	default:
		now.fill(c.IntentID, c.BodyHash, c.Batch, c.Source, c.Position, c.RefusedAt)
		now.Outcome, now.Unsure = order.OutcomeRejected, r.Doubtful()
		switch now.Conflict = r.Outcome() == order.OutcomeAccepted; {
		case now.Conflict:
			now.Reason = reasonConflict
		case now.Unsure:
			now.Outcome = order.OutcomeUnknown
		}
	}
	now.OrderNo, now.seen = r.OrderNo, r.WriteID
	for _, e := range append([]order.Earlier{{IntentID: r.IntentID}}, r.Earlier...) {
		if strings.HasPrefix(e.IntentID, replayPrefix) {
			now.Replays++
		}
	}
	return &now
}

// Shows reports whether a listed letter shows what this record says, and no earlier one (R5).
func (l *Letter) Shows(r *order.Record) bool { return r != nil && l.seen == r.WriteID }

// fill sets what a letter says of its intent, if its header was cut.
func (l *Letter) fill(intentID, bodyHash, batch, source string, at order.Position, filed time.Time) {
	if l.IntentID == "" {
		l.IntentID, l.BodyHash, l.Batch, l.Source, l.Position, l.FiledAt = intentID, cmp.Or(bodyHash, bodyHashOf(l.Body)), batch, source, at, filed
	}
}

// Letter reads the dead letter of an order_no that was filed last; nil = there is none.
func (lg *Ledger) Letter(ctx context.Context, orderNo string) (*Letter, error) {
	letters, err := lg.Letters(ctx, orderNo)
	if err != nil || len(letters) == 0 {
		return nil, err
	}
	return letters[0], nil
}

// Letters reads the dead letters of an order_no, the one that was filed last first.
func (lg *Ledger) Letters(ctx context.Context, orderNo string) ([]*Letter, error) {
	token := FileToken(order.Token(orderNo))
	entry, err := lg.store.Record(ctx, token)
	if err != nil {
		return nil, err
	}
	return lg.LettersOf(ctx, token, entry.Record)
}

// LettersOf reads the dead letters that a record names, the one that was filed last first. It leaves out
// those that are gone, because the record was replaced since or the letter was deleted by hand.
func (lg *Ledger) LettersOf(ctx context.Context, token string, r *order.Record) (letters []*Letter, err error) {
	seqs := r.Letters()
	slices.Sort(seqs)
	slices.Reverse(seqs)
	for _, seq := range seqs {
		l, err := lg.store.Letter(ctx, token, seq)
		if err != nil {
			return nil, err
		}
		if now := l.About(r); now != nil {
			letters = append(letters, now)
		}
	}
	return letters, nil
}

// rereadListed reads a listed letter, with the record that names it, at the leader. l is nil if no record does
// any more.
func (lg *Ledger) rereadListed(ctx context.Context, listed *Letter) (l *Letter, e Entry, err error) {
	if l, err = lg.store.Letter(ctx, listed.Token(), listed.Seq); err != nil {
		return nil, e, err
	}
	e, err = lg.store.Record(ctx, listed.Token())
	return l.About(e.Record), e, err
}

// hasLetter reports whether the letter of an intent that the record names is stored.
func (lg *Ledger) hasLetter(ctx context.Context, token string, r *order.Record, intentID string) (bool, error) {
	seq := r.LetterOf(intentID)
	if seq == 0 {
		return false, nil
	}
	l, err := lg.store.Letter(ctx, token, seq)
	return l != nil && (l.IntentID == "" || l.IntentID == intentID), err
}

// ensureLetter makes sure that a record names a stored letter of a delivery's intent, if that needs one (R4).
func (lg *Ledger) ensureLetter(ctx context.Context, d *Delivery, r *order.Record, trail []order.Attempt) error {
	id := d.Intent.ID
	if !r.NeedsLetterOf(id) {
		return nil
	}
	had := r.LetterOf(id)
	if had != 0 {
		if d.letter == had {
			return nil // it was stored a moment ago
		}
		if has, err := lg.hasLetter(ctx, d.token, r, id); err != nil || has {
			return err
		}
	}
	l := newLetter(d, r, trail)
	if r.Listed(id) != nil {
		l = lg.refusal(d, r)
	}
	entry, err := lg.updateRecord(ctx, d.token, func(now Entry) (*order.Record, error) {
		if !now.Record.NeedsLetterOf(id) || now.Record.LetterOf(id) != had {
			return nil, nil // it is settled otherwise, or somebody else did this
		}
		err := lg.fileLetter(ctx, d, l)
		return now.Record.WithLetter(id, d.letter), err
	})
	if err == nil {
		lg.discardLetter(ctx, d, entry.Record)
	}
	return err
}

// fileLetter stores the letter of a delivery, unless it has one. It counts for nothing until a record names it, and
// a sweep takes it if none does. So each write that is about to name it calls fileLetter again: one that may be taken soon
// is stored once more.
func (lg *Ledger) fileLetter(ctx context.Context, d *Delivery, l *Letter) error {
	if d.letter != 0 && age(d.letterAt, lg.time.Now()) >= lg.cfg.SweepAfter/2 {
		d.letter = 0
	}
	w := lg.cfg.Patience.Wait()
	defer w.Done()
	for d.letter == 0 {
		d.letterAt = lg.time.Now()
		seq, err := lg.store.PutLetter(ctx, d.token, l)
		switch {
		case err == nil:
			d.letter = seq
			lg.filed[l.Outcome].Add(1)
		case errors.Is(err, ErrStorage), ctx.Err() != nil:
			return fmt.Errorf("order %s: dead letter not stored: %w", d.OrderNo(), err)
		default:
			if err = w.Backoff(ctx, err); err == nil {
				err = lg.time.Sleep(ctx, rereadPause)
			}
			if err != nil {
				return fmt.Errorf("order %s: dead letter not stored: %w", d.OrderNo(), err)
			}
		}
	}
	return nil
}

// discardLetter removes the letter that a delivery stored, unless its record names it or lacks one: then ensureLetter
// names this one.
func (lg *Ledger) discardLetter(ctx context.Context, d *Delivery, r *order.Record) {
	if id := d.Intent.ID; d.letter != 0 && !r.Names(d.letter) && (!r.NeedsLetterOf(id) || r.LetterOf(id) != 0) {
		lg.removeLetter(ctx, d.token, d.letter)
		d.letter = 0
	}
}

// removeUnnamed removes the letters that a record named, and that the record in its place does not name.
func (lg *Ledger) removeUnnamed(ctx context.Context, token string, before, now *order.Record) {
	for _, seq := range before.Letters() {
		if !now.Names(seq) {
			lg.removeLetter(ctx, token, seq)
		}
	}
}

// removeLetter removes a letter that no record names. If it fails, the letter counts for nothing, and is swept.
func (lg *Ledger) removeLetter(ctx context.Context, token string, seq uint64) {
	if err := lg.store.DeleteLetter(ctx, token, seq); err != nil {
		lg.log.Debug().Err(err).Uint64("sequence", seq).Msg("dead letter not removed; nothing names it, and it is swept")
	}
}

// newLetter returns the letter of a delivery with the given record.
func newLetter(d *Delivery, r *order.Record, trail []order.Attempt) *Letter {
	if len(trail) > maxTrail {
		trail = trail[len(trail)-maxTrail:]
	}
	l := &Letter{
		OrderNo: r.OrderNo, Outcome: r.Outcome(), Reason: r.Reason, Error: r.Error,
		Verdict: r.Verdict, Status: r.Status, Response: r.Response, Said: r.Said,
		History: r.History, Trail: trail,
		IntentID: d.Intent.ID, Batch: d.Intent.Batch, Source: d.Intent.Source, Worker: r.Worker,
		Position: d.Position, FiledAt: r.SettledAt,
		Subject: d.msg.Subject, Headers: boundedHeaders(d.msg.Header),
		Body: d.Intent.Body,
	}
	if d.Order != nil {
		l.BodyHash = d.Order.BodyHash()
	}
	return l
}

// boundedHeaders returns as many of the intent's headers as fit.
func boundedHeaders(h Header) map[string][]string {
	out := make(map[string][]string, len(h))
	size := 0
	for _, k := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[k] {
			size += len(k) + len(v)
		}
		if size > maxHeaderBytes {
			break
		}
		out[k] = h[k]
	}
	return out
}

// refusal returns the letter of an intent that must not be submitted. r is the record that forbids it: the
// order exists with another body, or may.
func (lg *Ledger) refusal(d *Delivery, r *order.Record) *Letter {
	l := newLetter(d, r, nil)
	l.FiledAt = lg.time.Now().UTC()
	if d.Invalid != nil {
		l.Error = d.Invalid.Error()
	}
	if l.Conflict = r.Outcome() == order.OutcomeAccepted; l.Conflict {
		l.Outcome, l.Reason = order.OutcomeRejected, reasonConflict
	} else {
		l.Reason = reasonWithheld
	}
	return l
}

// refusedRecord returns what became of a refused intent as a record of its own.
// stood is the record that the intent conflicts with.
func (l *Letter) refusedRecord(stood *order.Record) *order.Record {
	rec := &order.Record{OrderNo: l.OrderNo, Reason: l.Reason, Error: l.Error, Position: l.Position, SettledAt: l.FiledAt,
		Batch: l.Batch, Source: l.Source, Worker: stood.Worker, IntentID: l.IntentID, BodyHash: l.BodyHash, Settled: stood.Settled}
	rec.SetOutcome(l.Outcome)
	return rec
}
