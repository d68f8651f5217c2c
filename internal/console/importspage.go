package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/audit/journal"
	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/platform/jobs"
)

// importsShown is how many imports a page lists.
const importsShown = 25

type importsPage struct {
	Imports   []importLine
	All, From int
	Behind    bool
	Next      string // of the page with earlier imports
	// Limits are those of uploads; nil = this person cannot upload here.
	Limits *uploads.Config
}

// importLine is an import with the present outcomes of its orders.
type importLine struct {
	*imports.Import
	// Name is what people call it, Other the file or the batch, whichever that is not.
	Name, Other      string
	Count            batchCount
	Outcomes         []outcomeCount // those that are there
	Open             int            // orders without an outcome
	Others, Gone     int            // rows that another submission sent, and whose outcome has expired or was lost
	Accepted, Failed int
	Unknown          int
	Percent          int // of the rows, by outcome
	Word, Tone, Says string
	Upload           *uploads.Upload // nil = the file is not here
}

func showImports(v *visit) error {
	all, err := v.s.batches.imports(v.Context())
	if err != nil {
		return err
	}
	from, _ := strconv.Atoi(v.query("from"))
	from = max(0, min(from, len(all)))
	p := importsPage{All: len(all), From: from}
	if v.s.desk != nil && v.may(Importer) {
		limits := v.s.desk.Store().Limits()
		p.Limits = &limits
	}
	for _, imp := range all[from:min(from+importsShown, len(all))] {
		line, behind := lineOf(v, imp)
		p.Imports = append(p.Imports, line)
		p.Behind = p.Behind || behind
	}
	if from+importsShown < len(all) {
		p.Next = "/imports?from=" + strconv.Itoa(from+importsShown)
	}
	v.live = true
	return v.render("imports", "Imports", p)
}

// clocksDiffer is by how much the clock of the program that imported may be behind this one's.
const clocksDiffer = 2 * time.Second

// lineOf sums up an import. Its orders without an outcome have none any more if the queue and
// the waiting room were empty before the outcomes were counted.
func lineOf(v *visit, imp *imports.Import) (line importLine, behind bool) {
	line.Import = imp
	line.Name, line.Other = importName(imp)
	var empty time.Time
	line.Count, empty, behind = v.s.batches.look(imp.Batch)
	for _, o := range order.Outcomes() {
		if n := line.Count.Outcomes[o]; n > 0 {
			line.Outcomes = append(line.Outcomes, outcomeCount{o, n})
		}
	}
	line.Accepted, line.Unknown = line.Count.Outcomes[order.OutcomeAccepted], line.Count.Outcomes[order.OutcomeUnknown]
	line.Failed = line.Count.Total() - line.Accepted - line.Unknown
	if line.Open = openOrders(imp, &line.Count); imp.Complete() && empty.Add(-clocksDiffer).After(imp.UpdatedAt) {
		line.Others = min(line.Open, line.Count.Elsewhere+imp.Counts[string(importer.AlreadyPending)])
		line.Open, line.Gone = 0, line.Open-line.Others
	}
	if imp.Rows > 0 {
		line.Percent = min(100, 100*(imp.Done-line.Open)/imp.Rows)
	}
	busy := false
	if v.s.desk != nil {
		if u, found := v.s.desk.Store().OfBatch(imp.Batch); found {
			line.Upload = &u
			busy = v.s.desk.Job(u.ID) != nil
		}
	}
	switch {
	case !imp.CancelledAt.IsZero():
		line.Word, line.Tone, line.Says = "cancelled", "info", "Cancelled "+stamp(imp.CancelledAt)+"."
	case !imp.Complete() && (busy || time.Since(imp.UpdatedAt).Abs() < stillRunning):
		line.Word, line.Tone, line.Says = "running", "info", fmt.Sprintf("%s of %s rows done.", count(imp.Done), count(imp.Rows))
	case !imp.Complete():
		line.Word, line.Tone, line.Says = "interrupted", "warn", fmt.Sprintf("%s of %s rows done. Importing the same file again goes on behind them.", count(imp.Done), count(imp.Rows))
	case behind:
		line.Word, line.Tone, line.Says = "counting", "info", "Its outcomes are still being counted."
	case line.Open > 0:
		line.Word, line.Tone, line.Says = "under way", "info", plural(line.Open, "order has", "orders have")+" no outcome yet."
	case line.Count.Outcomes[order.OutcomeUnknown] > 0:
		line.Word, line.Tone, line.Says = "in doubt", "warn", plural(line.Count.Outcomes[order.OutcomeUnknown], "order is", "orders are")+" unknown: nobody knows whether the API created them."
	case line.Failed > 0:
		line.Word, line.Tone, line.Says = "settled", "warn", "Every order has its outcome. "+plural(line.Failed, "order", "orders")+" did not make it."
	default:
		line.Word, line.Tone, line.Says = "settled", "good", "Every order has its outcome."
	}
	if line.Others > 0 && line.Word == "settled" {
		line.Says += " " + plural(line.Others, "row was", "rows were") + " sent by another submission."
	}
	if line.Gone > 0 && line.Word == "settled" {
		line.Says += " " + plural(line.Gone, "row has", "rows have") + " no result any more: it has expired or was lost."
	}
	return line, behind
}

