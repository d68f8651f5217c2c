package lookup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/audit/journal"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// labels is the width of the left column.
const labels = 15

// page is the printed text, in lines of at most 80 columns. Commands to be copied are
// not broken.
type page struct{ bytes.Buffer }

// row prints a name and its text, unless the text is empty.
func (p *page) row(name, text string) {
	if text == "" {
		return
	}
	for i, line := range Lines(text, width-labels) {
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(p, "%-*s%s\n", labels, name, line)
	}
}

func (p *page) title(text string) { fmt.Fprintf(p, "\n%s\n", text) }

// print writes the finding as text.
func (f *Finding) print(out io.Writer) error {
	p := &page{}
	p.row("order_no", f.OrderNo)
	if f.Pending {
		p.row("queue", "an intent is waiting or being worked on")
	}
	p.waiting(f)
	p.row("fleet", f.NothingSent)
	if f.Result != nil {
		p.result(f.Result)
	}
	for _, l := range f.Letters {
		p.letter(l.Letter, f.Pending)
	}
	if f.Result != nil && len(f.Result.Conflicts) > 0 {
		p.conflicts(f.Result)
	}
	for _, l := range f.Letters {
		p.trail(l.Letter)
	}
	p.earlier(f.Result)
	for _, l := range f.Letters {
		if title := "The order"; len(f.Letters) == 1 {
			p.title(title)
		} else {
			p.title(title + " of the dead letter of " + at(l.FiledAt))
		}
		p.body(l.Body)
	}
	p.people(f)
	p.title("What now")
	for _, s := range f.steps() {
		for _, line := range Lines(s.Text, width-2) {
			fmt.Fprintf(p, "  %s\n", line)
		}
		if s.Command != "" {
			fmt.Fprintf(p, "    %s\n", Plain(s.Command))
		}
	}
	_, err := p.WriteTo(out)
	return err
}

