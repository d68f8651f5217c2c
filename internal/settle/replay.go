package settle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"orderpost/internal/order"
)

// Headers by which a replayed intent carries on its letters' history, since
// the letter is gone when a new one is filed.
const (
	headerReplays = "Order-Replays"
	headerEarlier = "Order-Earlier"
	// maxEarlierHeader bounds headerEarlier, in bytes.
	maxEarlierHeader = 8 << 10
)

// Replay says what became of one letter that was to be replayed.
type Replay uint8

// The ends of a replay. Only after Replayed and ReplayedBefore is the letter
// gone because of it.
const (
	ReplayNone Replay = iota
	// Replayed: the intent is stored, and the letter is removed. Of a dry run:
	// it would be.
	Replayed
	// ReplayedBefore: an earlier run stored the intent, and was cut off before
	// it removed the letter; that is done now.
	ReplayedBefore
	// ReplayGone: the letter is not there any more, or a newer one took its place.
	ReplayGone
	// ReplayPending: another intent for the order_no is in the queue.
	ReplayPending
	// ReplayAccepted: the order was accepted; there is nothing to be sent.
	ReplayAccepted
	// ReplayInDoubt: nobody knows whether the order exists, and leave to send
	// it again was not given.
	ReplayInDoubt
	// ReplayLate: its deadline has passed, or cannot be read.
	ReplayLate
	// ReplayForeign: it came by a subject that is not its order_no's, and would
	// be refused again.
	ReplayForeign
)

var replayNames = [...]string{"", "replayed", "replayed-before", "gone", "pending", "accepted", "in-doubt", "late", "foreign"}

// String gives the word used in summaries.
func (r Replay) String() string { return replayNames[r] }

// Replays lists every end but ReplayNone, for summaries.
func Replays() []Replay {
	return []Replay{Replayed, ReplayedBefore, ReplayGone, ReplayPending, ReplayAccepted, ReplayInDoubt, ReplayLate, ReplayForeign}
}

// ReplayOptions say what may be replayed, and how.
type ReplayOptions struct {
	// ResubmitUnknown gives leave to send an order that may exist already. The
	// permission is written into its result, for this one intent, before the
	// intent is published (R6).
	ResubmitUnknown bool
	// Deadline takes the place of the intent's own; nil keeps that, the zero
	// time removes it.
	Deadline *time.Time
	// Person is recorded where leave is given.
	Person Person
}

// Replay puts a dead letter's order back into the queue under the ID that
// belongs to this letter, and removes the letter once its intent is known to
// be stored (R5). Cut off anywhere and repeated, it neither loses nor doubles
// the order: the same letter gives the same ID. An error means that the
// broker did not say; the letter is still there.
func (q *Protocol) Replay(ctx context.Context, listed *Letter, o ReplayOptions) (Replay, error) {
	l, err := q.letterAgain(ctx, listed)
	if err != nil {
		return ReplayNone, err
	}
	if l == nil {
		return ReplayGone, nil
	}
	end, entry, err := q.mayReplay(ctx, l, o)
	if err != nil || end != Replayed && end != ReplayedBefore {
		return end, err
	}
	if end == Replayed {
		if end, err = q.putBack(ctx, l, entry.Record, o); err != nil || end == ReplayPending {
			return end, err
		}
	}
	return end, q.store.DeleteLetter(ctx, l.Token(), l)
}

// mayReplay judges a letter by what the streams say now. Replayed: nothing
// speaks against it.
func (q *Protocol) mayReplay(ctx context.Context, l *Letter, o ReplayOptions) (Replay, Entry, error) {
	where, err := q.findIntent(ctx, l, l.replayID())
	if err != nil {
		return ReplayNone, Entry{}, err
	}
	return q.judgeReplay(l, where, o), where.entry, nil
}

// JudgeReplay says what a replay of l would do, where intent is what is pending
// (nil = nothing) and last is the last word. It reads and changes nothing.
func (q *Protocol) JudgeReplay(l *Letter, intent *Message, last Entry, o ReplayOptions) Replay {
	return q.judgeReplay(l, whereaboutsOf(l.replayID(), intent, last), o)
}

func (q *Protocol) judgeReplay(l *Letter, where whereabouts, o ReplayOptions) Replay {
	id, end := l.replayID(), Replayed
	rec := where.entry.Record
	standing := order.Admit(rec, id, l.BodyHash).Standing
	switch {
	case where.ours:
		end = ReplayedBefore
	case where.other:
		end = ReplayPending
	case standing == order.AcceptedBefore, rec == nil && l.Conflict: // the acceptance has expired
		end = ReplayAccepted
	case inDoubt(rec, l) && !rec.Allows(id) && !o.ResubmitUnknown:
		end = ReplayInDoubt
	case l.Subject != q.cfg.IntentSubjects+order.Token(l.OrderNo):
		end = ReplayForeign
	case late(l, o, q.time.Now()):
		end = ReplayLate
	}
	return end
}

// inDoubt: an attempt may have created the order, by its last word, or by the
// letter where that has been lost.
func inDoubt(rec *order.Record, l *Letter) bool {
	if rec == nil {
		return l.Unsure || l.Outcome == order.OutcomeUnknown
	}
	return rec.Unsure || rec.Outcome() == order.OutcomeUnknown
}

func late(l *Letter, o ReplayOptions, now time.Time) bool {
	deadline, err := l.deadline(o)
	return err != nil || !deadline.IsZero() && now.After(deadline)
}

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