// stillRunning is how old the progress of a running import may be. It is saved every
// second, and less often while the broker is busy.
const stillRunning = 15 * time.Second

// openOrders returns how many orders of an import have no outcome yet: the rows that
// were dealt with, but for those that were not enqueued, that were settled before, and
// that have an outcome.
func openOrders(imp *imports.Import, c *batchCount) int {
	n := imp.Done - c.Total()
	for fate, k := range imp.Counts {
		switch f := importer.Fate(fate); {
		case f == importer.Invalid || f == importer.Failed || f == importer.Forgotten:
			n -= k
		case f == importer.Conflict || strings.HasPrefix(fate, settledBefore) && imp.Counts[string(importer.Retried)] == 0:
			n -= k
		}
	}
	return max(0, n)
}

// settledBefore begins the fates of rows whose orders were settled before.
var settledBefore = strings.TrimSuffix(string(importer.Settled(order.OutcomeAccepted)), order.OutcomeAccepted.String())

type importPage struct {
	importLine
	Behind    bool
	Fates     []fateLine
	Rejects   bool
	Cancel    *cancelling
	MayImport bool
	// Waits is how many of its orders are in the waiting room. HeldBy says who keeps them
	// there; "" = nobody.
	Waits  uint64
	HeldBy string
	// ForApproval: they stay there until somebody approves them.
	ForApproval bool
	// MayCancel: there may be orders that no worker was given.
	MayCancel bool
}

// importOf returns the import that the request names.
func importOf(v *visit) (*imports.Import, error) {
	name := v.given("batch")
	ctx := v.brief()
	imp, err := imports.ReadImport(ctx, v.queue(), name)
	if err == nil && imp == nil {
		err = notFound(fmt.Sprintf("Nothing is known about an import %q.", shorten(plain(name), 100)), "The page Imports lists those that are known.")
	}
	return imp, err
}

// importName is what people call an import: the batch, if somebody chose one, and
// otherwise the file without its folder. other is the other one.
func importName(imp *imports.Import) (name, other string) {
	file := strings.TrimRight(imp.File, "/\\")
	file = file[strings.LastIndexAny(file, "/\\")+1:]
	if file == "" || imp.Fingerprint == "" || !strings.HasPrefix(imp.Fingerprint, imp.Batch) {
		return imp.Batch, file
	}
	return file, imp.Batch
}

func showImport(v *visit) error {
	imp, err := importOf(v)
	if err != nil {
		return err
	}
	p := importPage{MayImport: v.may(Importer), Fates: fates(imp.Counts), Cancel: v.s.cancelling(imp.Batch)}
	p.importLine, p.Behind = lineOf(v, imp)
	ctx := v.brief()
	if p.Waits, err = v.s.queue.Waiting.Of(ctx, imports.ImportToken(imp.Batch)); err != nil {
		return err
	}
	hold, err := imports.HeldBy(ctx, v.queue(), imp.Batch)
	if err != nil {
		return err
	}
	if hold != nil && hold.ForApproval != "" {
		p.ForApproval = p.Waits > 0
	} else {
		p.HeldBy = hold.By()
	}
	if p.Open > 0 && imp.Complete() && p.Word == "under way" {
		switch why := v.s.watch.nothingSent(ctx, true); {
		case why != "":
			p.Word, p.Tone, p.Says = "waiting", "warn", p.Says+" "+sentence(why)
		case p.ForApproval:
			p.Word, p.Tone = "needs approval", "warn"
		case p.HeldBy != "":
			p.Word, p.Tone = "paused", "warn"
		}
	}
	p.Rejects = p.Upload != nil && p.Upload.Checked != nil && p.Upload.Checked.Rejects != ""
	v.live = true
	p.MayCancel = imp.CancelledAt.IsZero() && (!imp.Complete() || p.Behind || p.Open > 0)
	return v.render("import", "Import "+shorten(p.Name, 60), p)
}

// previewTime bounds the counting of what a cancellation would do.
const previewTime = 20 * time.Second

