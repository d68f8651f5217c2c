package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/settle"
)

const (
	// previewKind is the kind of jobs that count what an act would do.
	previewKind = "preview"
	// previewLasts is how long a person may decide on what a preview counted.
	previewLasts = 30 * time.Minute
	// previewWait is how long a request waits for a preview before it shows its
	// progress.
	previewWait = time.Second
	// lookupFor is how long the workers ask about an order that a person has looked up.
	lookupFor = time.Hour
	// maxChosen bounds the letters that are chosen one by one.
	maxChosen = 500
)

// plan is what a person wants to do with a group of dead letters. It does not change
// between its preview and its run.
type plan struct {
	act journal.Kind
	deadletter.Group
	filter deadletter.LetterFilter
	fields map[string][]string // the filter as the journal keeps it
	// unknown: also orders that may exist already. late: without their deadlines.
	unknown, late bool

	mu     sync.Mutex
	orders []string // the first orders that were replayed
}

// groupActs are the acts on groups, by what they are called.
var groupActs = map[journal.Kind]struct{ title, button, done string }{
	journal.Replay:  {"Replay dead letters", "Replay", "put back into the queue"},
	journal.Lookup:  {"Look up orders in doubt", "Look up", "put into the queue, to be looked up"},
	journal.Resolve: {"Resolve orders in doubt", "Resolve", "settled"},
	journal.Drop:    {"Drop dead letters", "Drop", "forgotten"},
}

// planGroup starts the preview of an act on a selection, or on all that match.
func planGroup(v *visit) error {
	p, err := readPlan(v, journal.Kind(v.PostFormValue("act")))
	if p == nil {
		return err
	}
	if _, known := groupActs[p.act]; !known {
		return badRequest("It is not known what to do with these dead letters.", "Choose one of the buttons of the list.")
	}
	if p.unknown && !v.person().ResubmitUnknown {
		return noUnknown()
	}
	return startPreview(v, p, groupActs[p.act].title, v.s.previewing(p))
}

// jobRun is what a job does.
type jobRun = func(context.Context, *jobs.Job) (any, error)

// startPreview starts a preview and shows it, or how far it is.
func startPreview(v *visit, p *plan, title string, run jobRun) error {
	job, err := v.s.jobs.Start(jobs.Spec{Kind: previewKind, Title: "Preview: " + title, By: v.person().Name, Subject: p}, run)
	if err != nil {
		return busy(err)
	}
	_ = job.Wait(v.within(previewWait)) // the job's page shows either
	return v.done("/jobs/"+job.ID, "")
}

// readPlan reads which letters the form of the list is about; nil = of none. If none is ticked,
// it leads back to the page of the list that the form was on, which says so beside its buttons.
func readPlan(v *visit, act journal.Kind) (*plan, error) {
	if err := v.ParseForm(); err != nil {
		return nil, err
	}
	filter, err := url.ParseQuery(v.field("filter")) // as in the address of the list
	if err != nil {
		return nil, badRequest("The filter of this form cannot be read.", "Open the list again.")
	}
	p := &plan{act: act, filter: readFilter(filter), unknown: v.field("unknown") == "yes", late: v.field("late") == "yes"}
	matcher, wrong := p.filter.Compile(time.Now())
	if len(wrong) > 0 {
		return nil, badRequest("The filter has a mistake: "+sentence(wrong[0].Error()), "Correct it on the page of dead letters.")
	}
	p.Selects, p.fields = matcher.Selects, p.filter.Fields(matcher)
	ctx := v.brief()
	last, err := deadletter.LastLetter(ctx, v.s.queue)
	if err != nil {
		return nil, err
	}
	// What the person saw ends with this letter. A stream that ends before it was purged
	// or restored since, or the form was made up.
	if p.Last, err = strconv.ParseUint(v.seen(), 10, 64); err != nil || p.Last > last {
		return nil, stale("The list that this form comes from does not exist any more: the dead letters end with letter " + strconv.FormatUint(last, 10) + " now.")
	}
	if v.field("which") == "chosen" {
		if len(v.PostForm["letter"]) == 0 {
			return nil, v.done(lettersAt(p.filter, "from", v.field("from"), "before", v.field("before"), "ticked", "none")+"#many", "")
		}
		if p.Seqs, err = chosen(v.PostForm["letter"]); err != nil {
			return nil, err
		}
		p.fields["letter"] = v.PostForm["letter"]
		delete(p.fields, "all")
	}
	return p, nil
}

