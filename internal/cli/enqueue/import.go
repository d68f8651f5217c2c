package enqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/cli/traces"
	"orderpost/internal/files/importer"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// job is one run of the program on a list of files.
type job struct {
	o              *importOptions
	by             broker.Acting
	options        importer.Options
	stdout, stderr io.Writer
	environ        map[string]string
	source         source
	results        output
	sending        *sending
	line           *statusLine
	partial        bool // some rows or orders failed
}

// run checks all files before it publishes anything, and then imports them one after
// another. It stops at the first file that cannot be imported.
func (o *importOptions) run(cmd *cobra.Command, files []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx := cmd.Context()
	cfg, options, err := o.settings(cmd.Flags(), files, environ)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	tracing := traces.Start(ctx, "enqueue", "", environ, warnings(stderr))
	defer tracing.Stop()
	options.Trace = tracing.Producer()
	rows := output{o.results, stdout}
	if isStdout(o.results) {
		stdout = stderr // what is said about the rows must not stand among them
	}
	j := &job{o: o, by: o.person.On(cmd), results: rows, options: options, stdout: stdout, stderr: stderr, environ: environ,
		line:   newStatusLine(stderr),
		source: source{stdin: stdin, dir: broker.TempDir(environ, cfg.DataDir), max: o.maxStdin << 20}}
	if !o.quiet {
		j.options.Progress = func(rows int) { j.sending.show(rows) }
	}
	if err := j.like(ctx, cfg); err != nil {
		return err
	}
	checked := make([]*checkedFile, 0, len(files))
	defer func() {
		for _, f := range checked {
			f.close()
		}
	}()
	for _, name := range files {
		f, err := j.check(ctx, name)
		if err != nil {
			return err
		}
		checked = append(checked, f)
		if err := j.results.check(f.File, &f.summary, f.input); err != nil {
			return fmt.Errorf("nothing was enqueued: --results: %w", err)
		}
	}
	if o.dryRun {
		return j.preview(ctx, checked)
	}
	q, closeQueue, err := broker.Open(ctx, cfg, broker.Options{Name: "enqueue", Stderr: stderr, Tell: j.line.tell})
	if err != nil {
		return err
	}
	defer closeQueue()
	for _, f := range checked {
		if err := j.enqueue(ctx, q, f); err != nil {
			return err
		}
	}
	if !o.wait && o.results == "" {
		j.sayWorkers(ctx, q)
	}
	if j.partial {
		return &cli.ExitError{Code: cli.ExitPartial, Err: errors.New("some rows or orders did not make it; see above")}
	}
	return nil
}

// like takes the mapping of the import that --mapping names. What was said goes before it.
func (j *job) like(ctx context.Context, cfg broker.Config) error {
	if j.o.like == "" {
		return nil
	}
	q, closeQueue, err := broker.Open(ctx, cfg, broker.Options{Name: "enqueue", Stderr: j.stderr, Tell: j.line.tell})
	if err != nil {
		return err
	}
	defer closeQueue()
	imp, err := imports.ReadImport(ctx, q, j.o.like)
	if err == nil && imp == nil {
		err = &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("--mapping: there is neither a file nor an import called %s; orderpost enqueue status lists the imports", j.o.like)}
	}
	if err != nil {
		return err
	}
	m, err := importer.MappingOf(imp)
	j.options.Mapping = m.Merge(j.options.Mapping)
	return err
}

// warnings returns a logger that prints warnings.
func warnings(stderr io.Writer) zerolog.Logger {
	return zerolog.New(zerolog.ConsoleWriter{Out: stderr, NoColor: true, PartsExclude: []string{"time"}}).Level(zerolog.WarnLevel)
}

// checkedFile is a file all of whose rows can be sent or skipped.
type checkedFile struct {
	*importer.File
	close   func()
	summary importer.Summary
	rejects string      // the file for its bad rows
	input   os.FileInfo // what it was read from; nil if nobody knows
}

