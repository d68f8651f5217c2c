// Package chaos kills real workers and brokers in the middle of their work, and
// then balances the books against the sandbox's ledger.
package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/program"
)

type options struct {
	orders  int
	kills   int
	workers int
	broker  string
	policy  string
	seed    uint64
	calm    bool
	json    bool
	keep    string
	timeout time.Duration
}

const long = `chaos builds the worker, starts it as a process of its own against the sandbox, enqueues orders, and
kills it with SIGKILL again and again in the middle of them. With --broker embedded the broker dies with the
worker that runs it; with --broker external a nats-server, built from the module that go.mod names, is
killed in turn with the workers. When the queue is empty, every recorded outcome is compared with what the
sandbox really created.

Exit codes: 0 the books balance; 1 they do not, or something failed; 2 wrong usage; 130 interrupted.`

// Run is the program without its process: it returns the exit code.
func Run(ctx context.Context, args []string, _ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	o := &options{}
	root := &cobra.Command{
		Use: "chaos", Short: "Kill workers and brokers under load, then balance the books", Long: long,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, stdout, stderr) },
	}
	f := root.Flags()
	f.IntVar(&o.orders, "orders", 20_000, "orders to enqueue")
	f.IntVar(&o.kills, "kills", 10, "processes to kill, spread over the run")
	f.IntVar(&o.workers, "workers", 2, "worker processes")
	f.StringVar(&o.broker, "broker", "embedded", "embedded, or external: a nats-server process")
	f.StringVar(&o.policy, "on-unsure", "resubmit", "the workers' ORDERPOST_ON_UNSURE: resubmit or park")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the sandbox's faults and of the moments of the kills")
	f.BoolVar(&o.calm, "calm", false, "the sandbox injects no faults: the kills are the only trouble")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	f.StringVar(&o.keep, "keep", "", "keep binaries, logs and data in this folder (default: a temporary one, removed)")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "give up after this time")
	return program.Execute(ctx, root, args, stdin, stdout, stderr)
}

func (o *options) validate() error {
	var errs []error
	if o.orders < 1 || o.kills < 0 || o.workers < 1 {
		errs = append(errs, errors.New("--orders and --workers must be at least 1, --kills at least 0"))
	}
	if o.broker != "embedded" && o.broker != "external" {
		errs = append(errs, fmt.Errorf("--broker: %q is neither embedded nor external", o.broker))
	}
	if o.policy != "resubmit" && o.policy != "park" {
		errs = append(errs, fmt.Errorf("--on-unsure: %q is neither resubmit nor park", o.policy))
	}
	if err := errors.Join(errs...); err != nil {
		return &program.ExitError{Code: program.ExitUsage, Err: err}
	}
	return nil
}

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
	summary, err := r.perform(ctx)
	if err != nil {
		return errors.Join(err, r.lastWords())
	}
	if err := summary.print(stdout, o.json); err != nil {
		return err
	}
	if !summary.Balanced {
		return errors.New("the books do not balance")
	}
	return nil
}

func (s *summary) print(out io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	}
	_, err := fmt.Fprintf(out, "%s broker, policy %s, seed %d: %d orders, %d kills (took down %d workers, %d brokers) in %.1f s\n"+
		"outcomes %v\nrequests to the API %d, orders created %d, created twice %d\n"+
		"missing %d, created but not recorded %d, dead letters %d\nbalanced: %v\n",
		s.Broker, s.Policy, s.Seed, s.Orders, s.Kills, s.WorkerKills, s.BrokerKills, s.Seconds,
		s.Outcomes, s.Requests, s.CreatedOnce+s.CreatedTwice, s.CreatedTwice, s.Missing, s.Unrecorded, s.DeadLetters, s.Balanced)
	for _, p := range s.Problems {
		_, _ = fmt.Fprintln(out, "  "+p)
	}
	return err
}
