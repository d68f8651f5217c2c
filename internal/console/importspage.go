package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"orderpost/internal/books"
	"orderpost/internal/importer"
	"orderpost/internal/journal"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/uploads"
)

func (s *Server) importRoutes() []route {
	return []route{
		{pattern: "GET /imports", need: Viewer, does: "The list of imports", serve: (*visit).importsPage},
		{pattern: "GET /import", need: Viewer, does: "An import's page", serve: (*visit).importPage},
		{pattern: "GET /import/cancel", need: Importer, does: "Cancelling an import", serve: (*visit).cancelImport},
		{pattern: "POST /import/cancel", need: Importer, does: "Cancelling an import", serve: (*visit).cancelImport},
	}
}

// importsShown is how many imports a page lists.
const importsShown = 25

type importsPage struct {
	Imports   []importLine
	All, From int
	Behind    bool
	Next      string // of the page with earlier imports
	MayUpload bool
}

// importLine is an import with the present outcomes of its orders.
type importLine struct {
	*books.Import
	// Name is what people call it, Other the file or the batch, whichever that is not.
	Name, Other      string
	Count            batchCount
	Outcomes         []outcomeCount // those that are there
	Open             int            // orders without an outcome
	Accepted, Failed int
	Unknown          int
	Percent          int // of the rows, by outcome
	Word, Tone, Says string
	Upload           *uploads.Upload // nil = the file is not here
}

func (v *visit) importsPage() error {
	all, err := v.s.batches.imports(v.Context())
	if err != nil {
		return err
	}
	from, _ := strconv.Atoi(v.query("from"))
	from = max(0, min(from, len(all)))
	p := importsPage{All: len(all), From: from, MayUpload: v.may(Importer)}
	for _, imp := range all[from:min(from+importsShown, len(all))] {
		line, behind := v.importLine(imp)
		p.Imports = append(p.Imports, line)
		p.Behind = p.Behind || behind
	}
	if from+importsShown < len(all) {
		p.Next = "/imports?from=" + strconv.Itoa(from+importsShown)
	}
	v.live = true
	return v.render("imports", "Imports", p)
}

