// Package bench measures orderpost beside the worker that its users would write
// themselves, and beside other job queues: on the same machine, in the same run,
// against the same API.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
)

type options struct {
	cases      []string
	contenders []string
	inFlight   []int
	fsync      []string
	delays     []fsyncDelay // of fsync
	rounds     int
	orders     int
	sync       bool
	https      bool
	rest       time.Duration
	store      string
	disk       string
	json       bool
	short      bool
	profile    string
	settings   []string
	timeout    time.Duration
}

const long = `bench builds the programs, and has orderpost and others post the same orders of 300 bytes to the same API, which
answers at once and verifies every signature. Every program is a process of its own. Each trial has a fresh API and a
fresh broker or database. Rounds are interleaved, figures are medians, ratios are medians of the rounds' ratios. CPU is
that of whole processes (user and system) by order. A contender must have stored the outcome of each
order. A trial that fails is a row of its table; what this machine lacks is left out.

Cases:
  durable   the README's way: a file, "orderpost enqueue", the worker with the broker inside and its disk, all by
            default; measured from the start of enqueue until every outcome is stored, CPU, too. Beside it the same with
            ORDERPOST_ON_UNSURE=park, with the store in memory, with a server and with three of them and three replicas,
            which fsync every write; River on Postgres and on SQLite with fsync on; asynq on Redis with appendfsync
            always. The kernel asks the bench before each fsync to a disk: it counts them, and makes them slower by --fsync,
            as the disks of other machines are.
  pipeline  a full queue on one server whose store is in memory, beside the worker that most users would write
            (nats.go, net/http, the outcome stored before the ack)
  cluster   the same with three servers and three replicas
  latency   from publish to POST at 500 orders/s
  scale     one large import into a worker with the broker inside: its memory meanwhile and --rest later, what each kept
            result takes of heap and disk, restarts, an audit, and a dry run of as many rows; one round, Linux only
  workers   60 workers with 10 slots each, and one with 600, at one server and an API that takes 200 ms: idle, with a full
            queue, at a shared limit, and how soon a worker that joins or dies is noticed

Exit codes: 0 measured; 1 something failed; 2 wrong usage; 130 interrupted.`

var caseNames = []string{"durable", "pipeline", "cluster", "latency", "scale", "workers"}

// Run is the program without its process: it returns the exit code.
func Run(ctx context.Context, args []string, _ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	o := &options{}
	root := &cobra.Command{
		Use: "bench", Short: "Compare orderpost with the worker that users would write, and with other job queues", Long: long,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, stdout, stderr) },
	}
	f := root.Flags()
	f.StringSliceVar(&o.cases, "cases", caseNames, "what to measure")
	f.StringSliceVar(&o.contenders, "contenders", entrantWords(), "who takes part, where a case has several contenders")
	f.IntSliceVar(&o.inFlight, "in-flight", nil, "orders in flight, instead of those of the pipeline and cluster cases")
	f.StringSliceVar(&o.fsync, "fsync", []string{unwatchedWord, "0", "0.5ms", "2ms", "5ms"}, "what an fsync of the durable case takes beyond the disk's own time; 0: only counted; "+unwatchedWord+": nobody counts")
	f.IntVar(&o.rounds, "rounds", 3, "rounds of each case")
	f.IntVar(&o.orders, "orders", 0, "orders of each trial (default: durable 20000, pipeline 60000, cluster 30000, latency 5000, scale 1000000, workers 30000)")
	f.BoolVar(&o.sync, "sync-always", false, "the servers of the pipeline, cluster and latency cases fsync every write; give --store a folder on a disk")
	f.BoolVar(&o.https, "https", false, "orders are posted over TLS; what else is asked of the API is in clear")
	f.DurationVar(&o.rest, "rest", 2*time.Minute, "how long the worker of the scale case rests after the import")
	f.StringVar(&o.store, "store", "", "folder of the stores in memory (default /dev/shm where there is one, else the temporary folder)")
	f.StringVar(&o.disk, "disk", "", "folder on a disk for the durable case (default: the temporary folder)")
	f.BoolVar(&o.json, "json", false, "print the figures as JSON")
	f.BoolVar(&o.short, "short", false, "one small round of each case: checks that the bench runs, measures nothing")
	f.StringVar(&o.profile, "profile", "", "write a CPU profile of the worker's first trial to this file, and those of the servers to files beside it")
	f.StringArrayVar(&o.settings, "set", nil, "NAME=VALUE: one more setting of the worker, without ORDERPOST_ (repeatable)")
	f.DurationVar(&o.timeout, "timeout", 2*time.Hour, "give up after this time")
	cli.CompleteFiles(root, "store", "disk", "profile")
	root.AddCommand(contenders()...)
	return cli.Execute(ctx, root, args, stdin, stdout, stderr)
}

func (o *options) validate() error {
	var errs []error
	if o.rounds < 1 || o.orders < 0 {
		errs = append(errs, errors.New("--rounds and --orders must be positive"))
	}
	for _, name := range o.cases {
		if !slices.Contains(caseNames, name) {
			errs = append(errs, fmt.Errorf("--cases: %q is none of %s", name, strings.Join(caseNames, ", ")))
		}
	}
	errs = append(errs, o.validateContenders()...)
	errs = append(errs, o.parseDelays()...)
	if slices.ContainsFunc(o.inFlight, func(n int) bool { return n < 1 }) {
		errs = append(errs, errors.New("--in-flight must be positive"))
	}
	for _, s := range o.settings {
		if !strings.Contains(s, "=") {
			errs = append(errs, fmt.Errorf("--set: %q is not NAME=VALUE", s))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if o.short {
		o.rounds, o.orders, o.rest = 1, 200, 0
		o.delays = o.delays[:min(2, len(o.delays))]
	}
	return nil
}

// ordersOf is the number of orders of a trial, by default n.
func (o *options) ordersOf(n int) int { return cmp.Or(o.orders, n) }

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
	report := &report{Date: time.Now().UTC().Format("2006-01-02 15:04 MST"), Machine: describeMachine(), Store: r.store, Broker: o.brokerSettings(), HTTPS: o.https}
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
	if err := report.print(stdout, o.json); err != nil {
		return err
	}
	if r.failed > 0 {
		return fmt.Errorf("%d trials failed: their rows say why, and what their processes said stands above", r.failed)
	}
	return nil
}
