package settle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"orderpost/internal/order"
)

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
