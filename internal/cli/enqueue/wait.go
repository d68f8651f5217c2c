package enqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/files/importer"
	"orderpost/internal/queue"
)

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