func (j *job) check(ctx context.Context, name string) (*checkedFile, error) {
	input := j.source.info(name)
	content, path, closeFile, err := j.source.open(ctx, name)
	if err != nil {
		return nil, err
	}
	options := j.options
	options.Temp = j.source.dir
	options.Path, options.File, options.By = path, name, j.by.Actor().Name
	if name == "-" {
		options.File = "stdin"
	}
	options.File = cmp.Or(j.o.source, options.File)
	f := &checkedFile{close: closeFile, input: input}
	if f.File, err = importer.Open(content, options); err == nil {
		f.close = func() { _ = f.Close(); closeFile() }
		f.summary, err = f.Check(ctx)
	}
	var bad *importer.BadRows
	var totals *importer.WrongTotals
	switch {
	case changed(input, j.source.info(name)) && ctx.Err() == nil:
		err = fmt.Errorf("nothing was enqueued: %s changed while it was read (somebody writes it); run the command again when it is complete", options.File)
	case errors.As(err, &bad), errors.As(err, &totals):
		err = &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("nothing was enqueued:\n%w", err)}
	case err == nil && f.summary.Rows == 0:
		err = &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("nothing was enqueued: %s has no rows", options.File)}
	}
	if err != nil {
		f.close()
		return nil, err
	}
	if f.summary.Invalid > 0 {
		if name == "-" {
			name = filepath.Base(options.File)
		}
		f.rejects = f.RejectsName(name)
	}
	return f, nil
}

// previewed is the number of orders that a dry run shows.
const previewed = 3

func (j *job) preview(ctx context.Context, files []*checkedFile) error {
	for _, f := range files {
		first, err := f.Preview(ctx, previewed)
		if err != nil {
			return err
		}
		j.print(&f.summary)
		if !j.o.json && !j.o.quiet {
			_, _ = fmt.Fprintln(j.stdout, "Nothing was enqueued (--dry-run). The first orders, as they would be sent but for the timestamp:")
			for _, row := range first {
				_, _ = fmt.Fprintf(j.stdout, "%s\n", cli.Printable(string(row.Order.Canonical())))
			}
		}
		j.tellBad(f)
		j.partial = j.partial || f.summary.Invalid > 0
	}
	if j.partial {
		return &cli.ExitError{Code: cli.ExitPartial, Err: errors.New("some rows cannot be sent; see above")}
	}
	return nil
}

// enqueue publishes one file and, if asked, waits for its outcomes.
func (j *job) enqueue(ctx context.Context, q *queue.Queue, f *checkedFile) error {
	if f.rejects != "" {
		if err := writeUnlessEdited(ctx, f.rejects, f.WriteRejects); err != nil {
			return fmt.Errorf("bad rows not written, nothing was enqueued: %w", err)
		}
		f.summary.Rejects = f.rejects
	}
	j.tellBad(f)
	var done *importer.Result
	err := j.by.Act(ctx, q, f.About(&f.summary), nil, func(ctx context.Context) (counts map[string]int, err error) {
		done, err = j.publish(ctx, q, f)
		return done.Counts(), err
	})
	if err != nil {
		return err
	}
	if j.o.wait || j.o.results != "" {
		return j.wait(ctx, q, f, done)
	}
	j.partial = j.partial || !done.AllFine()
	return nil
}

// publish publishes one file and prints its summary.
func (j *job) publish(ctx context.Context, q *queue.Queue, f *checkedFile) (*importer.Result, error) {
	j.sending = newSending(j.line, f.Name(), f.summary.Rows)
	var first *meter
	done, err := f.Store(ctx, q, f.summary, func(p importer.Progress) {
		if first == nil {
			first = newMeter(j.line, j.o.quiet)
		}
		if first.show(p); p.Ended && !j.o.quiet {
			j.line.tell(fmt.Sprintf("%d of the first %d orders of %s are accepted.", p.Outcomes[order.OutcomeAccepted], j.options.Canary, cli.Printable(f.Name())))
		}
	})
	j.line.end()
	var hold *imports.Hold
	if err == nil {
		hold, err = imports.HeldBy(ctx, q, f.Batch)
		done.PausedBy = hold.By()
	}
	if err == nil || len(done.Fates) > 0 {
		j.print(&done.Summary)
	}
	if hold == nil && err == nil {
		err = j.sayApprovals(ctx, q, f.Batch)
	}
	if hold != nil && !j.o.quiet {
		_, _ = fmt.Fprintln(j.stderr, "The orders of this import that wait stay where they are: "+describeHold(hold, f.Batch)+".")
	}
	for _, line := range done.Errors {
		_, _ = fmt.Fprintln(j.stderr, cli.Printable(line))
	}
	_, canary := errors.AsType[*importer.CanaryError](err)
	switch {
	case errors.Is(err, queue.ErrUnreachable):
	case canary:
		err = &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("%s: %w. What became of them: orderpost enqueue results %s. To enqueue the rest: the same command without --canary", f.Name(), err, status.ShellWord(f.Batch))}
	case errors.Is(err, importer.ErrCancelled):
		err = &cli.ExitError{Code: cli.ExitPartial, Err: err}
	case importer.Final(err), errors.Is(err, importer.ErrUnknownLane), errors.Is(err, importer.ErrDirect):
		err = &cli.ExitError{Code: cli.ExitUsage, Err: err}
	case errors.Is(err, importer.ErrInterrupted):
		err = &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("%w; run the same command again, it goes on behind the last confirmed row and enqueues nothing twice", err)}
	}
	return done, err
}