// chosen reads the sequences of letters that were chosen one by one.
func chosen(texts []string) ([]uint64, error) {
	if len(texts) > maxChosen {
		return nil, badRequest("More dead letters were chosen than can be at once ("+count(maxChosen)+").", "Filter, and act on all that match.")
	}
	seqs := make([]uint64, 0, len(texts))
	for _, text := range texts {
		seq, err := strconv.ParseUint(text, 10, 64)
		if err != nil || seq == 0 {
			return nil, badRequest("One of the chosen dead letters does not exist.", "Open the list again.")
		}
		seqs = append(seqs, seq)
	}
	return seqs, nil
}

func noUnknown() error {
	return &problem{status: 403, what: "Sending orders again that may exist already needs the right resubmit-unknown, and you do not have it. Nothing was done.",
		todo: "Ask whoever runs this console for it (operator" + unknownRight + ")."}
}

// deed is what the plan does with each letter.
func (p *plan) deed(s *Server, as order.Outcome, who settle.Person) deadletter.Deed {
	switch p.act {
	case journal.Drop:
		return deadletter.Drop(s.queue, who)
	case journal.Resolve:
		return deadletter.Resolve(s.queue, as, who)
	case journal.Lookup:
		return deadletter.Replay(s.queue, settle.ReplayOptions{LookupUntil: s.now().Add(lookupFor), Person: who})
	default:
		o := settle.ReplayOptions{ResubmitUnknown: p.unknown, Person: who}
		if p.late {
			o.Deadline = new(time.Time)
		}
		return deadletter.Replay(s.queue, o)
	}
}

// previewing counts what the plan would do. Its result is a deadletter.Tally.
func (s *Server) previewing(p *plan) jobRun {
	deed := p.deed(s, order.OutcomeAccepted, settle.Person{})
	return s.through(p, func(ctx context.Context, o deadletter.Options) (deadletter.Tally, error) {
		return deadletter.Preview(ctx, s.queue, p.Group, deed, o)
	})
}

// through goes through the plan's letters and tells how far it is.
func (s *Server) through(p *plan, walk func(context.Context, deadletter.Options) (deadletter.Tally, error)) jobRun {
	return func(ctx context.Context, job *jobs.Job) (any, error) {
		of, err := s.lettersOf(ctx, p)
		if err != nil {
			return deadletter.Tally{}, err
		}
		return walk(ctx, deadletter.Options{Tell: func(t deadletter.Tally) {
			job.Tell(jobs.Progress{Step: counted(t.Counts()), Done: int64(t.Seen), Of: int64(max(of, t.Seen))})
		}})
	}
}

// lettersOf returns about how many letters the plan looks at.
func (s *Server) lettersOf(ctx context.Context, p *plan) (uint64, error) {
	if p.Seqs != nil {
		return uint64(len(p.Seqs)), nil
	}
	state, err := s.queue.Letters().State(ctx)
	return state.Messages, err
}

// about is what the journal keeps of the plan.
func (p *plan) about(t deadletter.Tally, note string) journal.About {
	about := journal.About{Kind: p.act, Filter: p.fields, LastSeq: p.Last, Expected: t.Counts(), Note: note, Details: make(map[string]string)}
	if no, one := p.filter.Only(); one {
		about.OrderNo = no
	} else {
		about.Batch = p.filter.Batch
	}
	if p.unknown {
		about.Details["resubmit-unknown"] = "true"
	}
	if p.late {
		about.Details["deadline"] = "none"
	}
	return about
}