// replayID is the ID under which a letter is replayed (R5). A dead-letter
// stream that was made anew counts from 1 again; where the letter is itself
// about an intent of that name, its time tells the two apart.
func (l *Letter) replayID() string {
	id := "replay:" + strconv.FormatUint(l.Seq, 10)
	if l.IntentID == id || slices.ContainsFunc(l.Earlier, func(e Earlier) bool { return e.IntentID == id }) {
		id += "@" + strconv.FormatInt(l.FiledAt.UnixNano(), 10)
	}
	return id
}

// whereabouts of a letter's replay.
type whereabouts struct {
	ours  bool // the intent of this ID is in the queue, or the last word names it
	other bool // an intent of another ID is in the queue
	entry Entry
}

// findIntent looks for the intent in the queue first and in the results
// afterwards: it leaves the queue only after its result is there.
func (q *Protocol) findIntent(ctx context.Context, l *Letter, id string) (w whereabouts, err error) {
	raw, err := q.store.Intent(ctx, l.OrderNo)
	if err != nil {
		return w, err
	}
	entry, err := q.store.Record(ctx, l.Token())
	if err != nil {
		return w, err
	}
	return whereaboutsOf(id, raw, entry), nil
}

// whereaboutsOf reads what is in the queue (nil = nothing) and the last word.
func whereaboutsOf(id string, intent *Message, entry Entry) whereabouts {
	w := whereabouts{entry: entry}
	if intent != nil {
		w.ours = intent.Header.Get(HeaderIntentID) == id
		w.other = !w.ours
	}
	w.ours = w.ours || entry.Record != nil && (entry.Record.IntentID == id || entry.Record.ConflictOf(id) != nil)
	return w
}

// putBack writes the permission where one is needed, and publishes the intent.
func (q *Protocol) putBack(ctx context.Context, l *Letter, rec *order.Record, o ReplayOptions) (Replay, error) {
	id := l.replayID()
	msg, err := q.replayMsg(l, id, o)
	if err != nil {
		return ReplayNone, err
	}
	if inDoubt(rec, l) && !rec.Allows(id) {
		if err := q.allow(ctx, l, id, o.Person); err != nil {
			return ReplayNone, fmt.Errorf("order %s: permission not written: %w", l.OrderNo, err)
		}
	}
	w := q.cfg.Patience.Wait()
	defer w.Over()
	cut := false
	for try := 0; ; try++ {
		p, _, err := q.store.PublishIntent(ctx, msg)
		if err == nil && p == Stored {
			return Replayed, nil
		}
		cut = cut || err != nil
		where, lookErr := q.findIntent(ctx, l, id)
		switch {
		case lookErr != nil:
			return ReplayNone, errors.Join(err, lookErr)
		case where.ours && cut: // its confirmation was lost
			return Replayed, nil
		case where.ours:
			return ReplayedBefore, nil
		case q.cfg.Patience.Passing(err):
			if err := w.Again(ctx, err); err != nil {
				return ReplayNone, err
			}
			continue
		case err != nil:
			return ReplayNone, err
		case p == AlreadyKnown:
			return ReplayNone, fmt.Errorf("order %s: %w; replay it again in a few minutes", l.OrderNo, ErrSwallowed)
		case where.other || try == freedTries:
			return ReplayPending, nil
		}
		if err := q.time.Sleep(ctx, freedPause); err != nil { // refused for an intent that is gone by now
			return ReplayNone, err
		}
	}
}

// replayMsg is the intent that the letter is about, with the letters' history.
func (q *Protocol) replayMsg(l *Letter, id string, o ReplayOptions) (*Message, error) {
	deadline, err := l.deadline(o)
	if err != nil {
		return nil, err
	}
	in := Intent{OrderNo: l.OrderNo, Body: l.Body, ID: id, Batch: l.Batch, Source: l.Source,
		Deadline: deadline, Traceparent: Header(l.Headers).Get(HeaderTraceparent)}
	if err := q.CheckSize(in); err != nil {
		return nil, err
	}
	msg := q.IntentMessage(in)
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

// carryOn takes over what a replayed intent says about the letters before it.
// Whatever else stands in those headers is no history and is left out.
func (l *Letter) carryOn(h Header) {
	if n, err := strconv.Atoi(h.Get(headerReplays)); err == nil && n > 0 {
		l.Replays = n
	}
	var earlier []Earlier
	if json.Unmarshal([]byte(h.Get(headerEarlier)), &earlier) == nil {
		l.Earlier = earlier[:min(len(earlier), maxEarlier)]
	}
	delete(l.Headers, headerReplays)
	delete(l.Headers, headerEarlier)
}

// allow writes into the result that a person allows this one intent (R6).
// Where the result is lost, the doubt that the letter remembers is written
// with it.
func (q *Protocol) allow(ctx context.Context, l *Letter, id string, p Person) error {
	_, err := q.amend(ctx, l.Token(), func(cur *order.Record) (*order.Record, error) {
		if cur.Allows(id) {
			return nil, nil
		}
		next := order.Record{OrderNo: l.OrderNo, Word: order.OutcomeUnknown.String(), IntentID: l.IntentID,
			History: l.History, BodyHash: l.BodyHash, Batch: l.Batch, Source: l.Source, EnqueuedAt: l.EnqueuedAt, SettledAt: l.FiledAt, Settled: 1}
		next.Unsure = true
		if cur != nil {
			if next = *cur; cur.Outcome() == order.OutcomeAccepted {
				return nil, fmt.Errorf("it was accepted meanwhile: %w", ErrNotInDoubt)
			}
		}
		next.Allowed, next.AllowedFor = true, id
		next.Intervene(p.did("allowed another attempt", q.time.Now()))
		return &next, nil
	})
	return err
}
