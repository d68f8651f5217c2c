package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

type orderPage struct {
	No string
	status.Found
	Known  bool
	Word   string // the outcome, retrying, or pending
	Tone   string
	Says   string
	Facts  facts
	Events []event
	Steps  []status.Step
	// ActOn is the dead letter that the buttons of the steps are about; 0 = there is none, or the person may not act.
	ActOn uint64
	// Bodies are the orders of the dead letters. They are empty for viewers.
	Bodies []letterBody
	// Import is the order's batch, if the console knows an import of that name.
	// ImportName is what people call it, with the batch.
	Import, ImportName string
	// Acts are the journal's entries of this order, its import, and of groups that it was
	// in. NoJournal says that they could not be read.
	Acts      []actLine
	NoJournal bool
}

// letterBody is the order of a dead letter.
type letterBody struct {
	*settle.Letter
	Text string
}

// fact is a name with its value.
type fact struct{ Name, Value string }

// facts are those of a page, in order.
type facts []fact

// say adds a fact, unless its value is empty.
func (f *facts) say(name, value string) {
	if value != "" {
		*f = append(*f, fact{name, value})
	}
}

// event is an entry of an order's time line.
type event struct {
	At     time.Time
	What   string
	Detail string
	// Answer is what the API said.
	Answer string
	Tone   string
}

func showOrder(v *visit) error {
	p := orderPage{No: v.query("no")}
	if p.No == "" {
		return showFound(v)
	}
	if len(p.No) > 4*order.MaxOrderNo {
		return badRequest(fmt.Sprintf("An order number has at most %d bytes, and this has %s.", order.MaxOrderNo, count(len(p.No))), "Check what was copied.")
	}
	ctx := v.brief()
	found, err := status.Find(ctx, v.queue(), p.No)
	if err != nil {
		return err
	}
	nobody := found.Record == nil
	if !found.Pending && (nobody || found.Record.ClaimsNotCreated()) { // enqueued again, it may wait there
		if found.Waiting, err = v.queue().Waiting.Total(ctx); err != nil && nobody {
			return err
		}
	}
	p.Found = found
	p.ImportName = p.batch()
	if name, known := v.s.batches.name(ctx, p.batch()); known {
		p.Import = p.batch()
		if name != p.Import {
			p.ImportName = name + " (batch " + p.Import + ")"
		}
	}
	if found.Pending && found.Record.Outcome() == order.OutcomeNone {
		p.NothingSent = v.s.watch.nothingSent(ctx, true)
	}
	p.Known = found.Record != nil || found.Pending
	p.judge()
	p.list()
	p.Steps = p.Advice(p.No)
	for _, l := range found.Letters {
		body := letterBody{Letter: l}
		if v.may(Importer) {
			body.Text = readable(l.Body)
		}
		p.Bodies = append(p.Bodies, body)
		if v.may(Operator) {
			p.ActOn = l.Seq
		}
	}
	items, err := deadletter.OfOrder(ctx, v.queue(), p.No, p.batch(), &found)
	p.NoJournal = err != nil
	for _, item := range items {
		p.Acts = append(p.Acts, describeAct(item))
	}
	v.live = true
	return v.render("order", "Order "+shorten(p.No, 60), p)
}

// batch returns the import of the order; "" if it is not known.
func (p *orderPage) batch() string {
	if p.Record == nil {
		return ""
	}
	return p.Record.Batch
}

// judge says in a word and a sentence how the order stands.
func (p *orderPage) judge() {
	o := p.Record.Outcome()
	switch {
	case o != order.OutcomeNone:
		p.Word, p.Tone, p.Says = o.String(), tone(o), sentence(o.Meaning())
	case p.Record != nil:
		p.Word, p.Tone, p.Says = p.Record.Word, "warn", "It has no outcome yet: "+p.Record.Note.String()+"."
	case p.Pending:
		p.Word, p.Tone, p.Says = "pending", "info", "It is in the queue, and no attempt is on record."
	}
	if p.Pending && p.Record != nil {
		p.Says += " An intent is in the queue."
	}
}

// tone is the colour of an outcome.
func tone(o order.Outcome) string {
	switch o {
	case order.OutcomeAccepted:
		return "good"
	case order.OutcomeCancelled:
		return "info"
	case order.OutcomeUnknown:
		return "warn"
	default:
		return "bad"
	}
}