// cancelImport says what a cancellation would do, and does it when it is confirmed.
func cancelImport(v *visit) error {
	imp, err := importOf(v)
	if err != nil {
		return err
	}
	name, _ := importName(imp)
	changed := "This import is not the one that your page showed: it was started or changed since."
	var began time.Time // of the last cancellation
	was := v.s.jobs.Last(cancelKey(imp.Batch))
	if was != nil {
		began, changed = was.Started, was.By+" began to cancel this import at "+stamp(was.Started)+"."
	} else if !imp.CancelledAt.IsZero() {
		changed = "This import was cancelled at " + stamp(imp.CancelledAt) + "."
	}
	c := &confirmation{Title: "Cancel import " + shorten(name, 60), Button: "Cancel the import", Danger: true, Back: imports.Address(imp.Batch),
		Says:   []string{"The workers are told, and post none of its orders from then on. Other imports go on. If the import still runs, it stops.", "Orders that have an outcome keep it."},
		Fields: []fact{{"batch", imp.Batch}}, Seen: mark(imp.Batch, imp.Rows, imp.Fingerprint, imp.StartedAt, imp.CancelledAt, began), Changed: changed, Inputs: []input{noteInput(false)}}
	if v.Method != http.MethodPost {
		ctx := v.within(previewTime)
		would, err := imports.WouldCancelBatch(ctx, v.s.queue, imp.Batch)
		if err != nil {
			return err
		}
		c.Facts = []fact{
			{"File", imp.File},
			{"Withdrawn now", plural(would.Withdrawn, "order", "orders") + ". They end as cancelled, unless a worker posts them first."},
			{"Left alone", plural(would.Started, "order", "orders") + " that an attempt may have created."},
		}
	}
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	about := journal.About{Batch: imp.Batch, Note: v.field("note"), Details: map[string]string{"file": imp.File}}
	err = startCancel(v, jobs.Spec{Title: c.Title, Once: true, After: was}, about)
	if other, begun := errors.AsType[*jobs.BusyError](err); begun {
		return stale(other.Job.By + " began to cancel this import at " + stamp(other.Job.Started) + ".")
	} else if err != nil {
		return err
	}
	return v.done(imports.Address(imp.Batch), "")
}

// cancelKind is the kind of the jobs that cancel an import. Their subject is the batch.
const cancelKind = "cancel"

func cancelKey(batch string) string { return "cancel " + batch }

// startCancel starts the job that cancels the import that about names.
func startCancel(v *visit, spec jobs.Spec, about journal.About) error {
	about.Kind = journal.Cancel
	in, by := journal.Intention{About: v.journaled(about), Safer: journal.Always}, uploader(v)
	spec.Kind, spec.Key, spec.Unbounded, spec.By, spec.Subject = cancelKind, cancelKey(about.Batch), true, by.Name, about.Batch
	_, err := v.s.jobs.Start(spec, func(ctx context.Context, job *jobs.Job) (any, error) {
		return v.s.withdraw(ctx, job, about.Batch, by, in)
	})
	return err
}

// withdraw cancels an import. Its result is an imports.Cancelled.
func (s *Server) withdraw(ctx context.Context, job *jobs.Job, batch string, by uploads.Person, in journal.Intention) (any, error) {
	act, err := s.journal().Begin(ctx, in)
	if err != nil {
		return imports.Cancelled{}, err
	}
	var c imports.Cancelled
	if s.desk != nil {
		c, err = s.desk.CancelBatch(ctx, batch, by)
	} else {
		c, err = imports.CancelBatch(ctx, s.queue, batch, by.Name)
	}
	r := journal.Result{End: journal.Done, Counts: c.Counts()}
	switch {
	case err != nil:
		r.End, r.Error = journal.Failed, err.Error()
		s.log.Error().Err(err).Str("batch", batch).Msg("the console could not cancel an import")
	case c.Left() != "":
		r.End = journal.Partial
	}
	job.Lack(s.unwritten(act, act.End(ctx, r)))
	return c, err
}

// cancelling is a cancellation under way or done.
type cancelling struct {
	*jobs.Job
	imports.Cancelled
	Running bool
	Error   string
}

// cancelling returns the last cancellation of an import; nil if there was none.
func (s *Server) cancelling(batch string) *cancelling {
	job := s.jobs.Last(cancelKey(batch))
	if job == nil {
		return nil
	}
	c := &cancelling{Job: job, Running: job.State() == jobs.Running}
	result, err := job.Result()
	c.Cancelled, _ = result.(imports.Cancelled)
	if err != nil {
		c.Error = sentence(err.Error())
	}
	return c
}
