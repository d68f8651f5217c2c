package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/audit/journal"
	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// ofLetter serves an act on the dead letter that the address names, with what is on record of
// its order. An act that finds the letter gone does nothing and says so.
func ofLetter(serve func(*visit, *settle.Letter, settle.Entry) error) func(*visit) error {
	return func(v *visit) error {
		l, err := readLetter(v, v.s.queue)
		if p, ok := errors.AsType[*problem](err); ok && v.Method == http.MethodPost && p.status == http.StatusNotFound {
			return letterStale()
		}
		if err != nil {
			return err
		}
		entry, err := v.s.queue.Store().Record(v.Context(), l.Token())
		if err != nil {
			return err
		}
		return serve(v, l, entry)
	}
}

// letterStale is the problem of a person who decided on a letter that is gone.
func letterStale() error {
	return stale("This dead letter is gone since you opened the page: somebody else resolved or dropped it, or its order has another outcome since.")
}

// stays is the problem of a letter that an act would leave alone.
func stays(what, todo string) error {
	return &problem{status: http.StatusConflict, what: what + " Nothing was done.", todo: todo}
}

// actOn carries out an act on one letter that a person has confirmed.
func actOn(v *visit, l *settle.Letter, about journal.About, do func(context.Context) error) error {
	about.OrderNo, about.LastSeq = l.Name(), l.Seq
	if about.Details == nil {
		about.Details = make(map[string]string)
	}
	about.Details["letter"] = strconv.FormatUint(l.Seq, 10)
	err := v.act(about, nil, do)
	v.s.watch.forget()
	v.s.watch.letters.anew()
	return err
}

// letterConfirmation is what the confirmations of all acts on one letter share.
func letterConfirmation(l *settle.Letter, entry settle.Entry, title, button string) *confirmation {
	c := &confirmation{Title: title, Button: button, Seen: mark(l.Seq, entry.Seq), Changed: letterChanged(entry), Back: "/letters/" + strconv.FormatUint(l.Seq, 10),
		Facts: []fact{{"Order", l.OrderNo}, {"Outcome", l.Outcome.String() + ": " + l.Outcome.Meaning()}}}
	if l.Reason != "" {
		c.Facts = append(c.Facts, fact{"Reason", l.Reason})
	}
	c.Facts = append(c.Facts, fact{"Filed", stamp(l.FiledAt)})
	return c
}

// letterChanged says what became of a letter's order since somebody looked.
func letterChanged(entry settle.Entry) string {
	says := "What is known about this order has changed since you opened the page."
	if r := entry.Record; r != nil {
		if n := len(r.Interventions); n > 0 {
			last := r.Interventions[n-1]
			says += " " + sentence(somebody(last.By)+" "+last.Did+" at "+stamp(last.At))
		}
		says += " It is " + r.Word + " now."
	}
	return says
}

// replayPlan is what a replay of a letter would do, and the permissions it needs.
type replayPlan struct {
	settle.ReplayOptions
	end settle.Replay
	// unknown: the order may exist. late: the deadline has passed.
	unknown, late bool
}

// state says what a replay would do, for the mark of its page.
func (p replayPlan) state() string {
	return fmt.Sprintf("%s unknown=%t late=%t", p.end, p.unknown, p.late)
}

// planReplay finds out what a replay would do now.
func planReplay(v *visit, l *settle.Letter) (p replayPlan, err error) {
	p.Person = settle.Person{Name: v.person().Name, Note: v.field("note")}
	judge := func() (err error) {
		ends, err := deadletter.DryRunReplay(v.Context(), v.s.queue, []*settle.Letter{l}, p.ReplayOptions)
		if err == nil {
			p.end = ends[0]
		}
		return err
	}
	if err = judge(); err == nil && p.end == settle.ReplayInDoubt && v.person().ResubmitUnknown {
		p.unknown, p.ResubmitUnknown = true, true
		err = judge()
	}
	if err == nil && p.end == settle.ReplayLate {
		p.late, p.Deadline = true, new(time.Time)
		err = judge()
	}
	return p, err
}

