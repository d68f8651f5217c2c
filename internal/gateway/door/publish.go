package door

import (
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// newFlusher publishes to one stream: one flush at a time, of what gathered meanwhile.
func (d *Door) newFlusher() batcher[*submission] {
	p := d.q.NewPublisher()
	return newBatcher(d, queue.MaxPublish, func(batch []*submission) { d.flush(p, batch) })
}

// flusherOf returns the flusher of a submission.
func (d *Door) flusherOf(s *submission) *batcher[*submission] {
	if s.in.Waits() {
		return &d.waiting
	}
	return &d.queued
}

// flush publishes a batch and ends each submission that is stored. Every other answer is
// resolved in a goroutine of its own: it holds up no other submission.
func (d *Door) flush(p *queue.Publisher, batch []*submission) {
	all := batch
	batch = make([]*submission, 0, len(all))
	intents := make([]settle.Intent, 0, len(all))
	for _, s := range all {
		if s.begin() {
			batch, intents = append(batch, s), append(intents, s.in)
		}
	}
	if len(batch) == 0 {
		return
	}
	refused, _ := d.q.Conn.Refusals()
	for i, a := range p.Publish(d.ctx, intents) {
		a.Err = d.explain(a.Err, refused)
		if s := batch[i]; a.Status == settle.Stored && a.Err == nil {
			s.finish(Stored, nil)
		} else {
			s.note(a.Err)
			d.run(func() { d.resolve(s, a) })
		}
	}
}

// begin reports whether somebody still waits for the submission, and notes that it is
// sent.
func (s *submission) begin() bool {
	if s.ctx.Err() == nil && (s.state.CompareAndSwap(unsent, sent) || s.state.Load() == sent) {
		return true
	}
	s.endWait()
	return false
}

// note notes whether the last publish may have stored the submission.
func (s *submission) note(err error) {
	if queue.MayBeStored(err) {
		s.maybe = true
		return
	}
	if !s.maybe {
		s.state.CompareAndSwap(sent, unsent)
	}
}

// resolve finds out what an answer means that does not say "stored" (R6), and publishes
// again while the broker is waited for, or while a settled order takes the place. a is
// zero for a submission that was not published yet.
func (d *Door) resolve(s *submission, a settle.Published) {
	status, err := d.judge(s, a)
	switch {
	case err == nil && status != 0:
		s.finish(status, nil)
		return
	case err == nil && s.freed == settle.FreedTries:
		s.fail(ErrPending)
		return
	case err == nil && a.Status == settle.AlreadyPending:
		s.freed++
		err = settle.Sleep(s.ctx, settle.FreedPause)
	case err != nil:
		err = s.backoff(d.q, err)
	}
	if err != nil {
		s.fail(err)
		return
	}
	d.proceed(s)
}

// backoff waits before a publish is repeated that failed with err. It returns an error if
// it must not be repeated.
func (s *submission) backoff(q *queue.Queue, err error) error {
	if s.wait == nil {
		w, patient := q.Conn.NewWait()
		if !patient {
			return err
		}
		s.wait = w
	}
	if !q.Conn.OutOfReach(err) {
		return err
	}
	return s.wait.Backoff(s.ctx, err)
}

// judge returns the status of a submission by its answer, or 0: it is to be published.
func (d *Door) judge(s *submission, a settle.Published) (Status, error) {
	switch {
	case a.Err != nil:
		return 0, a.Err
	case a.Status == settle.Stored:
		return Stored, nil
	}
	if s.broken != nil && s.room != "" { // first: what leaves the waiting room is known to the other streams
		if waits, err := d.waits(s); waits || err != nil {
			return Same, err
		}
	}
	status, err := d.known(s)
	if s.broken != nil && status == 0 && (err == nil || errors.Is(err, ErrPending)) {
		return 0, s.broken
	}
	if err != nil || status != 0 || a.Status != settle.AlreadyKnown {
		return status, err
	}
	// Nothing is stored of this order under this ID. The message that the broker
	// remembers tells the rest.
	_, err = d.q.Producer.Verify(s.ctx, s.in, a.Status, a.Seq)
	if errors.Is(err, settle.ErrSwallowed) {
		return d.swallowed(s)
	}
	return Same, err
}

// explain adds why no answer came, if the broker has refused a permission meanwhile.
func (d *Door) explain(err error, before uint64) error {
	if n, why := d.q.Conn.Refusals(); n != before && queue.MayBeStored(err) {
		return errors.Join(err, why)
	}
	return err
}

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
			d.run(func() { d.resolve(s, settle.Published{Err: err}) })
		case stored[i] == nil && records[i] == nil && s.broken == nil:
			d.flusherOf(s).add(s)
		default:
			d.run(func() { d.resolve(s, settle.Published{}) })
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
func hashOf(st status.OrderStatus, id string) (hash string, ok bool) {
	if st.Pending != nil && st.Pending.ID == id {
		return st.Pending.BodyHash, true
	}
	if st.Record == nil {
		return "", false
	}
	if c := st.Record.Listed(id); c != nil {
		return c.BodyHash, true
	}
	return st.Record.BodyHash, st.Record.IntentID == id
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
