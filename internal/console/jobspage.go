package console

import (
	"slices"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/deadletter"
	"orderpost/internal/files/uploads"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

func showJobs(v *visit) error {
	v.live = true
	return v.render("jobs", "Jobs", v.s.jobs.List())
}

// jobPage shows a preview or a run.
type jobPage struct {
	*jobs.Job
	Running, Preview, MayStop bool
	Tone, Says                string
	Facts                     []fact
	Fates                     []fateCount
	Errors                    []string
	Took                      time.Duration
	// List is the address of the list with the job's filter.
	List string
	// Confirm is the address of the confirmation of a preview; "" = there is nothing
	// to confirm. Again are forms that preview the same with more permissions.
	Confirm string
	Again   []againForm
	// Export is what an export would hold; nil = the job is another act.
	Export *exportPage
	// Run is the run of this preview; nil = nobody has started it.
	Run *jobs.Job
	// Orders are the first orders that a replay put back, as they stand now.
	Orders []replayedOrder
	// Import is the address of the import that a replay was about; "" = of several.
	Import string
}

// fateCount is how many letters have one fate.
type fateCount struct {
	N     int
	Words string
	Tone  string
}

// againForm previews a plan once more, changed.
type againForm struct {
	Button string
	Fields []fact
}

func showJob(v *visit, job *jobs.Job) error {
	switch subject, _ := job.Subject.(string); job.Kind {
	case auditKind:
		return v.done("/books", "")
	case assessKind:
		return v.done(approval.Address(subject), "")
	case cancelKind:
		return v.done(imports.Address(subject), "")
	case uploads.CheckKind, uploads.ImportKind:
		return v.done(there(subject), "")
	}
	p := jobPage{Job: job, Running: job.State() == jobs.Running, Preview: job.Kind == previewKind}
	p.MayStop = p.Running && mayStop(v, job)
	plan, ok := job.Subject.(*plan)
	if !ok {
		return noJob()
	}
	p.Facts, p.List = plan.facts(), lettersAt(plan.filter)
	v.live = p.Running
	if !p.Running {
		p.Took = job.Ended().Sub(job.Started).Round(time.Millisecond)
		p.ended(v, plan)
		if err := p.followReplay(v, plan); err != nil {
			return err
		}
		if _, known := v.s.batches.name(v.Context(), plan.filter.Batch); known && len(p.Orders) > 0 {
			p.Import = imports.Address(plan.filter.Batch)
		}
	}
	return v.render("job", job.Title, p)
}

// ended fills in what a job has found or done.
func (p *jobPage) ended(v *visit, plan *plan) {
	result, err := p.Result()
	if survey, ok := result.(deadletter.Survey); ok && err == nil {
		p.exporting(v, survey)
		return
	}
	tally, _ := result.(deadletter.Tally)
	deed := plan.deed(v.s, order.OutcomeAccepted, settle.Person{})
	p.Errors, p.Run = tally.Errors, runOf(v, p.Job)
	for _, fate := range largestFirst(tally.Fates) {
		tone := "good"
		if deed.Stays(fate) {
			tone = "warn"
		}
		p.Fates = append(p.Fates, fateCount{tally.Fates[fate], fateWords(fate, p.Preview), tone})
	}
	switch n := tally.Fates[deed.Does]; {
	case p.State() == jobs.Stopped && p.Preview:
		p.Tone, p.Says = "warn", "It was stopped by "+somebody(p.Stopper())+". Nothing was done."
	case p.State() == jobs.Stopped:
		p.Tone, p.Says = "warn", "It was stopped by "+somebody(p.Stopper())+". What is counted below was done; the other letters are as they were. It can be repeated."
	case err != nil && away(err) && p.Preview:
		p.Tone, p.Says = "bad", "The broker stayed out of reach. Nothing was done; start it again when the broker is back."
	case err != nil && away(err):
		p.Tone, p.Says = "bad", "The broker stayed out of reach. What is counted below was done; repeat it when the broker is back."
	case err != nil:
		p.Tone, p.Says = "bad", "It failed: "+sentence(err.Error())
	case p.Preview && tally.Matching() == 0:
		p.Tone, p.Says = "warn", "No dead letter matches, so there is nothing to do."
	case p.Preview && n == 0:
		p.Tone, p.Says = "warn", "None of these letters would be "+groupActs[plan.act].done+"."
	case p.Preview:
		p.Tone, p.Says = "info", plural(n, "dead letter would be ", "dead letters would be ")+groupActs[plan.act].done+". Nothing was done yet."
	case tally.Stayed(deed) > 0:
		p.Tone, p.Says = "warn", plural(n, "dead letter was ", "dead letters were ")+groupActs[plan.act].done+"; "+plural(tally.Stayed(deed), "letter stays", "letters stay")+"."
	default:
		p.Tone, p.Says = "good", plural(n, "dead letter was ", "dead letters were ")+groupActs[plan.act].done+"."
	}
	old := v.s.now().Sub(p.Ended()) > previewLasts
	if p.Preview && old && p.Run == nil {
		p.Tone, p.Says = "warn", p.Says+" This preview is too old to go on with. Preview again."
	}
	if p.Preview && !old && p.State() == jobs.Done && p.Run == nil && v.may(Operator) {
		if tally.Fates[deed.Does] > 0 {
			p.Confirm = "/jobs/" + p.ID + "/confirm"
		}
		p.offer(v, plan, tally)
	}
}

// offer adds what else could be permitted.
func (p *jobPage) offer(v *visit, plan *plan, t deadletter.Tally) {
	if plan.act != journal.Replay {
		return
	}
	if n := t.Fates[deadletter.Fate(settle.ReplayInDoubt.String())]; n > 0 && v.person().ResubmitUnknown {
		p.Again = append(p.Again, againForm{"Preview with the " + plural(n, "order", "orders") + " in doubt", plan.again("unknown")})
	}
	if n := t.Fates[deadletter.Fate(settle.ReplayLate.String())]; n > 0 {
		p.Again = append(p.Again, againForm{"Preview without the " + plural(n, "deadline that has passed", "deadlines that have passed"), plan.again("late")})
	}
}

// fateWords says what became of letters, or would.
func fateWords(f deadletter.Fate, preview bool) string {
	words := map[deadletter.Fate][2]string{
		"replayed":           {"put back into the queue", "would be put back into the queue"},
		"replayed-before":    {"put back by an earlier run, which was cut off", "were put back by an earlier run, which was cut off; only the letter is left"},
		deadletter.Gone:      {"gone or replaced meanwhile: somebody else was first", "gone or replaced meanwhile"},
		deadletter.Pending:   {"stay: an intent for the order is in the queue", "would stay: an intent for the order is in the queue"},
		"accepted":           {"stay: the order was accepted", "would stay: the order was accepted"},
		"in-doubt":           {"stay: the order may exist at the API", "would stay: the order may exist at the API"},
		"other-in-doubt":     {"stay: the order may exist with other fields; resolve it first", "would stay: the order may exist with other fields; resolve it first"},
		"late":               {"stay: the deadline has passed", "would stay: the deadline has passed"},
		"foreign":            {"stay: the subject is not the order's; export, correct and enqueue", "would stay: the subject is not the order's"},
		deadletter.Dropped:   {"forgotten", "would be forgotten"},
		deadletter.Asked:     {"in the queue, to be looked up", "would be looked up"},
		deadletter.Resolved:  {"settled by your word", "would be settled by your word"},
		deadletter.Certain:   {"stay: their outcome is not in doubt", "would stay: their outcome is not in doubt"},
		deadletter.Unsettled: {"stay: an error, see below", "could not be judged, see below"},
	}[f]
	if preview {
		return words[1]
	}
	return words[0]
}

func stopJob(v *visit, job *jobs.Job) error {
	if !mayStop(v, job) {
		return &problem{status: 403, what: "Somebody else started this job.", todo: "They can stop it, and so can an operator."}
	}
	if _, stops := job.Subject.(*plan); !stops && job.Kind != auditKind {
		return &problem{status: 409, what: "This job cannot be stopped here.", todo: "Look at its own page."}
	}
	job.Stop(v.person().Name)
	return v.done("/jobs/"+job.ID, "")
}

// replayedShown is how many orders of a replay its job remembers and shows.
const replayedShown = 50

// replayedOrder is an order that a job put back into the queue, and how it stands now.
type replayedOrder struct{ No, Link, Word, Tone string }

// noteOrder remembers the first orders with which the plan was carried out.
func (p *plan) noteOrder(l *settle.Letter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.orders) < replayedShown {
		p.orders = append(p.orders, l.OrderNo)
	}
}

// followReplay fills in what became of the orders of a replay since.
func (p *jobPage) followReplay(v *visit, plan *plan) error {
	if p.Preview || plan.act != journal.Replay && plan.act != journal.Lookup {
		return nil
	}
	plan.mu.Lock()
	orders := slices.Sorted(slices.Values(plan.orders))
	plan.mu.Unlock()
	ctx := v.brief()
	for _, no := range orders {
		f, err := status.Find(ctx, v.queue(), no)
		if err != nil {
			return err
		}
		line := replayedOrder{No: no, Link: orderAddress(no), Word: "pending", Tone: "info"}
		switch o := f.Record.Outcome(); {
		case f.Pending && f.Record != nil && o == order.OutcomeNone:
			line.Word = f.Record.Word
		case !f.Pending && o != order.OutcomeNone:
			line.Word, line.Tone = o.String(), tone(o)
		}
		p.Orders = append(p.Orders, line)
		v.live = v.live || line.Tone == "info" // until the last one has its outcome
	}
	return nil
}