// sayApprovals says that an import may need an approval, if that depends on what it holds: a
// worker finds out.
func (j *job) sayApprovals(ctx context.Context, q *queue.Queue, batch string) error {
	fed, err := imports.ReadFeeding(ctx, q, 0)
	if err != nil || j.o.quiet {
		return err
	}
	if rule := fed.Approvals.ReadRule(); rule.Imports() && fed.Approvals.Imports[imports.ImportToken(batch)] == nil {
		_, _ = fmt.Fprintf(j.stderr, "Here %s need approval. A worker looks at this one first; orderpost enqueue status %s says whether it waits for that.\n",
			cli.Printable(rule.What()), status.ShellWord(batch))
	}
	return nil
}

// tellBad lists the rows that are skipped.
func (j *job) tellBad(f *checkedFile) {
	_, _ = fmt.Fprint(j.stderr, cli.Printable(f.summary.BadText()))
}

// sayWorkers prints a line if nothing is sent.
func (j *job) sayWorkers(ctx context.Context, q *queue.Queue) {
	if j.o.quiet {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	view, err := fleet.New(q).Look(ctx)
	if err != nil {
		return
	}
	if why := view.NothingSent(time.Now()); why != "" && len(view.Present()) > 0 {
		_, _ = fmt.Fprintln(j.stderr, cli.Printable(cli.Sentence(why)+" The orders wait."))
	} else if len(view.Present()) == 0 {
		_, _ = fmt.Fprintln(j.stderr, "No worker is running: the orders wait in the queue until one is (orderpost worker).")
	}
}

// comeBack prints the commands for the import.
func comeBack(w io.Writer, batch string) {
	_, _ = fmt.Fprintf(w, "The orders go on without this program. To come back:\n"+
		"  orderpost enqueue watch %[1]s\n  orderpost enqueue status %[1]s\n  orderpost enqueue results %[1]s\n  orderpost order ORDER_NO\n", batch)
}

// wait waits until an import's orders are settled, and writes the results file.
func (j *job) wait(ctx context.Context, q *queue.Queue, f *checkedFile, done *importer.Result) error {
	m := newMeter(j.line, j.o.quiet)
	p, err := done.Wait(ctx, q, m.show)
	m.end()
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, queue.ErrUnreachable) {
			comeBack(j.stderr, f.Batch)
		}
		return err
	}
	tally, err := j.results.write(ctx, q, f.File, &f.summary, f.input)
	if err != nil {
		return j.withoutResults(ctx, f, err)
	}
	j.tellOutcomes(f.File, p, tally)
	j.partial = j.partial || !tally.AllAccepted()
	return nil
}

// withoutResults adds how to get the rows of settled orders whose results were not written.
func (j *job) withoutResults(ctx context.Context, f *checkedFile, err error) error {
	if j.o.results == "" || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w\nThe orders are settled. To get the rows with their outcomes: orderpost enqueue results %s -o FILE", err, f.Batch)
}

func (j *job) tellOutcomes(f *importer.File, p importer.Progress, tally importer.Tally) {
	if j.o.json {
		_ = cli.PrintJSON(j.stdout, outcomes{Batch: f.Batch, File: f.Name(), Outcomes: tally, Seconds: p.Elapsed.Seconds(), Results: j.o.results})
		return
	}
	if j.o.quiet {
		return
	}
	_, _ = fmt.Fprintf(j.stdout, "%s: outcomes after %s\n", cli.Printable(f.Name()), p.Elapsed.Round(100*time.Millisecond))
	printTally(j.stdout, tally)
	if j.o.results != "" && !isStdout(j.o.results) {
		_, _ = fmt.Fprintf(j.stdout, "         every row with its outcome: %s\n", j.o.results)
	}
}

// outcomes is the JSON output about the rows of a settled file.
type outcomes struct {
	Batch    string         `json:"batch"`
	File     string         `json:"file"`
	Outcomes importer.Tally `json:"outcomes"`
	Seconds  float64        `json:"seconds,omitempty"`
	Results  string         `json:"results,omitempty"`
}

func printTally(w io.Writer, tally importer.Tally) {
	for _, word := range importer.Words() {
		if n := tally[word]; n > 0 {
			_, _ = fmt.Fprintf(w, "%8d %s\n", n, word)
		}
	}
}

var errNotAllAccepted = &cli.ExitError{Code: cli.ExitPartial, Err: errors.New("not every order was accepted; see above")}