// would says what becomes of a letter that a replay leaves alone; nil if it does not.
func (p replayPlan) would(v *visit) error {
	switch p.end {
	case settle.Replayed:
		return nil
	case settle.ReplayedBefore:
		return stays("This letter's replay is in the queue already, and has no outcome yet.", "Wait for its outcome.")
	case settle.ReplayGone:
		return letterStale()
	case settle.ReplayPending:
		return stays("Another intent for this order number is in the queue, so the letter stays.", "Wait until that one is settled, and look again.")
	case settle.ReplayAccepted:
		return stays("The order was accepted, so nothing needs to be sent.", "Drop the letter if nobody needs it. A correction with another body needs an order number of its own.")
	case settle.ReplayInDoubt:
		if !v.person().ResubmitUnknown {
			return &problem{status: http.StatusForbidden, what: "This order is in doubt: it may exist at the API. Sending it again needs the right resubmit-unknown, and you do not have it. Nothing was done.",
				todo: "Ask the API's operator whether the order exists, and resolve it. Or ask whoever runs this console for the right (operator+resubmit-unknown)."}
		}
		return stays("This order is in doubt: it may exist at the API.", "Look at the letter again.")
	case settle.ReplayOtherInDoubt:
		return stays("This letter's order was not sent, because an order with other fields may exist under its number.", "Ask the API's operator whether that one exists, and resolve the order. If it does not exist, this one can be replayed.")
	case settle.ReplayForeign:
		return stays("The order was published to a subject that does not belong to its order number, and would be refused again.", "Export it, correct it, and enqueue it.")
	default:
		return stays("The order's record cannot be read by this version.", "A newer orderpost may have written it. Use that one.")
	}
}

func replayLetter(v *visit, l *settle.Letter, entry settle.Entry) error {
	plan, err := planReplay(v, l)
	if err != nil {
		return err
	}
	if err := plan.would(v); err != nil {
		return err
	}
	c := letterConfirmation(l, entry, "Replay a dead letter", "Replay")
	c.Seen = mark(c.Seen, plan.state())
	c.Says = []string{"The order goes back into the queue, unchanged and under its own order number. A worker sends it when its turn comes. Until it has its outcome, the dead letter stays in the list, under way."}
	if plan.late {
		c.Says = append(c.Says, "Its deadline has passed ("+settle.Header(l.Headers).Get(settle.HeaderDeadline)+"), so it is sent without a deadline.")
	}
	about := journal.About{Kind: journal.Replay, Details: make(map[string]string), Expected: map[string]int{plan.end.String(): 1}}
	if plan.unknown {
		about.Details["resubmit-unknown"] = "true"
	}
	if plan.late {
		about.Details["deadline"] = "none"
	}
	c.Asks = &about
	c.Inputs = []input{noteInput(plan.unknown)}
	if plan.unknown {
		c.Button, c.Danger = "Send it again", true
		c.Warning = "This order may exist at the API. If it does, and the API does not recognise a duplicate order number, it is created twice. Your permission is recorded with your name."
		c.Inputs = append(c.Inputs, typedInput(l))
	}
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	if plan.unknown && c.Inputs[1].Value != typed(l) {
		c.Wrong, v.status = "Nothing was done. What you typed is not "+typed(l)+".", http.StatusUnprocessableEntity
		return v.confirm(c)
	}
	about.Note = plan.Person.Note
	err = actOn(v, l, about, func(ctx context.Context) error {
		end, err := v.s.queue.Operator.Replay(ctx, l, plan.ReplayOptions)
		if err == nil {
			err = replayPlan{end: end}.would(v)
		}
		return err
	})
	return v.doneUnless(err, orderAddress(l.Name()), "The order is back in the queue. Its dead letter stays until it has its outcome.")
}

// typed is what must be typed to confirm an act on a letter: the order number, or the
// letter's sequence where the order number cannot be typed.
func typed(l *settle.Letter) string {
	if no := l.OrderNo; no != "" && len(no) <= 60 && plain(no) == no && strings.TrimSpace(no) == no && !strings.ContainsAny(no, "\n\t") {
		return no
	}
	return strconv.FormatUint(l.Seq, 10)
}

