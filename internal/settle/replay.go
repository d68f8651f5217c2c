package settle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"orderpost/internal/order"
)

// Replay says what became of a letter that was to be replayed.
type Replay uint8

// The ends of a replay. Only Replayed and ReplayedBefore remove the letter.
const (
	ReplayNone Replay = iota
	// Replayed: the intent is stored and the letter removed. In a dry run: they
	// would be.
	Replayed
	// ReplayedBefore: an earlier run stored the intent, and was cut off before
	// it removed the letter; that is done now.
	ReplayedBefore
	// ReplayGone: the letter was removed, or a newer one replaced it, or the order was
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
	// ReplayForeign: the intent was published to a subject that does not belong
	// to its order_no, and would be refused again.
	ReplayForeign
)

var replayNames = [...]string{"", "replayed", "replayed-before", "gone", "pending", "accepted", "in-doubt", "other-in-doubt", "late", "foreign"}

// String returns the word used in summaries.
func (r Replay) String() string { return replayNames[r] }

// Replays returns every end but ReplayNone, for summaries.
func Replays() []Replay {
	return []Replay{Replayed, ReplayedBefore, ReplayGone, ReplayPending, ReplayAccepted, ReplayInDoubt, ReplayOtherInDoubt, ReplayLate, ReplayForeign}
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
	// Person is recorded with the permission.
	Person Person
}

// Replay publishes a dead letter's order again, under an ID that belongs to
// this letter. It removes the letter once the intent is known to be stored
// (R5). The same letter always gives the same ID, so a replay that is
// interrupted anywhere and repeated neither loses nor doubles the order. After
// an error, the letter is still there.
func (op *Operator) Replay(ctx context.Context, listed *Letter, o ReplayOptions) (Replay, error) {
	l, err := op.ledger.rereadListed(ctx, listed)
	if err != nil {
		return ReplayNone, err
	}
	if l == nil {
		return ReplayGone, nil
	}
	end, entry, err := op.mayReplay(ctx, l, o)
	if err != nil || end != Replayed && end != ReplayedBefore {
		return end, err
	}
	if end == Replayed {
		if end, err = op.putBack(ctx, l, entry.Record, o); err != nil || end == ReplayPending || end == ReplayGone {
			return end, err
		}
	}
	return end, op.ledger.store.DeleteLetter(ctx, l.Token(), l)
}

// mayReplay judges a letter by what the streams hold now. Replayed means that
// nothing forbids the replay.
func (op *Operator) mayReplay(ctx context.Context, l *Letter, o ReplayOptions) (Replay, Entry, error) {
	where, err := op.findIntent(ctx, l)
	if err != nil {
		return ReplayNone, Entry{}, err
	}
	if err := op.ledger.StillResults(ctx, o.Person); err != nil {
		return ReplayNone, Entry{}, err
	}
	return op.judgeReplay(l, where, o), where.entry, nil
}

// JudgeReplay returns what a replay of l would do. intent is the pending intent
// of its order_no (nil = none) and last the record. JudgeReplay reads and
// changes nothing.
func (op *Operator) JudgeReplay(l *Letter, intent *Message, last Entry, o ReplayOptions) Replay {
	return op.judgeReplay(l, whereaboutsOf(l, intent, last), o)
}

// judgeReplay is the replay's policy on the facts that order.Admit states (R6).
func (op *Operator) judgeReplay(l *Letter, where whereabouts, o ReplayOptions) Replay {
	rec, end := where.entry.Record, Replayed
	id := l.replayID(rec)
	standing := order.Admit(rec, id, l.BodyHash).Standing
	switch {
	case where.ours:
		end = ReplayedBefore
	case where.other:
		end = ReplayPending
	case !o.Person.knew(where.entry) && !rec.Allows(id):
		end = ReplayGone
	case standing == order.AcceptedBefore, rec == nil && l.Conflict: // a conflict without a record: the acceptance has expired
		end = ReplayAccepted
	case inDoubt(rec, l) && otherInDoubt(rec, l):
		end = ReplayOtherInDoubt
	case inDoubt(rec, l) && !rec.Allows(id) && !o.ResubmitUnknown:
		end = ReplayInDoubt
	case l.Subject != op.ledger.cfg.IntentSubjects+order.Token(l.OrderNo):
		end = ReplayForeign
	case late(l, o, op.ledger.time.Now()):
		end = ReplayLate
	}
	return end
}