func (v *visit) importLine(imp *books.Import) (line importLine, behind bool) {
	line.Import = imp
	line.Name, line.Other = importName(imp)
	line.Count, behind = v.s.batches.look(imp.Batch)
	for _, o := range order.Outcomes() {
		if n := line.Count.Outcomes[o]; n > 0 {
			line.Outcomes = append(line.Outcomes, outcomeCount{o, n})
		}
	}
	line.Accepted, line.Unknown = line.Count.Outcomes[order.OutcomeAccepted], line.Count.Outcomes[order.OutcomeUnknown]
	line.Failed = line.Count.Total() - line.Accepted - line.Unknown
	line.Open = openOrders(imp, &line.Count)
	if imp.Rows > 0 {
		line.Percent = min(100, 100*(imp.Done-line.Open)/imp.Rows)
	}
	busy := false
	if v.s.desk != nil {
		if u, found := v.s.desk.Store().OfBatch(imp.Batch); found {
			line.Upload = &u
			_, busy = v.s.desk.Progress(u.ID)
		}
	}
	switch {
	case !imp.CancelledAt.IsZero():
		line.Word, line.Tone, line.Says = "cancelled", "info", "Cancelled "+stamp(imp.CancelledAt)+"."
	case !imp.Complete() && (busy || time.Since(imp.UpdatedAt) < stillRunning):
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
	return line, behind
}

// stillRunning is how old the progress of a running import may be. It is saved every
// second, and less often while the broker is busy.
const stillRunning = 15 * time.Second

// openOrders returns how many orders of an import have no outcome yet: the rows that
// were dealt with, but for those that were not enqueued, that were settled before, and
// that have an outcome.
func openOrders(imp *books.Import, c *batchCount) int {
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
	// MayCancel: there may be orders that no worker was given.
	MayCancel bool
}

// batch returns the import that the request names.
func (v *visit) batch() (*books.Import, error) {
	name := v.query("batch")
	if v.Method == http.MethodPost {
		name = v.field("batch")
	}
	ctx, cancel := context.WithTimeout(v.Context(), readTimeout)
	defer cancel()
	imp, err := books.ReadImport(ctx, v.queue(), name)
	if err == nil && imp == nil {
		err = notFound(fmt.Sprintf("Nothing is known about an import %q.", shorten(plain(name), 100)), "The page Imports lists those that are known.")
	}
	return imp, err
}

// importName is what people call an import: the batch, if somebody chose one, and
// otherwise the file without its folder. other is the other one.
func importName(imp *books.Import) (name, other string) {
	file := strings.TrimRight(imp.File, "/\\")
	file = file[strings.LastIndexAny(file, "/\\")+1:]
	if file == "" || imp.Fingerprint == "" || !strings.HasPrefix(imp.Fingerprint, imp.Batch) {
		return imp.Batch, file
	}
	return file, imp.Batch
}

// importAddress is the address of an import's page.
func importAddress(batch string) string { return "/import?batch=" + url.QueryEscape(batch) }

func (v *visit) importPage() error {
	imp, err := v.batch()
	if err != nil {
		return err
	}
	p := importPage{MayImport: v.may(Importer), Fates: fates(imp.Counts), Cancel: v.s.cancels.of(imp.Batch)}
	p.importLine, p.Behind = v.importLine(imp)
	p.Rejects = p.Upload != nil && p.Upload.Checked != nil && p.Upload.Checked.Rejects != ""
	v.live = true
	p.MayCancel = imp.CancelledAt.IsZero() && (!imp.Complete() || p.Behind || p.Open > 0)
	return v.render("import", "Import "+shorten(p.Name, 60), p)
}

// previewTime bounds the counting of what a cancellation would do.
const previewTime = 20 * time.Second

// cancelImport says what a cancellation would do, and does it when it is confirmed.
func (v *visit) cancelImport() error {
	imp, err := v.batch()
	if err != nil {
		return err
	}
	name, _ := importName(imp)
	c := &confirmation{Title: "Cancel import " + shorten(name, 60), Button: "Cancel the import", Danger: true, Back: importAddress(imp.Batch),
		Says:   []string{"What waits for its turn is withdrawn first. Workers get no new orders, of any import, while those in the queue are withdrawn. If the import still runs, it stops.", "Orders that have an outcome keep it."},
		Fields: []fact{{"batch", imp.Batch}}, Inputs: []input{noteInput(false)}}
	if v.Method != http.MethodPost {
		ctx, cancel := context.WithTimeout(v.Context(), previewTime)
		defer cancel()
		would, err := books.WouldCancelBatch(ctx, v.s.queue, imp.Batch)
		if err != nil {
			return err
		}
		c.Facts = []fact{
			{"File", imp.File},
			{"Withdrawn now", plural(would.Withdrawn, "order", "orders") + " that no worker was given. They end as cancelled."},
			{"Left alone", plural(would.Started, "order", "orders") + " that a worker was given, because they may be on their way."},
		}
	}
	if ask, err := v.unconfirmed(c); ask {
		return err
	}
	if !v.s.cancels.start(imp.Batch, v.person().Name) {
		return v.done(importAddress(imp.Batch), "The import is being cancelled already.")
	}
	by, note := v.by(), v.field("note")
	v.s.work.Go(func() {
		done, err := v.s.withdraw(imp.Batch, by, note)
		v.s.cancels.end(imp.Batch, done, err)
		if err != nil {
			v.s.log.Error().Err(err).Str("batch", imp.Batch).Msg("the console could not cancel an import")
		}
	})
	return v.done(importAddress(imp.Batch), "")
}

// withdraw cancels an import. It goes on if the person leaves.
func (s *Server) withdraw(batch string, by uploads.Person, note string) (settle.Cancelled, error) {
	if s.desk != nil {
		return s.desk.CancelBatch(s.run, batch, by, note)
	}
	end, err := s.journalUpload(s.run, uploads.Act{Kind: string(journal.Cancel), By: by, Batch: batch, Note: note})
	if err != nil {
		return settle.Cancelled{}, err
	}
	c, err := books.CancelBatch(s.run, s.queue, batch, by.Name)
	e := uploads.Ended{State: uploads.Done, Counts: map[string]int{"cancelled": c.Withdrawn, "started": c.Started}, Partial: c.Started > 0}
	if err != nil {
		e.State, e.Error = uploads.Failed, err.Error()
	}
	end(s.run, e)
	return c, err
}

// cancelling is a cancellation under way or done.
type cancelling struct {
	By    string
	Began time.Time
	Done  bool
	settle.Cancelled
	Error string
	// Unwritten says what the journal lacks of it.
	Unwritten string
}

// cancels are the cancellations since the console started, by import.
type cancels struct {
	mu  sync.Mutex
	all map[string]*cancelling
}

func (c *cancels) start(batch, by string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.all[batch]; was != nil && !was.Done {
		return false
	}
	if c.all == nil {
		c.all = make(map[string]*cancelling)
	}
	c.all[batch] = &cancelling{By: by, Began: time.Now().UTC()}
	return true
}

func (c *cancels) end(batch string, done settle.Cancelled, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := *c.all[batch]
	next.Done, next.Cancelled = true, done
	if err != nil {
		next.Error = sentence(err.Error())
	}
	c.all[batch] = &next
}

// lacks notes what the journal lacks of a cancellation.
func (c *cancels) lacks(batch, says string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.all[batch]; was != nil {
		next := *was
		next.Unwritten = says
		c.all[batch] = &next
	}
}

// of returns a copy of the cancellation of an import, or nil.
func (c *cancels) of(batch string) *cancelling {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.all[batch]; was != nil {
		next := *was
		return &next
	}
	return nil
}