// list collects the facts and the time line.
func (p *orderPage) list() {
	say := p.Facts.say
	happened := func(at time.Time, tone, what, detail, answer string) {
		if !at.IsZero() {
			p.Events = append(p.Events, event{At: at, What: what, Detail: detail, Answer: answer, Tone: tone})
		}
	}
	if r := p.Record; r != nil {
		if o := r.Outcome(); o != order.OutcomeNone {
			say("At the API", map[string]string{"yes": "created", "no": "not created", "unknown": "nobody knows"}[o.Created()])
		}
		say("Reason", r.Reason)
		say("Error", r.Error)
		say("Last verdict", verdict(r.Verdict, r.Status))
		for _, name := range slices.Sorted(maps.Keys(r.API)) {
			say("API: "+name, r.API[name])
		}
		say("Kept answer", keptAnswer(&r.Recalled))
		say("Attempts", strconv.Itoa(r.Attempts))
		say("Import", p.ImportName)
		say("Source", r.Source)
		say("Worker", r.Worker)
		say("Submission", r.IntentID)
		if r.Unsure {
			say("Doubt", strings.TrimSuffix("an attempt may have created the order, and nothing has settled that: "+r.DoubtReason, ": "))
		}
		if !r.NotBefore.IsZero() {
			say("Not before", stamp(r.NotBefore))
		}
		happened(r.EnqueuedAt, "info", "Enqueued", r.Source, "")
		trail := slices.ContainsFunc(p.Letters, func(l *settle.Letter) bool { return l.Seq == r.Letter && len(l.Trail) > 0 })
		if !trail {
			if r.Attempts > 1 {
				happened(r.FirstAttemptAt, "info", "First attempt", "", "")
			}
			last, answer := "Attempt", r.Response
			if r.Attempts > 1 {
				last = "Last attempt, number " + strconv.Itoa(r.Attempts)
			}
			if r.Outcome() != order.OutcomeNone {
				answer = "" // it stands beside the outcome
			}
			happened(r.LastAttemptAt, "info", last, "", answer)
		}
		if o := r.Outcome(); o != order.OutcomeNone {
			by := r.Reason
			if r.By != "" {
				by = "by " + r.By
			}
			answer := r.Response
			if trail {
				answer = "" // it stands beside the attempt
			}
			happened(r.SettledAt, tone(o), "Settled: "+o.String(), by, answer)
		}
		for _, c := range r.Conflicts {
			happened(c.RefusedAt, "warn", "Another body under this order number was refused", c.IntentID+" "+c.Source, "")
		}
		for _, e := range r.Earlier {
			happened(e.At, "warn", "An earlier submission ended: "+e.Outcome, e.Reason, "")
		}
		for _, i := range r.Interventions {
			happened(i.At, "person", i.By+" "+i.Did, i.Note, "")
		}
	}
	for _, l := range p.Letters {
		if l.Conflict {
			say("Conflict", l.Reason)
		}
		if l.Replays > 0 {
			say("Replays", strconv.Itoa(l.Replays))
		}
		for _, a := range l.Trail {
			happened(a.At, attemptTone(a.Verdict), "Attempt: "+verdict(a.Verdict, a.Status), strings.TrimPrefix(a.Reason+", took "+(time.Duration(a.DurationMS)*time.Millisecond).String(), ", "), a.Answer)
		}
		happened(l.FiledAt, tone(l.Outcome), "Dead letter filed", l.Reason, "")
	}
	slices.SortStableFunc(p.Events, func(a, b event) int { return a.At.Compare(b.At) })
}

func attemptTone(v order.Verdict) string {
	switch {
	case v.Exists():
		return "good"
	case v.Conclusive():
		return "bad"
	default: // it is tried again
		return "warn"
	}
}

func verdict(v order.Verdict, status int) string {
	switch {
	case v == order.VerdictNone:
		return ""
	case status == 0:
		return v.String() + ", no answer"
	default:
		return v.String() + ", status " + strconv.Itoa(status)
	}
}

// maxBody is the largest part of a body that a page shows, in bytes.
const maxBody = 16 << 10

// readable indents a body that is JSON, and makes any other one text.
func readable(body []byte) string {
	if text, isJSON := indented(body); isJSON {
		return plain(text)
	}
	return plain(shorten(string(body), maxBody))
}

// indented indents a body that is JSON, and not too long for a page.
func indented(body []byte) (text string, isJSON bool) {
	var out bytes.Buffer
	if len(body) > maxBody || json.Indent(&out, body, "", "  ") != nil {
		return "", false
	}
	return out.String(), true
}
