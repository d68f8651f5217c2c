package settle

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"orderpost/internal/order"
)

// Replay says what became of a letter that was to be replayed.
type Replay uint8

// The ends of a replay.
const (
	ReplayNone Replay = iota
	// Replayed: the intent is stored. In a dry run: it would be.
	Replayed
	// ReplayedBefore: an earlier run stored the intent, which has no outcome yet.
	ReplayedBefore
	// ReplayGone: the record names the letter no more, or the order was
	// handled again since the person decided.
	ReplayGone
	// ReplayPending: another intent for the order_no is stored.
	ReplayPending
	// ReplayAccepted: the order was accepted. Nothing needs to be sent.
	ReplayAccepted
	// ReplayInDoubt: the order may exist, and no permission to send it again
	// was given.
	ReplayInDoubt
	// ReplayOtherInDoubt: an order with another body may exist. No permission covers this one
	// before a person has said that it does not (R3).
	ReplayOtherInDoubt
	// ReplayLate: the intent's deadline has passed or cannot be read.
	ReplayLate
	// ReplayCertain: the order is not in doubt, so there is nothing to look up.
	ReplayCertain
	// ReplayForeign: the intent was published to a subject that does not belong
	// to its order_no, and would be refused again.
	ReplayForeign
)

var replayNames = [...]string{"", "replayed", "replayed-before", "gone", "pending", "accepted", "in-doubt", "other-in-doubt", "late", "certain", "foreign"}

// String returns the word used in summaries.
func (r Replay) String() string { return replayNames[r] }

// Replays returns every end but ReplayNone, for summaries.
func Replays() []Replay {
	return []Replay{Replayed, ReplayedBefore, ReplayGone, ReplayPending, ReplayAccepted, ReplayInDoubt, ReplayOtherInDoubt, ReplayLate, ReplayCertain, ReplayForeign}
}

// ReplayOptions say what may be replayed, and how.
type ReplayOptions struct {
	// ResubmitUnknown permits sending an order that may exist already. Replay
	// writes the permission for this one intent into the result before it
	// publishes the intent (R6).
	ResubmitUnknown bool
	// Deadline replaces the intent's own. nil keeps that one. The zero time
	// removes it.
	Deadline *time.Time
	// LookupUntil publishes an intent that only asks the API whether it has the order, until then:
	// for orders in doubt alone, and never posted (R3). Zero = send the order.
	LookupUntil time.Time
	// Person is recorded with the permission.
	Person Person
}

// Replay publishes a dead letter's order again, under an ID that belongs to
// this letter. The letter stays until the intent that is published has an outcome, whose record
// names it no more (R5). While that intent is pending, the letter gives the same ID, so a replay that is
// interrupted anywhere and repeated neither loses nor doubles the order.
func (op *Operator) Replay(ctx context.Context, listed *Letter, o ReplayOptions) (Replay, error) {
	l, err := op.ledger.store.Letter(ctx, listed.Token(), listed.Seq)
	if err != nil {
		return ReplayNone, err
	}
	if l == nil {
		return ReplayGone, nil
	}
	intent, entry, err := op.intentAndRecord(ctx, listed)
	if err != nil {
		return ReplayNone, err
	}
	if err := op.ledger.StillResults(ctx, o.Person); err != nil {
		return ReplayNone, err
	}
	if l = l.About(entry.Record); l == nil {
		return ReplayGone, nil
	}
	l.seen = listed.seen
	if end := op.JudgeReplay(l, intent, entry, o); end != Replayed {
		return end, nil
	}
	return op.putBack(ctx, l, entry.Record, o)
}