// people prints what people did, oldest first: the record's entries, and those
// of the journal. Of an act that is in both, it prints the journal's.
func (p *page) people(f *Finding) {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, item := range f.Journal {
		text := item.Actor.Name + " (" + item.Actor.Known.Meaning() + ") " + string(item.Kind) + ": " + strings.Join(Describe(item), "; ")
		lines = append(lines, line{item.Stored, text})
	}
	if f.Result != nil {
		for _, i := range f.Result.Interventions {
			inJournal := func(item journal.Item) bool {
				return (item.OrderNo != "" || item.LastSeq > 0) && item.Actor.Name == i.By && item.Result != nil && !i.At.Before(item.At) && !i.At.After(item.Ended)
			}
			if !slices.ContainsFunc(f.Journal, inJournal) {
				lines = append(lines, line{i.At, strings.TrimSuffix(i.By+" "+i.Did+": "+i.Note, ": ")})
			}
		}
	}
	if len(lines)+len(f.NoJournal) == 0 {
		return
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	p.title("What people did")
	for _, l := range lines {
		p.row("  "+shortTime(l.at), l.text)
	}
	p.row("  not known", f.NoJournal)
}

func (p *page) result(r *order.Record) {
	if o := r.Outcome(); o != order.OutcomeNone {
		p.row("outcome", o.String()+": "+o.Meaning())
		p.row("at the API", map[string]string{"yes": "created", "no": "not created", "unknown": "nobody knows"}[o.Created()])
	} else {
		p.row("outcome", r.Word+" ("+r.Note.String()+")")
	}
	if r.Unsure && (r.DoubtReason != r.Reason || !r.Verdict.LeavesDoubt()) {
		p.row("doubt", r.DoubtReason)
	}
	p.row("reason", r.Reason)
	p.row("error", r.Error)
	if r.Verdict != order.VerdictNone {
		p.row("last verdict", r.Verdict.String()+", "+statusText(r.Status))
	}
	p.row("last answer", r.Response)
	for _, name := range slices.Sorted(maps.Keys(r.API)) {
		p.row(name, r.API[name])
	}
	if k := r.Recalled; k.Status != 0 {
		p.row("kept answer", fmt.Sprintf("%s: %s", statusText(k.Status), k.Answer))
		p.row("", fmt.Sprintf("of %s, called back: %s", at(k.At), k.WhatSaid()))
	}
	p.row("attempts", strconv.Itoa(r.Attempts))
	p.row("enqueued", at(r.EnqueuedAt))
	p.row("first attempt", at(r.FirstAttemptAt))
	p.row("last attempt", at(r.LastAttemptAt))
	p.row("settled", at(r.SettledAt))
	p.row("settled by", r.By)
	p.row("not before", at(r.NotBefore))
	p.row("submission", r.IntentID)
	p.row("batch", r.Batch)
	p.row("source", r.Source)
	p.row("worker", r.Worker)
	if r.Dropped {
		p.row("dead letter", "dropped by a person")
	}
}

// conflicts prints the intents that the result is not about.
func (p *page) conflicts(r *order.Record) {
	p.title("Refused: the same order_no with another body")
	for _, c := range r.Conflicts {
		text := c.IntentID
		if c.Source != "" {
			text += ", " + c.Source
		}
		if r.ConflictOf(c.IntentID) != nil {
			text += ": rejected as a conflict"
		}
		p.row("  "+shortTime(c.RefusedAt), text)
	}
}

func (p *page) letter(l *settle.Letter, pending bool) {
	text := "filed " + at(l.FiledAt)
	if pending {
		text += ", under way"
	}
	p.row("dead letter", text)
	if l.Conflict {
		p.row("", l.Reason)
	}
	if l.Replays > 0 {
		p.row("replays", strconv.Itoa(l.Replays))
	}
}

func (p *page) trail(l *settle.Letter) {
	if len(l.Trail) > 0 {
		p.title("Attempts of the last submission")
		if before := l.Attempts - len(l.Trail); before > 0 {
			p.row("  earlier", fmt.Sprintf("%d %s, since %s, not kept one by one", before, Plural(before, "attempt", "attempts"), at(l.FirstAttemptAt)))
		}
		for _, a := range l.Trail {
			p.attempt(a)
		}
	}
}

// earlier prints the outcomes of earlier submissions.
func (p *page) earlier(r *order.Record) {
	if r == nil {
		return
	}
	for i, e := range r.Earlier {
		if i == 0 {
			p.title("Before that")
		}
		p.row("  "+shortTime(e.At), fmt.Sprintf("%s after %d %s: %s", e.Outcome, e.Attempts, Plural(e.Attempts, "attempt", "attempts"), e.Reason))
	}
}

func (p *page) attempt(a order.Attempt) {
	took := time.Duration(a.DurationMS) * time.Millisecond
	text := fmt.Sprintf("%s, %s, %s", a.Verdict, statusText(a.Status), took)
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	if a.CalledBack {
		text += ", called back"
	}
	p.row("  "+a.At.UTC().Format("15:04:05.000"), text)
	p.row("", a.Verdict.Meaning())
	if a.Answer != "" {
		p.row("", "answer: "+a.Answer)
	}
}

// body prints the order: an object field by field, anything else unchanged.
func (p *page) body(text string) {
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(text), "  ", "  ") == nil && indented.Len() <= maxBody {
		for line := range strings.Lines(indented.String()) {
			line = strings.TrimRight(line, "\n")
			indent := len(line) - len(strings.TrimLeft(line, " "))
			for i, part := range Lines(line, width-indent-4) {
				if i == 0 {
					fmt.Fprintf(p, "%s%s\n", strings.Repeat(" ", max(2, indent)), part)
				} else {
					fmt.Fprintf(p, "%s  %s\n", strings.Repeat(" ", max(2, indent)), part)
				}
			}
		}
		return
	}
	for _, line := range Lines(Clip(text, maxBody), width-2) {
		fmt.Fprintf(p, "  %s\n", line)
	}
}

// maxBody is the largest part of a body that is shown. --json shows all.
const maxBody = 4000

func statusText(code int) string {
	if code == 0 {
		return "no answer"
	}
	return "status " + strconv.Itoa(code)
}

func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000Z")
}

// shortTime formats a time for the left column.
func shortTime(t time.Time) string { return t.UTC().Format("01-02 15:04") }