// inDoubt reports whether an attempt may have created the order, by the record,
// or by the letter if the record has expired.
func inDoubt(rec *order.Record, l *Letter) bool {
	if rec == nil {
		return l.Unsure || l.Outcome == order.OutcomeUnknown
	}
	return rec.Unsure || rec.Outcome() == order.OutcomeUnknown
}

// otherInDoubt reports whether the body of an order in doubt is another one than the letter's.
func otherInDoubt(rec *order.Record, l *Letter) bool {
	return rec != nil && (rec.BodyHash == "" || rec.BodyHash != l.BodyHash)
}

// late reports whether the deadline has passed or cannot be read.
func late(l *Letter, o ReplayOptions, now time.Time) bool {
	deadline, err := l.deadline(o)
	return err != nil || !deadline.IsZero() && now.After(deadline)
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

// LetterReplayed returns the sequence of the letter that an intent with this ID
// replays; 0 = it is no replay.
func LetterReplayed(intentID string) uint64 { return sequenceAfter(replayPrefix, intentID) }

// replayID returns the ID under which a letter is replayed (R5). Two intents may have had it: one
// that the letter is about, because a dead-letter stream that was created again counts from 1
// again, and one with another body of a producer who used it. Then the letter's time is part of
// the ID. r is the record of the order_no, or nil.
func (l *Letter) replayID(r *order.Record) string {
	id := replayPrefix + strconv.FormatUint(l.Seq, 10)
	again := id + "@" + strconv.FormatInt(l.FiledAt.UnixNano(), 10)
	if l.IntentID == id || slices.ContainsFunc(l.Earlier, func(e Earlier) bool { return e.IntentID == id }) ||
		named(r, id) && r.OtherBody(id, l.BodyHash) || named(r, again) {
		return again
	}
	return id
}

// named reports whether the record is about an intent or refused it.
func named(r *order.Record, id string) bool {
	return r != nil && (r.IntentID == id || r.Listed(id) != nil)
}

// whereabouts says where the intent of a letter's replay is.
type whereabouts struct {
	ours  bool // the intent of the replay is stored, or the record names it
	other bool // another intent is stored
	entry Entry
}

// findIntent looks for the intent in the intents stream first and in the
// results afterwards. An intent leaves the stream only after its result is
// stored.
func (op *Operator) findIntent(ctx context.Context, l *Letter) (w whereabouts, err error) {
	raw, err := op.ledger.store.Intent(ctx, l.OrderNo)
	if err != nil {
		return w, err
	}
	entry, err := op.ledger.store.Record(ctx, l.Token())
	if err != nil {
		return w, err
	}
	return whereaboutsOf(l, raw, entry), nil
}

// whereaboutsOf compares the letter with the stored intent (nil = none) and the record. An
// intent with the ID of the replay is the replay only if it has the letter's body: a producer
// may use any ID. A stored intent that is settled, with its letter, is only waiting to be
// trimmed (R14).
func whereaboutsOf(l *Letter, intent *Message, entry Entry) whereabouts {
	w, id := whereabouts{entry: entry}, l.replayID(entry.Record)
	if intent != nil {
		hash := bodyHashOf(intent.Data)
		w.ours = intent.IntentID() == id && (hash != "" && hash == l.BodyHash || bytes.Equal(intent.Data, l.Body))
		w.other = !w.ours && !intent.completedBy(entry.Record, l)
	}
	w.ours = w.ours || named(entry.Record, id) && !entry.Record.OtherBody(id, l.BodyHash)
	return w
}

// putBack writes the permission if one is needed, and publishes the intent.
func (op *Operator) putBack(ctx context.Context, l *Letter, rec *order.Record, o ReplayOptions) (Replay, error) {
	id := l.replayID(rec)
	if named(rec, id) {
		return ReplayNone, fmt.Errorf("order %s: another body was stored under the ID of this replay, %s: export the letter, enqueue its order, and drop the letter", l.OrderNo, id)
	}
	msg, err := op.replayMsg(l, id, o)
	if err != nil {
		return ReplayNone, err
	}
	if inDoubt(rec, l) && !rec.Allows(id) {
		switch err := op.allow(ctx, l, id, o.Person); {
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
		where, lookErr := op.findIntent(ctx, l)
		if lookErr != nil {
			return ReplayNone, errors.Join(err, lookErr)
		}
		w.Answered()
		switch {
		case where.ours && cut: // the confirmation of our publish was lost
			return Replayed, nil
		case where.ours:
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
		case where.other || try == FreedTries:
			return ReplayPending, nil
		}
		if err := op.ledger.time.Sleep(ctx, FreedPause); err != nil { // the intent that was in the way is gone by now
			return ReplayNone, err
		}
	}
}

// replayMsg returns the intent of the letter, with the history of its letters.
func (op *Operator) replayMsg(l *Letter, id string, o ReplayOptions) (*Message, error) {
	deadline, err := l.deadline(o)
	if err != nil {
		return nil, err
	}
	in := Intent{OrderNo: l.OrderNo, Body: l.Body, ID: id, Batch: l.Batch, Source: l.Source,
		Deadline: deadline, Traceparent: Header(l.Headers).Get(HeaderTraceparent)}
	if err := op.producer.CheckSize(in); err != nil {
		return nil, err
	}
	msg := op.producer.IntentMessage(in)
	msg.Header.Set(headerReplays, strconv.Itoa(l.Replays+1))
	past := Letter{}
	for past.inheritFrom(l); len(past.Earlier) > 0; past.Earlier = past.Earlier[:len(past.Earlier)-1] {
		data, err := json.Marshal(past.Earlier)
		if err != nil {
			return nil, err
		}
		if len(data) <= maxEarlierHeader {
			msg.Header.Set(headerEarlier, string(data))
			break
		}
	}
	return msg, nil
}

// allow writes into the result that a person allows this one intent (R6). If
// the result has expired, allow writes it again with the doubt of the letter.
//
// She allows the doubt of the letter that she saw. A record that is written
// after allow has read it refuses the write. An earlier one shows afterwards: its
// intent is stored (ErrPending), or the letter was replaced (ErrReplaced).
func (op *Operator) allow(ctx context.Context, l *Letter, id string, p Person) error {
	_, err := op.ledger.updateRecord(ctx, l.Token(), func(stored Entry) (*order.Record, error) {
		cur := stored.Record
		if cur.Allows(id) {
			return nil, nil
		}
		if err := op.ledger.StillResults(ctx, p); err != nil {
			return nil, err
		}
		if !p.knew(stored) {
			return nil, ErrReplaced
		}
		if err := op.requireNonePending(ctx, l.OrderNo); err != nil {
			return nil, err
		}
		if now, err := op.ledger.rereadListed(ctx, l); err != nil || now == nil {
			return nil, cmp.Or(err, ErrReplaced)
		}
		next := order.Record{OrderNo: l.OrderNo, Word: order.OutcomeUnknown.String(), IntentID: l.IntentID,
			History: l.History, BodyHash: l.BodyHash, Batch: l.Batch, Source: l.Source, Position: l.Position, SettledAt: l.FiledAt, Settled: 1}
		if !next.Unsure {
			next.Doubt(l.Reason)
		}
		if cur != nil {
			switch next = *cur; {
			case otherInDoubt(cur, l):
				return nil, ErrReplaced
			case cur.Outcome() == order.OutcomeAccepted:
				return nil, fmt.Errorf("it was accepted meanwhile: %w", ErrNotInDoubt)
			case cur.Outcome() != order.OutcomeUnknown && cur.Outcome() != order.OutcomeNone: // a colleague is about to remove the letter
				return nil, ErrReplaced
			}
		}
		next.Allowed, next.AllowedFor = true, id
		next.Intervene(p.did("allowed another attempt", op.ledger.time.Now()))
		return &next, nil
	})
	return err
}
