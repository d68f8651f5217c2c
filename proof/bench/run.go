// Package bench measures the worker beside the loops that its users would
// write themselves: on the same machine, in the same run, against the same API.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/program"
)

type options struct {
	cases      []string
	contenders []string
	inFlight   []int
	rounds     int
	scale      float64
	store      string
	disk       string
	json       bool
	short      bool
	profile    string
	fsyncs     bool
	settings   []string
	timeout    time.Duration
}

const long = `bench builds the worker and a nats-server, and has the worker and others post the same orders of 300 bytes to the
same API, which verifies every signature. The others are the usual worker (nats.go and net/http) and a lean one
(fasthttp, one pass over the JSON); both store outcomes before the ack. Each contender is a process of its own; each
trial has a fresh broker and a fresh API. Rounds are interleaved, figures are medians, ratios are medians of the
rounds' ratios. CPU is that of the whole process (user and system, start included) by order, brokers that of all
servers, memory the peak resident set. A trial that fails is a row of its table.

Cases: pipeline (one server), cluster (three servers, three replicas), latency (500/s), durable (embedded broker, every
write fsynced).

Exit codes: 0 measured; 1 something failed; 2 wrong usage; 130 interrupted.`

var caseNames = []string{"pipeline", "cluster", "latency", "durable"}

// Run is the program without its process: it returns the exit code.
func Run(ctx context.Context, args []string, _ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	o := &options{}
	root := &cobra.Command{
		Use: "bench", Short: "Compare the worker with the loops that users would write themselves", Long: long,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, stdout, stderr) },
	}
	f := root.Flags()
	f.StringSliceVar(&o.cases, "cases", caseNames, "what to measure")
	f.StringSliceVar(&o.contenders, "contenders", entrantWords(), "who takes part, where a case has several contenders")
	f.IntSliceVar(&o.inFlight, "in-flight", nil, "orders in flight, instead of those of the pipeline and cluster cases")
	f.IntVar(&o.rounds, "rounds", 3, "rounds of each case; the longer cases take fewer")
	f.Float64Var(&o.scale, "scale", 1, "factor on the number of orders of each trial")
	f.StringVar(&o.store, "store", "", "folder of the brokers' stores (default /dev/shm where there is one, else the temporary folder)")
	f.StringVar(&o.disk, "disk", "", "folder on a disk for the durable case (default: the temporary folder)")
	f.BoolVar(&o.json, "json", false, "print the figures as JSON")
	f.BoolVar(&o.short, "short", false, "one small round of each case: checks that the bench runs, measures nothing")
	f.StringVar(&o.profile, "profile", "", "write a CPU profile of the worker's first trial to this file, and those of the servers to files beside it")
	f.BoolVar(&o.fsyncs, "fsyncs", false, "count the fsyncs of the durable case with strace, in a trial of its own")
	f.StringArrayVar(&o.settings, "set", nil, "NAME=VALUE: one more setting of the worker, without ORDERPOST_ (repeatable)")
	f.DurationVar(&o.timeout, "timeout", 2*time.Hour, "give up after this time")
	program.CompleteFiles(root, "store", "disk", "profile")
	root.AddCommand(contenders()...)
	return program.Execute(ctx, root, args, stdin, stdout, stderr)
}

func (o *options) validate() error {
	var errs []error
	if o.rounds < 1 || o.scale <= 0 {
		errs = append(errs, errors.New("--rounds and --scale must be positive"))
	}
	for _, name := range o.cases {
		if !slices.Contains(caseNames, name) {
			errs = append(errs, fmt.Errorf("--cases: %q is none of %s", name, strings.Join(caseNames, ", ")))
		}
	}
	errs = append(errs, o.validateContenders()...)
	if slices.ContainsFunc(o.inFlight, func(n int) bool { return n < 1 }) {
		errs = append(errs, errors.New("--in-flight must be positive"))
	}
	for _, s := range o.settings {
		if !strings.Contains(s, "=") {
			errs = append(errs, fmt.Errorf("--set: %q is not NAME=VALUE", s))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &program.ExitError{Code: program.ExitUsage, Err: err}
	}
	if o.short {
		o.rounds, o.scale = 1, 0.01
	}
	return nil
}

// some scales a number of orders.
func (o *options) some(n int) int { return max(200, int(float64(n)*o.scale)) }

func run(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done within %s (--timeout)", o.timeout))
	defer cancel()
	r, err := prepare(ctx, o, stderr)
	if err != nil {
		return err
	}
	defer r.cleanUp()
	report := &report{Date: time.Now().UTC().Format("2006-01-02 15:04 MST"), Machine: describeMachine(), Store: r.store, Broker: brokerSettings}
	for _, name := range caseNames {
		if !slices.Contains(o.cases, name) {
			continue
		}
		t, err := measures[name](ctx, r)
		report.Tables = append(report.Tables, t...)
		if ctx.Err() != nil {
			return errors.Join(err, report.print(stdout, o.json))
		}
		if err != nil {
			r.failed++
			r.say("case %s failed: %v", name, err)
			why, _, _ := strings.Cut(err.Error(), "\n")
			failed := table{Title: "Case " + name, Columns: []string{"case", "result"}}
			failed.row(name, "failed: "+why)
			report.Tables = append(report.Tables, failed)
		}
	}
	if t, any := promised(report.Tables); any {
		report.Tables = append(report.Tables, t)
	}
	if err := report.print(stdout, o.json); err != nil {
		return err
	}
	if r.failed > 0 {
		return fmt.Errorf("%d trials failed: their rows say why, and what their processes said stands above", r.failed)
	}
	return nil
}