// facts say which letters the plan is about.
func (p *plan) facts() []fact {
	var facts []fact
	for _, name := range slices.Sorted(maps.Keys(p.fields)) {
		switch name {
		case "all":
			facts = append(facts, fact{"Which", "every dead letter"})
		case "letter":
			facts = append(facts, fact{"Which", plural(len(p.Seqs), "dead letter, chosen by hand", "dead letters, chosen by hand")})
		default:
			for _, value := range p.fields[name] {
				facts = append(facts, fact{"Filter " + name, value})
			}
		}
	}
	facts = append(facts, fact{"Up to", "letter " + strconv.FormatUint(p.Last, 10) + "; later ones are left alone"})
	if p.unknown {
		facts = append(facts, fact{"In doubt", "sent again, too"})
	}
	if p.late {
		facts = append(facts, fact{"Deadlines", "removed"})
	}
	return facts
}

// again are the fields of the form that previews the plan once more, with one permission more:
// unknown or late.
func (p *plan) again(permit string) []fact {
	fields := []fact{{"filter", url.Values(p.filter.Values()).Encode()}, {"act", string(p.act)}, {"seen", strconv.FormatUint(p.Last, 10)}}
	if p.unknown || permit == "unknown" {
		fields = append(fields, fact{"unknown", "yes"})
	}
	if p.late || permit == "late" {
		fields = append(fields, fact{"late", "yes"})
	}
	if p.Seqs != nil {
		fields = append(fields, fact{"which", "chosen"})
		for _, seq := range p.Seqs {
			fields = append(fields, fact{"letter", strconv.FormatUint(seq, 10)})
		}
	}
	return fields
}

// previewed returns what a preview has counted, if a person may still decide on it.
func previewed(v *visit, job *jobs.Job) (*plan, deadletter.Tally, error) {
	p, ok := job.Subject.(*plan)
	result, _ := job.Result()
	tally, counted := result.(deadletter.Tally)
	if !ok || job.Kind != previewKind || job.State() != jobs.Done || !counted {
		return nil, tally, badRequest("This is no preview that has come to its end.", "Look at the job's page.")
	}
	if old := v.s.now().Sub(job.Ended()); old > previewLasts {
		return nil, tally, &problem{status: http.StatusConflict, what: "This preview is " + span(old) + " old, and a preview counts for " + span(previewLasts) + ". Nothing was done.",
			todo: "Open the list of dead letters and preview again."}
	}
	return p, tally, nil
}

// previewMark is the mark of what a preview has counted.
func previewMark(job *jobs.Job, counts map[string]int) string {
	return mark(job.ID, job.Ended(), counts)
}

