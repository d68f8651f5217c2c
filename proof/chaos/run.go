// Package chaos starts the real programs, injects the faults of real operation, and
// then balances the books.
//
//	schedule.go  which fault comes when, as the seed determines
//	faults.go    the table of faults; faults_*.go, power.go and bitrot.go inject them
//	rig.go       the processes: brokers and workers (process.go)
//	proxy.go     the network between workers, brokers and API
//	intents.go   the producers, and the intents confirmed to them
//	doors.go, receiver.go  orders over HTTP, and webhooks
//	corrections.go  orders that were refused are submitted again
//	people.go, approved.go  two people at consoles, and what they approve
//	plant.go  the workers are built with a fault, which the checkers must find
//	clock.go     wall clocks that can be set while a process runs
//	commands.go  the programs for people, which must survive the faults
//	summary.go   compares every confirmed intent with its outcome and the ledger
//	history.go   what happened, as JSON lines, judged by proof/oracle (judge.go)
//	night.go     each fault of a bad night by itself: what does the operator read, and when?
//	soak.go      without faults: what grows from the start to the end? (footprint.go)
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/proof/powercut"
)

// The values of --on-unsure and --scenario.
const (
	resubmitPolicy = "resubmit"
	parkPolicy     = "park"
	replayScenario = "replay"
)

type options struct {
	minutes   float64
	scenario  string
	orders    int
	rate      float64
	gap       time.Duration
	kills     int
	workers   int
	broker    string
	servers   []string // paths of nats-servers, which each node runs in turn; none = built from this module's version
	policy    string
	lookup    bool
	faults    []string
	without   []string
	seed      uint64
	calm      bool
	commands  bool
	json      bool
	list      bool
	keep      string
	hostile   bool
	bitRot    bool
	doors     bool
	approvals bool
	clocks    bool
	tls       bool
	timeout   time.Duration
	history   string
	plant     string
	usual     bool // the workers have their default settings

	chosen  []fault
	command string
}

const long = `chaos builds the programs, starts workers and brokers as processes of their own against the sandbox, and
produces orders at a steady rate. Meanwhile faults come and go, several at once, as the seed deals them
(--list-faults). Refused orders are submitted again. Then everything is healed, and when the queue is empty
every intent that was ever confirmed to a producer is compared with its outcome, and every outcome with what
the sandbox really created.

Meanwhile orders come over HTTP, too (orderpost gateway), and a receiver that fails is told what became of each
order (orderpost notify): at the end it must know every last outcome. People import files and wait for them, watch, list, export, replay and audit, by programs that must
survive the faults: each run's exit code must be one that is documented for it, and none gives up.

With --on-unsure park the sandbox creates a repeated order_no again, so that a second POST shows as doubled.
chaos soak does the same without faults, and says what grew.
--scenario replay turns --orders into dead letters and replays them all, with kills.

Exit codes: 0 the books balance, nothing was lost, doubled or unexplained; 1 they do not,
or something failed; 2 wrong usage; 130 interrupted.`