// JudgeReplay returns what a replay of l would do. intent is the pending intent
// of its order_no (nil = none) and last the record. JudgeReplay reads and
// changes nothing. It is the replay's policy on the facts that order.Admit states (R6).
func (op *Operator) JudgeReplay(l *Letter, intent *Message, last Entry, o ReplayOptions) Replay {
	rec, end := last.Record, Replayed
	id := l.replayID(rec, o)
	ours, other := l.isReplayed(id, intent, rec)
	standing := order.Admit(rec, id, l.BodyHash).Standing
	switch {
	case rec == nil || !rec.Names(l.Seq):
		end = ReplayGone
	case ours:
		end = ReplayedBefore
	case other:
		end = ReplayPending
	case !o.Person.knew(last) && !rec.Allows(id):
		end = ReplayGone
	case standing == order.AcceptedBefore:
		end = ReplayAccepted
	case rec.Doubtful() && otherInDoubt(rec, l):
		end = ReplayOtherInDoubt
	case !rec.Doubtful() && !o.LookupUntil.IsZero():
		end = ReplayCertain
	case rec.Doubtful() && !rec.Allows(id) && !o.ResubmitUnknown && o.LookupUntil.IsZero():
		end = ReplayInDoubt
	case rec.Doubtful() && !rec.Allows(id) && !l.Shows(rec): // she permits what she saw (R5)
		end = ReplayGone
	case cmp.Or(l.Subject, op.ledger.cfg.IntentSubjects+l.Token()) != op.ledger.cfg.IntentSubjects+order.Token(l.OrderNo):
		end = ReplayForeign
	case late(l, o, op.ledger.time.Now()):
		end = ReplayLate
	}
	return end
}

// otherInDoubt reports whether the body of an order in doubt is another one than the letter's.
func otherInDoubt(rec *order.Record, l *Letter) bool {
	return rec.BodyHash == "" || rec.BodyHash != l.BodyHash
}

// late reports whether the deadline has passed, which keeps no order from being looked up, or cannot be read.
func late(l *Letter, o ReplayOptions, now time.Time) bool {
	deadline, err := l.deadline(o)
	return err != nil || o.LookupUntil.IsZero() && !deadline.IsZero() && now.After(deadline)
}

// deadline returns the deadline of the replayed intent; zero if it has none.
func (l *Letter) deadline(o ReplayOptions) (time.Time, error) {
	text := Header(l.Headers).Get(HeaderDeadline)
	switch {
	case o.Deadline != nil:
		return *o.Deadline, nil
	case text == "":
		return time.Time{}, nil
	default:
		return time.Parse(time.RFC3339, text)
	}
}

const replayPrefix = "replay:"

const lookupPrefix = "lookup:"

// LetterReplayed returns the sequence of the letter whose order an intent with this ID
// replays, or looks up; 0 = it does neither.
func LetterReplayed(intentID string) uint64 {
	return max(sequenceAfter(replayPrefix, intentID), sequenceAfter(lookupPrefix, intentID))
}

// AsksOnly reports whether an intent with this ID has a letter's order looked up.
func AsksOnly(intentID string) bool { return sequenceAfter(lookupPrefix, intentID) > 0 }

// replayID returns the ID under which a letter is replayed (R5). r is the record that names the letter: a replay of
// it that has no outcome is the one that is under way. One of that name may have had an outcome that left the letter,
// because it was cancelled, or had the body of a producer who used the ID. Then the time of that outcome is part of
// the ID.
func (l *Letter) replayID(r *order.Record, o ReplayOptions) string {
	prefix := replayPrefix
	if !o.LookupUntil.IsZero() {
		prefix = lookupPrefix
	}
	id := prefix + strconv.FormatUint(l.Seq, 10)
	switch {
	case r == nil:
	case r.Outcome() == order.OutcomeNone && LetterReplayed(r.IntentID) == l.Seq && !r.OtherBody(r.IntentID, l.BodyHash):
		id = r.IntentID
	case l.IntentID == id || r.EndedBefore(id) || named(r, id):
		id += "@" + strconv.FormatInt(r.SettledAt.UnixNano(), 10)
	}
	return id
}

// named reports whether the record is about an intent or refused it.
func named(r *order.Record, id string) bool {
	return r != nil && (r.IntentID == id || r.Listed(id) != nil)
}

// intentAndRecord reads the stored intent of a letter's order_no and then the record: an intent leaves the stream
// only after its result is stored.
func (op *Operator) intentAndRecord(ctx context.Context, l *Letter) (*Message, Entry, error) {
	intent, err := op.ledger.store.Intent(ctx, l.OrderNo)
	if err != nil {
		return nil, Entry{}, err
	}
	entry, err := op.ledger.store.Record(ctx, l.Token())
	return intent, entry, err
}

