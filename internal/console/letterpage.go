package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// letterPage is the page of one dead letter.
type letterPage struct {
	*settle.Letter
	Says      string
	Facts     facts
	Events    []event
	Body      string
	OrderLink string
	// Settles says that the person may act on it, Resolves that a person's word can
	// settle the order.
	Settles, Resolves bool
	// Field is what a field has for the correction of the order, and Lines how high it is; "" = the order cannot be
	// corrected in a field, which would not show all that it has.
	Field string
	Lines int
}

func showLetter(v *visit) error {
	l, err := readLetter(v, v.queue())
	if err != nil {
		return err
	}
	entry, err := v.queue().Store().Record(v.Context(), l.Token())
	if err != nil {
		return err
	}
	p := letterPage{Letter: l, Says: sentence(l.Outcome.Meaning()), OrderLink: orderAddress(l.Name()),
		Settles: v.may(Operator), Resolves: resolvable(l, entry.Record)}
	underway, err := deadletter.Underway(v.Context(), v.queue(), []*settle.Letter{l})
	if err != nil {
		return err
	}
	history := orderPage{Found: status.Found{Entry: entry, Letters: []*settle.Letter{l}}}
	history.list()
	p.Events = history.Events
	say := p.Facts.say
	if underway[0] {
		say("Under way", "a replay or a correction of the order is in the queue")
	}
	say("Reason", l.Reason)
	say("Error", l.Error)
	say("Last verdict", verdict(l.Verdict, l.Status))
	say("Last answer", l.Response)
	say("Kept answer", keptAnswer(&l.Recalled))
	say("Attempts", strconv.Itoa(l.Attempts))
	say("Doubt", doubt(entry.Record))
	say("Permission", permission(entry.Record))
	say("Import", l.Batch)
	say("Source", l.Source)
	say("Worker", l.Worker)
	say("Submission", l.IntentID)
	say("Deadline", settle.Header(l.Headers).Get(settle.HeaderDeadline))
	say("Enqueued", stamp(l.EnqueuedAt))
	if l.Conflict {
		say("Conflict", "the order number was accepted before with another body")
	}
	if l.Replays > 0 {
		say("Replays", count(l.Replays))
	}
	say("Sequence", count(l.Seq))
	if v.may(Importer) {
		p.Body = readable(l.Body)
		if text, isJSON := indented(l.Body); isJSON {
			p.Field = typable(text)
			p.Lines = min(strings.Count(p.Field, "\n")+2, 30)
		}
	}
	return v.render("letter", "Dead letter of "+shorten(l.OrderNo, 60), p)
}

// doubt says whether the order may exist at the API.
func doubt(r *order.Record) string {
	switch {
	case r.Outcome() == order.OutcomeAccepted:
		return "none: the order was accepted"
	case r.Doubtful():
		return "an attempt may have created the order, and nothing has settled that"
	default:
		return "none: no attempt can have created the order"
	}
}

// permission says whether somebody allowed the order to be sent in spite of the doubt.
func permission(r *order.Record) string {
	if r == nil || r.AllowedFor == "" {
		return ""
	}
	return "a person allowed another attempt of this order"
}

// resolvable reports whether a person's word can settle the order of the letter.
func resolvable(l *settle.Letter, r *order.Record) bool {
	return r != nil && !l.Conflict && r.Outcome() == order.OutcomeUnknown
}

// readLetter reads the letter that the address names by its sequence.
func readLetter(v *visit, q *queue.Queue) (*settle.Letter, error) {
	seq, err := strconv.ParseUint(v.PathValue("seq"), 10, 64)
	if err != nil || seq == 0 {
		return nil, notFound("There is no such dead letter.", "Choose one from the list.")
	}
	ctx := v.brief()
	l, err := deadletter.LetterAt(ctx, q, seq)
	if err == nil && l == nil {
		err = notFound("This dead letter is not there any more: somebody resolved or dropped it, or its order has another outcome since.",
			"Look at the list of dead letters, or search the order to see what happened to it.")
	}
	return l, err
}

// keptAnswer shows the answer to an attempt whose refusal was called back; "" = none.
func keptAnswer(r *order.Recalled) string {
	if r.Status == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s, called back: %s", r.Status, r.Answer, r.WhatSaid())
}

// correctLetter takes the corrected order of a dead letter as a file with that order, which is checked and imported like
// any other one.
func correctLetter(v *visit) error {
	l, err := readLetter(v, v.queue())
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(v.PostFormValue("body"))); err != nil {
		return &problem{status: http.StatusUnprocessableEntity, what: "That is no JSON object: " + sentence(err.Error()) + " Nothing was done.", todo: "Go back, and correct it.", cause: err}
	}
	if bytes.Equal(line.Bytes(), l.Body) {
		return badRequest("The order is as it was, so there is nothing to correct.", "To send it again unchanged, replay the dead letter.")
	}
	u, err := v.s.desk.Store().Keep(v.Context(), "correction-"+l.OrderNo+".ndjson", uploader(v), &line)
	if err != nil {
		return err
	}
	checkItself(v, u.ID)
	return v.done(there(u.ID), "")
}