// Run runs the program and returns the exit code.
func Run(ctx context.Context, args []string, _ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	o := &options{command: strings.Join(append([]string{"go run ./proof/cmd/chaos"}, args...), " ")}
	root := &cobra.Command{
		Use: "chaos", Short: "Break everything under load, then balance the books", Long: long,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, stdout, stderr) },
	}
	f := root.Flags()
	f.SortFlags = false
	f.Float64Var(&o.minutes, "minutes", 1, "how long faults are injected")
	f.Float64Var(&o.rate, "rate", 100, "orders that the producer publishes per second; 0 = all at once")
	f.IntVar(&o.orders, "orders", 0, "orders of the producer at most; 0 = as many as the time allows")
	f.StringVar(&o.broker, "broker", embeddedBroker, "embedded (in the first worker), external (a nats-server), or cluster (three of them)")
	f.StringSliceVar(&o.servers, "nats-server", nil, "path of the nats-server of external and cluster (default: built from the version in go.mod); of several, each start of a node runs the next one: upgrades and ways back")
	f.StringVar(&o.policy, "on-unsure", resubmitPolicy, "the workers' ORDERPOST_ON_UNSURE: resubmit or park")
	f.BoolVar(&o.lookup, "lookup", false, "workers ask the API about orders in doubt, and requests may be held up on their way: then nothing may end as unknown")
	f.IntVar(&o.workers, "workers", 3, "worker processes")
	f.StringSliceVar(&o.faults, "faults", nil, "only these faults (default: all that the broker allows)")
	f.StringSliceVar(&o.without, "without", nil, "all faults but these")
	f.DurationVar(&o.gap, "gap", 1500*time.Millisecond, "mean time from one fault to the next; a fault stands for up to 9 s")
	f.Uint64Var(&o.seed, "seed", 1, "decides which faults come when, and the sandbox's own")
	f.BoolVar(&o.calm, "calm", false, "the sandbox injects no faults of its own beside those of the schedule")
	f.BoolVar(&o.commands, "commands", true, "run the programs for people meanwhile, and hold their exit codes against the documented ones")
	f.BoolVar(&o.doors, "doors", true, "producers over HTTP beside those over NATS, and senders of webhooks with a receiver that fails")
	f.BoolVar(&o.approvals, "approvals", false, "every import needs an approval; two people import workbooks, approve and refuse at consoles that are killed, too")
	f.StringVar(&o.scenario, "scenario", "", "replay: --orders dead letters, replayed with --kills kills")
	f.IntVar(&o.kills, "kills", 10, "kills of the scenario")
	f.BoolVar(&o.hostile, "hostile", false, "also the faults of hostile hands: giant intents, a disk that fills, answers about other orders")
	f.BoolVar(&o.bitRot, "bit-rot", false, "also damage the files of one of three servers now and then, see that the fleet notices, and mend it as the runbook says")
	f.BoolVar(&o.clocks, "clocks", false, "also the faults of clocks: brokers and workers, built with a patched package time, whose wall clocks step and differ")
	f.BoolVar(&o.tls, "tls", false, "the sandbox speaks TLS, so that the faults between workers and API strike handshakes and records")
	f.BoolVar(&o.list, "list-faults", false, "list the faults and end")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	f.StringVar(&o.keep, "keep", "", "keep binaries, logs and data in this folder (default: a temporary one, removed)")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "give up so long after the faults are over")
	f.StringVar(&o.history, "history", "", "write what happened to this file, one event a line, and judge it by the invariants of the simulation (again: chaos judge FILE)")
	f.StringVar(&o.plant, "plant", "", "build a fault into the workers, which the history must show: ack-first, blind, old-timestamp, trim-ahead; with --lookup, which the ledger must show: absent-at-once, short-quarantine")
	root.AddCommand(newJudge(stdout), newNight(stdout, stderr), newSoak(o.command, stdout, stderr))
	root.AddCommand(powercut.NewCommand(o.command, stdout, stderr))
	return cli.Execute(ctx, root, args, stdin, stdout, stderr)
}

// length returns how long faults are injected.
func (o *options) length() time.Duration { return time.Duration(o.minutes * float64(time.Minute)) }

func (o *options) byName(name string) fault {
	for _, f := range o.chosen {
		if f.name == name {
			return f
		}
	}
	panic("chaos: the schedule names a fault that was not chosen: " + name)
}

// validate checks the flags and sets those that follow from others. Its error names
// every mistake.
func (o *options) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.orders < 0 || o.kills < 0 || o.workers < 1 || o.rate < 0 || o.gap < 10*time.Millisecond || !(o.minutes > 0) {
		bad("--workers must be at least 1, --gap at least 10ms, --minutes above 0; --orders, --kills and --rate cannot be below 0")
	}
	if o.broker != embeddedBroker && o.broker != externalBroker && o.broker != clusterBroker {
		bad("--broker: %q is neither embedded nor external nor cluster", o.broker)
	}
	if len(o.servers) > 0 && o.broker == embeddedBroker {
		bad("--nats-server: is for --broker external and cluster")
	}
	if o.policy != resubmitPolicy && o.policy != parkPolicy {
		bad("--on-unsure: %q is neither resubmit nor park", o.policy)
	}
	if o.scenario != "" && o.scenario != replayScenario {
		bad("--scenario: replay is the only one")
	}
	if o.scenario == replayScenario && o.orders == 0 {
		bad("--scenario replay: --orders says how many")
	}
	if o.scenario == replayScenario && o.policy == parkPolicy {
		bad("--scenario replay: replays orders in doubt, which is right only where the API refuses duplicates: not with --on-unsure park")
	}
	if o.approvals && (o.broker == embeddedBroker || o.scenario != "") {
		bad("--approvals: needs --broker external or cluster, and no --scenario: the consoles have data folders of their own")
	}
	if o.clocks && (len(o.servers) > 0 || o.history != "" || o.scenario != "") {
		bad("--clocks: not with --nats-server, which it must build itself, nor with --history, whose times are those of the clocks that it sets wrong, nor with --scenario")
	}
	if o.orders == 0 && o.rate == 0 {
		bad("--rate 0 needs --orders")
	}
	if o.plant != "" && !(o.lookup && lookupPlants[o.plant]) && (o.history == "" || o.plant == leakPlant || lookupPlants[o.plant] || plants[o.plant] == nil) {
		bad("--plant: ack-first, blind, old-timestamp or trim-ahead, with --history; absent-at-once or short-quarantine, with --lookup")
	}
	var err error
	var parts []string
	if o.doors {
		parts = append(parts, doorsPart)
	}
	if o.approvals {
		parts = append(parts, approvalsPart)
	}
	if o.clocks {
		parts = append(parts, clocksPart)
	}
	if len(o.servers) > 1 {
		parts = append(parts, turnsPart)
	}
	if o.chosen, err = chosen(o.faults, o.broker, o.hostile, parts...); err != nil {
		bad("%w", err)
	}
	switch {
	case !o.bitRot:
	case o.broker != clusterBroker:
		bad("--bit-rot: needs --broker cluster, where other servers have what one lost")
	default:
		o.chosen = append(o.chosen, bitRot())
	}
	for _, name := range o.without {
		named := func(f fault) bool { return f.name == name }
		if !slices.ContainsFunc(o.chosen, named) {
			bad("--without: %q is none of the faults of this run", name)
		}
		o.chosen = slices.DeleteFunc(o.chosen, named)
	}
	if o.scenario != "" {
		o.chosen, o.doors = nil, false
	}
	if o.scenario == replayScenario {
		o.rate = 0
	}
	if o.orders == 0 {
		o.orders = math.MaxInt
	}
	if err := errors.Join(errs...); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	return nil
}

