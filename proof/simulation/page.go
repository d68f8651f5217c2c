package simulation

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// ben is a colleague of anna.
var ben = settle.Person{Name: "ben"}

// actOnPage lets a person open a page that lists a dead letter, look the order up at the
// API, and act on what the page shows after it has been open for a while. Package acts
// gives the listed letter to settle in the same way.
func (w *world) actOnPage(h *host, no string) {
	ctx := context.Background()
	e := w.e
	var listed *settle.Letter
	for range 6 {
		if l, err := w.letter(h, no); err == nil && l != nil && w.api.underway[no] == 0 {
			listed = l
			w.witness.tell(oracle.Event{Kind: oracle.Looked, Process: h.run, OrderNo: no})
			break
		}
		e.nap(e.between(time.Second, 10*time.Second))
	}
	if listed == nil {
		return
	}
	as := w.truth(no)
	if e.chance(0.5) && e.happens() { // a colleague replays the letter meanwhile
		w.process("ben-"+no, h.stream.id|0x200, e.between(0, 5*time.Second), func(h *host) {
			w.replayWith(h, no, settle.ReplayOptions{Person: ben, ResubmitUnknown: true})
		})
	}
	open := e.between(0, w.cfg.Trouble)
	if !e.happens() {
		open = 0
	}
	act := e.rng.IntN(4)
	e.trace.say(e, h.name, "page opened", no, "shows letter %d (%s), the API has it: %t", listed.Seq, listed.Outcome, as == order.OutcomeAccepted)
	e.nap(open)
	e.reached.strike(FaultStalePage, h.step())
	believed := w.drops(Page)
	if believed && act != 1 { // a replay and a drop do nothing to a letter that the record does not name
		act = 3
	}
	for range 4 {
		var said string
		var err error
		switch act {
		case 0, 1:
			if now, lookErr := w.letter(h, no); believed && lookErr == nil && now != nil {
				listed = now
			}
			var end settle.Replay
			end, err = h.q.Operator.Replay(ctx, listed, settle.ReplayOptions{Person: anna, Deadline: &time.Time{}, ResubmitUnknown: act == 1})
			said = "replay: " + end.String()
		case 2:
			var gone bool
			gone, err = h.q.Operator.Drop(ctx, listed, anna)
			said = "drop" + when(gone, ": it is gone")
		default:
			said = "resolve as " + as.String()
			if believed && !listed.Conflict { // whatever the record is about by now
				_, err = h.q.Operator.Resolve(ctx, no, "", as, anna)
				break
			}
			var gone bool
			gone, err = h.q.Operator.ResolveLetter(ctx, listed, as, anna)
			said += when(gone, ": it is gone")
		}
		e.trace.say(e, h.name, "acts on the page", no, "%s: %v", said, err)
		if err == nil || !isLink(err) && !errors.Is(err, settle.ErrStorage) {
			return
		}
		e.nap(pauseAfter(err))
	}
}
