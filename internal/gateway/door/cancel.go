package door

import (
	"context"
	"fmt"

	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/settle"
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
	only, there, err := d.alone(ctx, orderNo, o.ID)
	if err != nil {
		return o, err
	} else if !there { // it is settled by now, or was only one of too many that wait
		return d.ended(ctx, orderNo, o.ID)
	}
	o.ID = only
	about := journal.About{Kind: journal.Cancel, OrderNo: orderNo, Actor: journal.Actor{Name: by, Known: journal.ByProcess}, Details: map[string]string{"submission": o.ID}}
	act, err := journal.New(d.q, "door", "").Begin(ctx, journal.Intention{About: about, Safer: journal.Always})
	if err != nil {
		return o, d.readError(err)
	}
	var c imports.Cancelled
	err = d.q.Conn.UnlessRefused(ctx, func(ctx context.Context) (err error) {
		c, err = imports.CancelOrder(ctx, d.q, orderNo, by)
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
		return o, d.readError(err)
	}
	return d.Outcome(ctx, orderNo, o.ID)
}

// alone reports whether a submission is stored, and returns ErrPending if another one of the
// order_no is. "" means the only one there is, whose ID it returns: nobody looked for it
// where too many wait. It reads the waiting room to its end, as the withdrawal itself does.
func (d *Door) alone(ctx context.Context, orderNo, id string) (only string, there bool, err error) {
	stored, err := d.stored(ctx, orderNo)
	if err != nil {
		return id, false, d.readError(err)
	}
	for _, other := range stored {
		if id == "" {
			id = other
		}
		if other != id {
			return id, false, fmt.Errorf("%w: order %q, submission %q; orderpost enqueue cancel --order withdraws all of them", ErrPending, orderNo, other)
		}
	}
	return id, len(stored) > 0, nil
}

// stored returns the IDs of all submissions of an order_no that have no outcome. It looks at
// the waiting room first, because what is there may be moved into the queue.
func (d *Door) stored(ctx context.Context, orderNo string) (ids []string, err error) {
	err = imports.WaitingOfOrder(ctx, d.q, orderNo)(func(page []*settle.Message) error {
		for _, m := range page {
			ids = append(ids, m.IntentID())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	st, err := d.look(ctx, orderNo)
	if err == nil && st.Pending != nil {
		ids = append(ids, st.Pending.ID)
	}
	return ids, err
}

// ended is Outcome for a submission that is not stored any more, or never was.
func (d *Door) ended(ctx context.Context, orderNo, id string) (Outcome, error) {
	o, found, err := d.find(ctx, orderNo, id)
	if err == nil && !found {
		err = fmt.Errorf("%w: %s", ErrUnknownOrder, unknown(o, orderNo, id))
	}
	return o, err
}