func run(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.list {
		return list(stdout)
	}
	limit := o.length() + o.timeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s (--timeout)", limit))
	defer cancel()
	r := &rig{o: o, out: stderr, intents: newIntents()}
	defer r.cleanUp()
	if err := r.prepare(ctx); err != nil {
		return errors.Join(err, r.lastWords())
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go r.watch(watching)
	s, failure := r.carryOut(ctx)
	if failure != nil {
		failure = errors.Join(failure, r.lastWords())
		if s == nil || s.Books == nil {
			return failure
		}
	}
	if err := s.print(stdout, o.json); err != nil {
		return err
	}
	told := stdout
	if o.json {
		told = stderr
	}
	err := o.found(told)
	if lookupPlants[o.plant] {
		if s.Doubled == 0 {
			return errors.Join(failure, fmt.Errorf("the fault %s was planted, and nothing was doubled", o.plant))
		}
		_, err = fmt.Fprintf(told, "\nthe planted fault %s was found: %d doubled\n", o.plant, s.Doubled)
		return err
	}
	if o.plant != "" {
		return errors.Join(failure, err) // the run may rightly have lost orders
	}
	return errors.Join(failure, s.verdict(), err)
}

func (r *rig) carryOut(ctx context.Context) (*summary, error) {
	switch {
	case r.o.scenario == replayScenario:
		return r.replayAll(ctx)
	default:
		return r.perform(ctx)
	}
}

// verdict returns an error if the run shows a defect.
func (s *summary) verdict() error {
	if s.Lost+s.Doubled+s.Unexplained+s.Untold > 0 {
		return fmt.Errorf("lost %d, doubled %d, unexplained %d, not told as they ended %d", s.Lost, s.Doubled, s.Unexplained, s.Untold)
	}
	if s.Unknown > 0 {
		return fmt.Errorf("%d orders ended as unknown, although the API was asked", s.Unknown)
	}
	if a := s.Approvals; a != nil && a.Wrong > 0 {
		return fmt.Errorf("%d contradictions to what two people decided", a.Wrong)
	} else if a != nil && (a.Approved == 0 || a.Refused == 0 || a.Waiting == 0 || a.Covered == 0) {
		return fmt.Errorf("%d uploads were approved, %d refused, %d left, and %d orders created of what two people agreed to: this run shows nothing of approvals", a.Approved, a.Refused, a.Waiting, a.Covered)
	}
	if d := s.Doors; d != nil && (d.Posted == 0 || d.Events == 0) {
		return fmt.Errorf("%d orders came over HTTP, %d events reached the receiver: this run shows nothing of the doors", d.Posted, d.Events)
	}
	if err := s.clocksShown(); err != nil {
		return err
	}
	if !s.Balanced {
		return errors.New("the books do not balance")
	}
	if t := s.Rot; t != nil && (t.Unnoticed > 0 || t.Whole+t.Noticed == 0) {
		return fmt.Errorf("damaged blocks: the fleet noticed %d, and nobody noticed %d", t.Noticed, t.Unnoticed)
	}
	if n := len(s.CommandProblems); n > 0 {
		return fmt.Errorf("%d runs of commands ended in an undocumented way", n)
	}
	if s.Confirmed == 0 || s.CreatedOnce == 0 {
		return errors.New("nothing was confirmed or created: this run shows nothing")
	}
	if s.injected() == 0 && len(s.Faults) > 0 {
		return errors.New("no fault was injected: this run shows nothing")
	}
	return nil
}

func list(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "FAULT\tBROKER\tWEIGHT\tWHAT")
	for _, f := range append(faults(), bitRot()) {
		needs := "all"
		if len(f.needs) > 0 {
			needs = strings.Join(f.needs, ", ")
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", f.name, needs, f.weight, f.what)
	}
	return t.Flush()
}
