package door

import (
	"context"
	"fmt"

	"orderpost/internal/books"
	"orderpost/internal/journal"
)

// Cancel withdraws one submission and returns what became of it: OutcomeCancelled, another
// outcome, or Pending if it is left to its worker, because an attempt may have created the
// order, or if no worker has come to it yet. Nobody posts it then, once the workers know of
// it. by names who withdraws it, for the journal.
//
// Cancel waits until the outcome is there, or until nothing has changed for ten seconds.
// Errors: those of Outcome, and ErrPending if another submission of the order_no is
// stored, which would be withdrawn with it.
func (d *Door) Cancel(ctx context.Context, orderNo, id, by string) (Outcome, error) {
	o, err := d.Outcome(ctx, orderNo, id)
	if err != nil || !o.Pending {
		return o, err
	}
	if err := d.alone(ctx, orderNo, o.ID); err != nil {
		return o, err
	}
	about := journal.About{Kind: journal.Cancel, OrderNo: orderNo, Actor: journal.Actor{Name: by, Known: journal.ByProcess}, Details: map[string]string{"submission": o.ID}}
	act, err := journal.New(d.q, "door", "").Begin(ctx, journal.Intention{About: about, Safer: journal.Always})
	if err != nil {
		return o, d.unread(err)
	}
	var c books.Cancelled
	err = d.q.UnlessRefused(ctx, func(ctx context.Context) (err error) {
		c, err = books.CancelOrder(ctx, d.q, orderNo, by)
		return err
	})
	result := journal.Result{End: journal.Done, Counts: map[string]int{"cancelled": c.Withdrawn, "started": c.Started, "open": c.Open}}
	if err != nil {
		result.End, result.Error = journal.Failed, err.Error()
	}
	if ended := act.End(ctx, result); err == nil {
		err = ended
	}
	if err != nil {
		return o, d.unread(err)
	}
	return d.Outcome(ctx, orderNo, o.ID)
}

// alone returns ErrPending if another submission of the order_no is stored than this one.
func (d *Door) alone(ctx context.Context, orderNo, id string) error {
	st, err := d.look(ctx, orderNo)
	if err != nil {
		return err
	}
	waits, err := d.scan(ctx, orderNo)
	if err != nil {
		return err
	}
	others := waits.found
	if st.Pending != nil {
		others = append(others, Outcome{ID: st.Pending.ID})
	}
	for _, o := range others {
		if o.ID != id {
			return fmt.Errorf("%w: order %q, submission %q; orderpost enqueue cancel --order withdraws all of them", ErrPending, orderNo, o.ID)
		}
	}
	return nil
}
