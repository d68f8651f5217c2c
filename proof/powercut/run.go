package powercut

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
)

type options struct {
	seed    uint64
	states  int
	resumes int
	orders  int
	without []string
	keep    string
	traces  string
	only    int
	json    bool
	timeout time.Duration
}

const long = `powercut runs workers with the embedded broker under strace: a first start, load, the work of people, a clean stop, a
kill and a start after it. From the trace it builds disks that a power cut may leave at any moment, and starts the
broker on each: it must start, and every message that it had confirmed before must be there. On some of the disks it
starts a worker, which must settle every order, and no order may be created twice or wrongly recorded.

Two models say what a power cut keeps of what was not synced:

  strict   what POSIX promises: fsync of a file keeps its data, fsync of a folder its entries. Anything else may be
           there, missing, torn at sectors of 512 bytes, or zero.
  journal  ext4 and XFS: names and sizes change in order, and every fsync keeps all earlier changes of them.

The broker starts on the disk with nothing but what is certain, for each moment at which that changes, and on disks that
are drawn (--states).

--without proves the method: it leaves protections out (sync, folders, meta: of the broker; apart: of what a worker sends
it), and fails unless losses are found. It needs strace, and the right to trace.

Exit codes: 0 nothing was lost (--without: losses were found); 1 the opposite, or something failed; 2 wrong usage;
130 interrupted.`

// NewCommand returns the command.
func NewCommand(command string, stdout, stderr io.Writer) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use: "powercut", Short: "Cut the power between any two system calls, and look what is left", Long: long,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, command, stdout, stderr) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Uint64Var(&o.seed, "seed", 0, "decides the states of a trace; 0 = a fresh one")
	f.IntVar(&o.states, "states", 4000, "drawn disks to start the broker on, beside those of every moment")
	f.IntVar(&o.resumes, "resumes", 40, "disks to start a worker on")
	f.IntVar(&o.orders, "orders", 200, "orders while a trace is recorded")
	f.StringSliceVar(&o.without, "without", nil, "leave protections out (sync, folders, meta, apart), and fail unless losses are found")
	f.StringVar(&o.keep, "keep", "", "keep the traces in this folder, which must not exist")
	f.StringVar(&o.traces, "traces", "", "use the traces that --keep left in this folder")
	f.IntVar(&o.only, "state", -1, "only the state with this number")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	f.DurationVar(&o.timeout, "timeout", time.Hour, "give up after so long")
	return cmd
}

func (o *options) validate() error {
	var errs []error
	if o.states < 1 || o.resumes < 0 || o.orders < 20 {
		errs = append(errs, errors.New("--states must be at least 1, --resumes at least 0, --orders at least 20"))
	}
	for _, name := range o.without {
		if !slices.Contains([]string{"sync", "folders", "meta", "apart"}, name) {
			errs = append(errs, fmt.Errorf("--without: %q is neither sync nor folders nor meta nor apart", name))
		}
	}
	if o.traces != "" && (o.keep != "" || len(o.without) > 0) {
		errs = append(errs, errors.New("--traces: the traces are there already: not with --keep or --without"))
	}
	if err := errors.Join(errs...); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	return nil
}

// policies are the values of ORDERPOST_ON_UNSURE, each with a trace of its own.
var policies = []string{"resubmit", "park"}

// row is one line of the table.
type row struct {
	Model         model          `json:"model"`
	Policy        string         `json:"on_unsure"`
	Start         string         `json:"start"` // broker or worker
	Operations    int            `json:"operations"`
	Confirmations int            `json:"confirmations"`
	States        int            `json:"states"`
	Recovered     int            `json:"recovered"`
	Lost          int            `json:"lost"`
	Reasons       map[string]int `json:"reasons,omitempty"`
}

type result struct {
	Command string   `json:"command"`
	Seed    uint64   `json:"seed"`
	Seconds float64  `json:"seconds"`
	Rows    []*row   `json:"rows"`
	Minimal []string `json:"minimal,omitempty"`
}

func run(ctx context.Context, o *options, command string, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done within %s (--timeout)", o.timeout))
	defer cancel()
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000_000)
	}
	_, _ = fmt.Fprintf(stderr, "seed %d\n", o.seed)
	started := time.Now()
	res := &result{Command: command, Seed: o.seed}
	work, err := workFolder(o)
	if err != nil {
		return err
	}
	if o.keep == "" && o.traces == "" {
		defer func() { _ = os.RemoveAll(work) }()
	}
	for _, policy := range policies {
		rec, t, err := o.trace(ctx, work, policy, stderr)
		if err != nil {
			return err
		}
		for _, m := range models() {
			e := &explorer{o: o, t: t, rec: rec, model: m, out: stderr, res: res}
			if err := errors.Join(e.explore(ctx, "broker", o.states/4), e.explore(ctx, "worker", o.resumes/4)); err != nil {
				return err
			}
		}
		rec.api.close()
	}
	res.Seconds = time.Since(started).Seconds()
	if err := res.print(stdout, o.json); err != nil {
		return err
	}
	return res.verdict(len(o.without) > 0)
}

func workFolder(o *options) (string, error) {
	switch {
	case o.traces != "":
		return filepath.Abs(o.traces)
	case o.keep != "":
		if err := os.Mkdir(o.keep, 0o700); err != nil {
			return "", fmt.Errorf("--keep: %w", err)
		}
		return filepath.Abs(o.keep)
	}
	return os.MkdirTemp("", "orderpost-powercut-*")
}

// verdict returns an error unless the run shows what it should.
func (r *result) verdict(wantLoss bool) error {
	states, lost := 0, 0
	for _, row := range r.Rows {
		states, lost = states+row.States, lost+row.Lost
	}
	switch {
	case states == 0:
		return errors.New("no state was tried: this run shows nothing")
	case wantLoss && lost == 0:
		return errors.New("a protection was left out, and no loss was found: the method shows nothing")
	case !wantLoss && lost > 0:
		return fmt.Errorf("%d of %d states lost something", lost, states)
	}
	return nil
}

// print prints the table.
func (r *result) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return cli.PrintReport(out, r)
	}
	return r.table(out)
}