// confirmGroup asks for the confirmation of a preview, and starts the run.
func confirmGroup(v *visit, job *jobs.Job) error {
	p, tally, err := previewed(v, job)
	if err != nil {
		return err
	}
	if p.unknown && !v.person().ResubmitUnknown {
		return noUnknown()
	}
	if run := runOf(v, job); run != nil {
		return begun(run)
	}
	deed := p.deed(v.s, order.OutcomeAccepted, settle.Person{})
	n := tally.Fates[deed.Does]
	if n == 0 {
		return badRequest("There is nothing to do: none of these dead letters would be "+groupActs[p.act].done+".", "Look at the preview.")
	}
	c := &confirmation{Seen: previewMark(job, tally.Counts()), Changed: "This is not the preview that you have seen.", Title: groupActs[p.act].title, Button: groupActs[p.act].button, Back: "/jobs/" + job.ID, Inputs: []input{noteInput(p.act != journal.Replay && p.act != journal.Lookup || p.unknown)},
		Facts: append(p.facts(), fact{"Counted", counted(tally.Counts()) + ", at " + stamp(job.Ended())})}
	c.Says = []string{sentence(plural(n, "dead letter is ", "dead letters are ") + groupActs[p.act].done), "Each is judged again when its turn comes. The job can be stopped, and repeated."}
	if stay := tally.Stayed(deed); stay > 0 {
		c.Says = append(c.Says, sentence(plural(stay, "other stays as it is", "others stay as they are")))
	}
	switch {
	case p.act == journal.Drop:
		c.Danger, c.Count, c.CountOf = true, n, "dead letters"
		c.Warning = "The orders in them are gone afterwards. Their results stay. Export them first if anybody may need them."
	case p.act == journal.Resolve:
		c.Inputs = append([]input{{Name: "as", Label: "What did you find out?", Options: []fact{{"", "choose"}, {"accepted", "these orders exist at the API"}, {"rejected", "these orders do not exist at the API"}}, Must: true}}, c.Inputs...)
		c.Warning = "The same word counts for all of them."
	case p.act == journal.Lookup:
		c.Says = append(c.Says, "The workers ask the API about each, as their rules say, for an hour at most. Nothing is posted. Until then nobody can act on these orders.")
	case p.unknown:
		c.Danger, c.Count, c.CountOf = true, n, "orders"
		c.Warning = "Some of these orders may exist at the API. They are created twice if the API does not recognise their order numbers. Your permission is recorded with your name."
	}
	about := p.about(tally, "")
	c.Asks = &about
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	var as order.Outcome
	if p.act == journal.Resolve {
		if err := as.UnmarshalText([]byte(v.field("as"))); err != nil || as != order.OutcomeAccepted && as != order.OutcomeRejected {
			return badRequest("An order can be settled as accepted or rejected, and as nothing else.", "Choose again.")
		}
	}
	return startGroup(v, job, p, tally, as, v.field("note"))
}

// runKey is the key of the run that follows a preview.
func runKey(preview *jobs.Job) string { return "run " + preview.ID }

// runOf returns the run of a preview; nil = nobody has confirmed it.
func runOf(v *visit, preview *jobs.Job) *jobs.Job { return v.s.jobs.Last(runKey(preview)) }

// begun says who has confirmed a preview already.
func begun(run *jobs.Job) error {
	return stale(somebody(run.By) + " has started exactly this already, at " + stamp(run.Started) + ". Its job has the result.")
}

// startGroup writes the intention into the journal and starts the run.
func startGroup(v *visit, preview *jobs.Job, p *plan, expected deadletter.Tally, as order.Outcome, note string) error {
	about := p.about(expected, note)
	if as != order.OutcomeNone {
		about.Details["as"] = as.String()
	}
	ctx := v.within(actTimeout)
	act, err := approval.Begin(ctx, v.s.queue, v.s.journal(), journal.Intention{About: v.journaled(about)})
	if err != nil {
		return unannounced(err)
	}
	deed := p.deed(v.s, as, settle.Person{Name: v.person().Name, Note: note})
	walk := v.s.through(p, func(ctx context.Context, o deadletter.Options) (deadletter.Tally, error) {
		o.Did = p.noteOrder
		return deadletter.Run(ctx, v.s.queue, p.Group, deed, o)
	})
	spec := jobs.Spec{Kind: string(p.act), Key: runKey(preview), Once: true, Title: groupActs[p.act].title, By: v.person().Name, Subject: p}
	job, err := v.s.jobs.Start(spec, func(ctx context.Context, job *jobs.Job) (any, error) {
		result, err := walk(ctx, job)
		v.s.watch.forget()
		tally, _ := result.(deadletter.Tally)
		job.Lack(v.s.unwritten(act, act.End(ctx, tally.Result(ctx, deed, err))))
		return result, err
	})
	if err != nil {
		_ = v.s.unwritten(act, act.End(ctx, journal.Result{End: journal.Failed, Error: err.Error()})) // nothing was done
		if run := runOf(v, preview); run != nil {                                                     // two people, or two clicks
			return begun(run)
		}
		return busy(err)
	}
	return v.done("/jobs/"+job.ID, "")
}
