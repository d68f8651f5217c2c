package door

import (
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// check publishes the submissions of a batch of whose order_no nothing is stored, and
// looks at the others first. It may be told too little by a replica that lags: the broker
// refuses what is pending, and a worker recognises what it settled (R6).
func (d *Door) check(batch []*submission) {
	tokens := make([]string, len(batch))
	for i, s := range batch {
		tokens[i] = order.Token(s.in.OrderNo)
	}
	var stored, records []*settle.Message
	var both errgroup.Group
	both.Go(func() (err error) { stored, err = d.q.Intents().Peek(d.ctx, tokens); return err })
	both.Go(func() (err error) { records, err = d.q.Results().Peek(d.ctx, tokens); return err })
	err := both.Wait()
	for i, s := range batch {
		s.checked = err == nil
		switch {
		case err != nil:
			d.run(func() { d.pursue(s, settle.Published{Err: err}) })
		case stored[i] == nil && records[i] == nil && s.broken == nil:
			d.line(s).add(s)
		default:
			d.run(func() { d.pursue(s, settle.Published{}) })
		}
	}
}

// known returns Same if the submission was stored before, and 0 if it may be published.
// Errors: ErrPending, ErrIDUsed.
func (d *Door) known(s *submission) (Status, error) {
	st, err := d.look(s.ctx, s.in.OrderNo)
	if err != nil {
		return 0, err
	}
	if hash, ok := hashOf(st, s.in.ID); ok {
		if hash != s.hash {
			return 0, idUsed(s, "with another body")
		}
		return Same, nil
	}
	if st.Pending != nil && !s.in.Waits() {
		return 0, fmt.Errorf("%w: order %q", ErrPending, s.in.OrderNo)
	}
	return 0, nil
}

// waits reports whether the submission was stored before and waits for its time. Only few
// orders wait for the same second. Error: ErrIDUsed.
func (d *Door) waits(s *submission) (bool, error) {
	for from, left := uint64(1), 1; left > 0; {
		var page []*settle.Message
		var err error
		if page, left, err = d.q.Waiting.Page(s.ctx, s.room, from, pageOfRoom); err != nil {
			return false, err
		}
		for _, m := range page {
			if from = m.Seq + 1; m.IntentID() != s.in.ID {
				continue
			}
			if parsed, err := order.Parse(m.Data); err != nil || parsed.BodyHash() != s.hash {
				return false, idUsed(s, "with another body")
			}
			return true, nil
		}
		if len(page) == 0 {
			break
		}
	}
	return false, nil
}

// pageOfRoom is how many waiting orders waits reads at once.
const pageOfRoom = 500

// hashOf returns the hash of the body that was stored under an ID. ok is false if nothing
// was stored under it.
func hashOf(st books.OrderStatus, id string) (hash string, ok bool) {
	r := st.Record
	if st.Pending != nil && st.Pending.ID == id {
		return st.Pending.BodyHash, true
	}
	if r == nil {
		return "", false
	}
	if i := slices.IndexFunc(r.Conflicts, func(c order.Conflict) bool { return c.IntentID == id }); i >= 0 {
		return r.Conflicts[i].BodyHash, true
	}
	return r.BodyHash, r.IntentID == id
}

// swallowed judges a submission that the broker took for one of before, of which nothing is
// stored. It is the same if another submission with its body has replaced it and was accepted.
// Then the last word on the order_no tells what became of it, and no ID.
func (d *Door) swallowed(s *submission) (Status, error) {
	st, err := d.look(s.ctx, s.in.OrderNo)
	switch {
	case err != nil:
		return 0, err
	case st.Record.Outcome() == order.OutcomeAccepted && st.Record.BodyHash == s.hash:
		s.receipt.ID = ""
		return Same, nil
	}
	return 0, idUsed(s, "the broker remembers it from another order, or from a submission that another one has replaced")
}

func idUsed(s *submission, how string) error {
	return fmt.Errorf("%w: %q, order %q: %s", ErrIDUsed, s.in.ID, s.in.OrderNo, how)
}
