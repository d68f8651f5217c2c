package settle

import (
	"context"
	"errors"
	"fmt"

	"orderpost/internal/order"
)

// Letter reads the dead letter of an order_no. It returns nil if there is none.
func (lg *Ledger) Letter(ctx context.Context, orderNo string) (*Letter, error) {
	return lg.store.Letter(ctx, FileToken(order.Token(orderNo)))
}

// rereadLetter reads the letter under a token. It repeats the read until the
// broker answers or ctx ends.
func (lg *Ledger) rereadLetter(ctx context.Context, token string) (*Letter, error) {
	for {
		l, err := lg.store.Letter(ctx, token)
		if err == nil || errors.Is(err, ErrNotALetter) || errors.Is(err, ErrUnreachable) {
			return l, err
		}
		if lg.time.Sleep(ctx, rereadPause) != nil {
			return nil, fmt.Errorf("dead letters could not be read: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// removeLetter takes away the letter of an order that rec settles: it turned out to be
// accepted, or a person said what became of it. removeLetter deletes by sequence and so
// never hits a newer letter. These stay: a conflict's letter, that of an intent which
// rec refuses or whose body is not the accepted one (it becomes a conflict's), and that of
// an intent which failed after the one that rec is about. While the broker is out of reach, removeLetter repeats the deletion
// until ctx ends, because no later delivery may come back to the letter.
func (lg *Ledger) removeLetter(ctx context.Context, token string, rec *order.Record) error {
	for {
		l, err := lg.rereadLetter(ctx, token)
		switch {
		case err != nil || l == nil:
			return err
		case !l.Conflict && l.losesTo(rec):
			err = lg.turnIntoConflict(ctx, token, l, l)
		case l.outlives(rec):
			return nil
		default:
			if err = lg.store.DeleteLetter(ctx, token, l); err == nil {
				return lg.restoreConflict(ctx, token, l, rec)
			}
		}
		if err == nil || errors.Is(err, ErrRefused) || errors.Is(err, ErrStorage) || errors.Is(err, ErrUnreachable) || lg.time.Sleep(ctx, rereadPause) != nil {
			return err
		}
	}
}

// outlives reports whether the letter stays as it is beside a record that settles the
// order: it is a conflict's, and not of the body that the API accepted, or its intent
// failed after a person's word.
func (l *Letter) outlives(rec *order.Record) bool {
	byAPI := rec.Outcome() == order.OutcomeAccepted && rec.By == ""
	return l.Conflict && (l.BodyHash == "" || l.BodyHash != rec.BodyHash) || !byAPI && l.After(rec.Position, l.Birth)
}

// losesTo reports whether the record makes the letter's intent a conflict: it lists it, or
// accepts another body than that of an intent which was withheld, or came later.
func (l *Letter) losesTo(rec *order.Record) bool {
	return rec.ConflictOf(l.IntentID) != nil || rec.Outcome() == order.OutcomeAccepted && l.BodyHash != rec.BodyHash && (l.Reason == reasonWithheld || l.after(rec))
}

// after reports whether the letter's intent came after the one that rec accepts. If the
// acceptance came late, rec may name an intent that came after both.
func (l *Letter) after(rec *order.Record) bool {
	return l.After(rec.Position, l.Birth) || rec.Reason == order.ReasonEarlier
}

// restoreConflict files a removed letter again, as a conflict's, if the record that it was
// removed for gave way meanwhile: a person said that the order exists, and then the API's late
// answer came, which said so of another body. Nothing else holds this one.
func (lg *Ledger) restoreConflict(ctx context.Context, token string, l *Letter, rec *order.Record) error {
	if l.Conflict || rec.Outcome() != order.OutcomeAccepted || !rec.Resolved() {
		return nil
	}
	now, err := lg.rereadRecord(ctx, token)
	if err == nil && now.Record.ConflictOf(l.IntentID) != nil {
		err = lg.turnIntoConflict(ctx, token, l, nil)
	}
	if errors.Is(err, ErrStale) {
		return nil // a later letter carries on the history
	}
	return err
}

// turnIntoConflict replaces have, the letter l of a withheld intent or nil, by that of the
// conflict which the intent turned out to be.
func (lg *Ledger) turnIntoConflict(ctx context.Context, token string, l, have *Letter) error {
	conflict := *l
	conflict.Outcome, conflict.Conflict, conflict.Reason, conflict.FiledAt = order.OutcomeRejected, true, reasonConflict, lg.time.Now().UTC()
	conflict.Tail = "" // the store cuts the body anew
	conflict.inheritFrom(l)
	return lg.putLetter(ctx, token, &conflict, have)
}

// putLetter stores a letter in place of have, and counts it.
func (lg *Ledger) putLetter(ctx context.Context, token string, l, have *Letter) error {
	err := lg.store.PutLetter(ctx, token, l, have)
	if err == nil {
		lg.filed[l.Outcome].Add(1)
	}
	return err
}

// rereadListed reads a listed letter at the leader, with its tail. It returns
// nil if the letter was removed or replaced.
func (lg *Ledger) rereadListed(ctx context.Context, listed *Letter) (*Letter, error) {
	l, err := lg.store.Letter(ctx, listed.Token())
	if err != nil || l == nil || l.Seq != listed.Seq {
		return nil, err
	}
	l.FiledUnder = listed.Token()
	return l, nil
}

// WholeBody returns the letter's body, including a tail that is stored in a
// second message.
func (lg *Ledger) WholeBody(ctx context.Context, l *Letter) ([]byte, error) {
	if l.Tail == "" {
		return l.Body, nil
	}
	whole, err := lg.rereadListed(ctx, l)
	if err != nil {
		return nil, err
	}
	if whole == nil {
		return nil, fmt.Errorf("dead letter of %s: it was removed or replaced meanwhile", l.OrderNo)
	}
	return whole.Body, nil
}