// isReplayed compares the letter with the stored intent (nil = none) and the record. ours says that its replay under this
// ID is stored, or has an outcome, and other that another intent is pending. An
// intent with the ID is the replay only if it has the letter's body: a producer
// may use any ID. A stored intent that is settled is only waiting to be trimmed (R14). A note proves nothing: the
// stream may have lost its intent.
func (l *Letter) isReplayed(id string, intent *Message, r *order.Record) (ours, other bool) {
	if intent != nil {
		hash := bodyHashOf(intent.Data)
		ours = intent.IntentID() == id && (hash != "" && hash == l.BodyHash || bytes.Equal(intent.Data, l.Body))
		other = !ours && !intent.SettledBy(r)
	}
	return ours || r.Settles(id) && !r.OtherBody(id, l.BodyHash) || r != nil && r.EndedBefore(id), other
}

// putBack writes the permission if one is needed, and publishes the intent.
func (op *Operator) putBack(ctx context.Context, l *Letter, rec *order.Record, o ReplayOptions) (Replay, error) {
	id := l.replayID(rec, o)
	msg, err := op.replayMsg(l, id, o)
	if err != nil {
		return ReplayNone, err
	}
	if rec.Doubtful() && !rec.Allows(id) {
		switch err := op.allow(ctx, l, id, o); {
		case errors.Is(err, ErrReplaced):
			return ReplayGone, nil
		case errors.Is(err, ErrPending):
			return ReplayPending, nil
		case err != nil:
			return ReplayNone, fmt.Errorf("order %s: permission not written: %w", l.OrderNo, err)
		}
	}
	w := op.ledger.cfg.Patience.Wait()
	defer w.Done()
	cut := false
	for try := 0; ; try++ {
		p, _, err := op.ledger.store.PublishIntent(ctx, msg)
		if err == nil && p == Stored {
			return Replayed, nil
		}
		cut = cut || err != nil
		intent, entry, lookErr := op.intentAndRecord(ctx, l)
		if lookErr != nil {
			return ReplayNone, errors.Join(err, lookErr)
		}
		w.Answered()
		ours, other := l.isReplayed(id, intent, entry.Record)
		switch {
		case ours && cut: // the confirmation of our publish was lost
			return Replayed, nil
		case ours:
			return ReplayedBefore, nil
		case op.ledger.cfg.Patience.Transient(err):
			if err := w.Backoff(ctx, err); err != nil {
				return ReplayNone, err
			}
			continue
		case err != nil:
			return ReplayNone, err
		case p == AlreadyKnown:
			return ReplayNone, fmt.Errorf("order %s: %w: somebody used the ID of this replay, %s; replay it again in a few minutes", l.OrderNo, ErrSwallowed, id)
		case other || try == FreedTries:
			return ReplayPending, nil
		}
		if err := op.ledger.time.Sleep(ctx, FreedPause); err != nil { // the intent that was in the way is gone by now
			return ReplayNone, err
		}
	}
}

// replayMsg returns the intent of the letter.
func (op *Operator) replayMsg(l *Letter, id string, o ReplayOptions) (*Message, error) {
	deadline, err := l.deadline(o)
	if err != nil {
		return nil, err
	}
	in := Intent{OrderNo: l.OrderNo, Body: l.Body, ID: id, Batch: l.Batch, Source: l.Source,
		Deadline: deadline, LookupUntil: o.LookupUntil, Traceparent: Header(l.Headers).Get(HeaderTraceparent)}
	return op.producer.IntentMessage(in), op.producer.CheckSize(in)
}

// allow writes into the result that a person allows this one intent (R6), to be posted or to be looked up.
//
// She allows the doubt that the letter showed when it was listed. A record that was written since refuses
// (ErrReplaced), as does an intent that is stored (ErrPending).
func (op *Operator) allow(ctx context.Context, l *Letter, id string, o ReplayOptions) error {
	p, what := o.Person, "allowed another attempt"
	if !o.LookupUntil.IsZero() {
		what = "asked for a lookup"
	}
	_, err := op.ledger.updateRecord(ctx, l.Token(), func(stored Entry) (*order.Record, error) {
		cur := stored.Record
		if cur.Allows(id) {
			return nil, nil
		}
		if err := op.ledger.StillResults(ctx, p); err != nil {
			return nil, err
		}
		if err := op.requireNonePending(ctx, l.OrderNo); err != nil {
			return nil, err
		}
		if !l.Shows(cur) || !p.knew(stored) || otherInDoubt(cur, l) || cur.Outcome() != order.OutcomeUnknown && cur.Outcome() != order.OutcomeNone {
			return nil, ErrReplaced
		}
		next := *cur
		next.AllowedFor = id
		next.Intervene(p.did(what, op.ledger.time.Now()))
		return &next, nil
	})
	return err
}