func typedInput(l *settle.Letter) input {
	in := input{Name: "typed", Label: "Type " + typed(l) + " to confirm", Must: true, Hint: "This is the order number."}
	if typed(l) != l.OrderNo {
		in.Hint = "This is the letter's sequence, because the order number is hard to type."
	}
	return in
}

func resolveOrder(v *visit, l *settle.Letter, entry settle.Entry) error {
	if !resolvable(l, entry.Record) {
		return stays("The outcome of this order is not unknown, so there is nothing to resolve.", "Look at the order's page.")
	}
	c := letterConfirmation(l, entry, "Resolve an order", "Record this")
	c.Says = []string{"Say what you found out about this order at the API. Your word is recorded with your name and the time, and the dead letter goes away, with the order in it.",
		"If the API itself confirms an acceptance later, that counts instead."}
	if rec := entry.Record; rec != nil && slices.ContainsFunc(rec.Conflicts, func(x order.Conflict) bool { return x.IntentID == l.IntentID }) {
		c.Says = append(c.Says, "This dead letter is about a correction with another body, which was not sent. It stays: as a conflict if the order exists, and to be replayed if it does not.")
	}
	c.Inputs = []input{
		{Name: "as", Label: "At the API, the order", Must: true, Options: []fact{{"", "choose"}, {order.OutcomeAccepted.String(), "exists (accepted)"}, {order.OutcomeRejected.String(), "does not exist (rejected)"}}},
		noteInput(true),
	}
	c.Asks = &journal.About{Kind: journal.Resolve}
	c.Inputs[1].Hint = "How you know, for the record. Your name and the time are recorded, too."
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	var as order.Outcome
	if as.UnmarshalText([]byte(c.Inputs[0].Value)) != nil || as != order.OutcomeAccepted && as != order.OutcomeRejected {
		return badRequest("An order is resolved as accepted or rejected.", "Choose again.")
	}
	who := settle.Person{Name: v.person().Name, Note: c.Inputs[1].Value}
	err := actOn(v, l, journal.About{Kind: journal.Resolve, Note: who.Note, Details: map[string]string{"as": as.String()}}, func(ctx context.Context) error {
		gone, err := v.s.queue.Operator.ResolveLetter(ctx, l, as, who)
		if gone {
			return letterStale()
		}
		return refused(err)
	})
	return v.doneUnless(err, orderAddress(l.Name()), "Recorded: the order is "+as.String()+".")
}

// refused turns the protocol's refusals into sentences.
func refused(err error) error {
	switch {
	case errors.Is(err, settle.ErrPending):
		return stays("Another intent for this order number is in the queue, so the letter stays.", "Wait until that one is settled, and look again.")
	case errors.Is(err, settle.ErrNotInDoubt):
		return stale("The outcome of this order is not unknown any more.")
	case errors.Is(err, settle.ErrReplaced):
		return letterStale()
	default:
		return err
	}
}

func dropLetter(v *visit, l *settle.Letter, entry settle.Entry) error {
	would, err := deadletter.DryRunDrop(v.Context(), v.s.queue, []*settle.Letter{l})
	if err != nil {
		return err
	}
	if would[0] != nil {
		return refused(would[0])
	}
	c := letterConfirmation(l, entry, "Drop a dead letter", "Drop")
	c.Danger, c.Inputs = true, []input{noteInput(false)}
	c.Says = []string{"The dead letter goes away, and the order in it cannot be read or replayed any more. The order's result stays, and says who dropped the letter."}
	if l.Outcome == order.OutcomeUnknown {
		c.Says = append(c.Says, "The order stays protected from being sent again, because it may exist at the API.")
	}
	c.Warning = "This cannot be undone."
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	who := settle.Person{Name: v.person().Name, Note: c.Inputs[0].Value}
	err = actOn(v, l, journal.About{Kind: journal.Drop, Note: who.Note}, func(ctx context.Context) error {
		gone, err := v.s.queue.Operator.Drop(ctx, l, who)
		if err == nil && gone {
			err = letterStale()
		}
		return refused(err)
	})
	return v.doneUnless(err, "/letters", "The dead letter of order "+plain(shorten(l.OrderNo, 60))+" is dropped.")
}
