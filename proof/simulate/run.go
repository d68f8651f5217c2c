// Package simulate is the simulate program, which runs schedules of the settle protocol
// in simulated time and reports broken invariants.
package simulate

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/order"
	"orderpost/proof/simulation"
)

type options struct {
	seed        uint64
	schedule    string
	schedules   int
	time        time.Duration
	mutation    string
	corrections bool
	mutations   bool
	trace       bool
	parallel    int
	json        bool
}

const long = `simulate plays schedules of pull, check, attempt, result, acknowledgement, redelivery, replay and what persons
do, with crashes, frozen processes, delays, lost requests and lost answers at every step. All of them follow from
one seed (--seed). The protocol's code is the workers' own; broker and API are models. A schedule in which an
invariant is broken is made as short as possible and printed with its trace and with the command that repeats it;
--seed N --trace prints any one.

The summary says which faults struck at how many steps of the protocol. With --corrections all schedules are about
corrections of an order in doubt.

With --mutation a rule of the protocol is dropped, and the search ends at the first schedule that notices; with
--mutations each rule is dropped in turn. Then exit code 0 says that it was noticed.

Exit codes: 0 no invariant was broken (with a mutation: one was); 1 otherwise; 2 wrong usage; 130 interrupted.`

// Run runs the program and returns the exit code.
func Run(ctx context.Context, args []string, _ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	o := &options{}
	root := &cobra.Command{
		Use: "simulate", Short: "Play the settle protocol in simulated time, from a seed", Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd, stdout, stderr) },
	}
	f := root.Flags()
	f.Uint64Var(&o.seed, "seed", 0, "seed of the first schedule (default: a random one, which is printed)")
	f.StringVar(&o.schedule, "schedule", "", "play this one schedule, as a search printed it, and print its trace")
	f.IntVar(&o.schedules, "schedules", 20_000, "schedules to play; with a mutation, at most")
	f.DurationVar(&o.time, "for", 0, "play for this long, whatever --schedules says")
	f.BoolVar(&o.corrections, "corrections", false, "play schedules about corrections of an order in doubt")
	f.StringVar(&o.mutation, "mutation", "none", "drop this rule of the protocol: "+mutationNames())
	f.BoolVar(&o.mutations, "mutations", false, "drop each rule in turn")
	f.BoolVar(&o.trace, "trace", false, "play the one schedule of --seed and print its trace")
	f.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "schedules played at once")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	return cli.Execute(ctx, root, args, stdin, stdout, stderr)
}

// mutationNames lists the mutations that are noticed, and those that are too rare.
func mutationNames() string {
	list := func(of []simulation.Mutation) string {
		var names []string
		for _, m := range of {
			names = append(names, m.String())
		}
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s (and %s, which are too rare to be noticed)", list(simulation.Mutations()), list(simulation.RareMutations()))
}

func (o *options) run(cmd *cobra.Command, stdout, stderr io.Writer) error {
	m, err := simulation.ParseMutation(o.mutation)
	switch {
	case err != nil:
	case o.schedules < 1 || o.parallel < 1:
		err = errors.New("--schedules and --parallel must be at least 1")
	case o.trace && !cmd.Flags().Changed("seed"):
		err = errors.New("--trace needs --seed: whose schedule?")
	case o.schedule != "" && (cmd.Flags().Changed("seed") || o.mutations || o.corrections):
		err = errors.New("--schedule says what to play; leave out --seed, --corrections and --mutations")
	case o.mutations && m != simulation.None:
		err = errors.New("--mutations drops each rule; leave out --mutation")
	}
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if !cmd.Flags().Changed("seed") {
		o.seed = randomSeed()
	}
	switch {
	case o.schedule != "":
		s, err := simulation.ParseSchedule(o.schedule)
		if err != nil {
			return &cli.ExitError{Code: cli.ExitUsage, Err: err}
		}
		return traced(s, m, stdout)
	case o.trace:
		return traced(simulation.Schedule{Seed: o.seed, Corrections: o.corrections}, m, stdout)
	case o.mutations:
		return o.each(cmd.Context(), stdout)
	default:
		return o.search(cmd.Context(), m, stdout, stderr)
	}
}

// randomSeed returns a seed small enough that the following seeds do not overflow.
func randomSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:]) >> 16
}

// traced prints one schedule.
func traced(s simulation.Schedule, m simulation.Mutation, stdout io.Writer) error {
	trace := &simulation.Trace{}
	r := simulation.Play(s, m, trace)
	if err := trace.Write(stdout); err != nil {
		return err
	}
	return broken(r)
}

func broken(r simulation.Result) error {
	if len(r.Findings) == 0 {
		return nil
	}
	return fmt.Errorf("schedule %s: %s", r.Schedule, r.Findings[0])
}

// each runs a search for each mutation.
func (o *options) each(ctx context.Context, stdout io.Writer) error {
	missed := 0
	for _, m := range simulation.Mutations() {
		s := simulation.Search{Seed: o.seed, Schedules: o.schedules, Mutation: m, Corrections: o.corrections, Parallel: o.parallel, Most: 1}.Run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(s.Failed) == 0 {
			missed++
			_, _ = fmt.Fprintf(stdout, "%-10s not noticed in %d schedules: %s\n", m, s.Schedules, m.Meaning())
			continue
		}
		_, _ = fmt.Fprintf(stdout, "%-10s noticed in schedule %d (%s): %s -> %s\n", m, s.Schedules, s.Failed[0].Schedule, m.Meaning(), s.Failed[0].Findings[0].Invariant)
	}
	if missed > 0 {
		return fmt.Errorf("%d mutations were not noticed", missed)
	}
	return nil
}

// summary is the JSON output.
type summary struct {
	Seed             uint64         `json:"seed"`
	Mutation         string         `json:"mutation,omitempty"`
	Schedules        int            `json:"schedules"`
	Seconds          float64        `json:"seconds"`
	PerSecond        float64        `json:"schedules_per_second"`
	SimulatedDays    float64        `json:"simulated_days"`
	Faults           int            `json:"faults"`
	Orders           int            `json:"orders"`
	Intents          int            `json:"intents"`
	Deliveries       int            `json:"deliveries"`
	Requests         int            `json:"requests"`
	Records          int            `json:"records"`
	Created          int            `json:"created"`
	CreatedTwice     int            `json:"created_twice"`
	DocumentedPauses int            `json:"documented_pauses"`
	LateHandBacks    int            `json:"late_hand_backs"`
	Overlaps         int            `json:"overlaps_after_start"`
	FormerOwners     int            `json:"posts_after_leader_change"`
	LateOutcomes     int            `json:"late_outcomes"`
	MovedTwice       int            `json:"moved_twice"`
	BothClocks       int            `json:"both_clocks_wrong"`
	SameStamps       int            `json:"same_timestamps"`
	OtherBodies      int            `json:"other_bodies"`
	Outcomes         map[string]int `json:"outcomes"`
	FaultsAtSteps    int            `json:"faults_at_steps"`
	Broken           int            `json:"broken"`
	Findings         []finding      `json:"findings,omitempty"`
}

type finding struct {
	Schedule string `json:"schedule"`
	Text     string `json:"text"`
}

// maxFailures is the number of failing schedules after which a search ends.
const maxFailures = 10

func (o *options) search(ctx context.Context, m simulation.Mutation, stdout, stderr io.Writer) error {
	search := simulation.Search{Seed: o.seed, Schedules: o.schedules, For: o.time, Mutation: m, Corrections: o.corrections, Parallel: o.parallel, Most: maxFailures}
	if o.time > 0 {
		search.Schedules = 0
	}
	if m != simulation.None {
		search.Most = 1
	}
	started := time.Now()
	_, _ = fmt.Fprintf(stderr, "seed %d\n", o.seed)
	if cli.IsTerminal(stderr) {
		search.Progress = func(n int) { _, _ = fmt.Fprintf(stderr, "\r%d schedules", n) }
		defer func() { _, _ = fmt.Fprintln(stderr) }()
	}
	found := search.Run(ctx)
	s := summarize(o.seed, m, &found, time.Since(started))
	if err := s.print(stdout, o.json); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case m != simulation.None && len(found.Failed) == 0:
		return fmt.Errorf("mutation %s was not noticed", m)
	case m != simulation.None:
		return o.explain(found.Failed[0], m, stdout)
	case len(found.Failed) > 0:
		return errors.Join(o.explain(found.Failed[0], m, stderr), broken(found.Failed[0]))
	}
	return nil
}

// shrinkPlays bounds the schedules that are played to make a trace short.
const shrinkPlays = 4000

// explain shrinks a schedule that broke and prints its trace.
func (o *options) explain(r simulation.Result, m simulation.Mutation, w io.Writer) error {
	short := simulation.Shrink(r.Schedule, m, shrinkPlays)
	trace := &simulation.Trace{}
	again := simulation.Play(short.Schedule, m, trace)
	_, _ = fmt.Fprintf(w, "schedule %s, made short:\n", r.Schedule)
	err := trace.WriteShort(w, again)
	_, _ = fmt.Fprintf(w, "To repeat it, with all lines:\n  go run ./proof/cmd/simulate %s--schedule '%s'\nThe whole schedule:\n  go run ./proof/cmd/simulate %s--schedule '%s'\n", withMutation(m), short.Schedule, withMutation(m), r.Schedule)
	return err
}

func withMutation(m simulation.Mutation) string {
	if m == simulation.None {
		return ""
	}
	return "--mutation " + m.String() + " "
}

func summarize(seed uint64, m simulation.Mutation, found *simulation.Summary, took time.Duration) *summary {
	c := &found.Counts
	s := &summary{Seed: seed, Schedules: found.Schedules, Seconds: took.Seconds(), PerSecond: float64(found.Schedules) / took.Seconds(),
		SimulatedDays: found.Simulated.Hours() / 24, Faults: c.Faults, Orders: c.Orders, Intents: c.Intents, Deliveries: c.Deliveries,
		Requests: c.Posts, Records: c.Records, Created: c.Created, CreatedTwice: c.CreatedTwice, DocumentedPauses: c.Pauses, LateHandBacks: c.LateHandBacks, Overlaps: c.Overlaps, FormerOwners: c.FormerOwners, LateOutcomes: c.LateOutcomes, MovedTwice: c.MovedTwice, BothClocks: c.BothClocks, SameStamps: c.SameStamps, OtherBodies: c.OtherBodies,
		Outcomes: make(map[string]int), FaultsAtSteps: found.Reached.Count(), Broken: len(found.Failed)}
	if m != simulation.None {
		s.Mutation = m.String()
	}
	for _, out := range order.Outcomes() {
		s.Outcomes[out.String()] = c.Outcomes[out]
	}
	for _, r := range found.Failed {
		for _, f := range r.Findings {
			s.Findings = append(s.Findings, finding{r.Schedule.String(), f.String()})
		}
	}
	return s
}

func (s *summary) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return cli.PrintReport(out, s)
	}
	_, err := fmt.Fprintf(out, "seed %d: %d schedules in %.1f s (%.0f/s), %.0f simulated days, %d faults\n"+
		"%d orders, %d intents, %d deliveries, %d requests, %d records\noutcomes %v\ncreated %d, twice %d; documented pauses %d, late hand-backs %d, late outcomes %d, overlaps after a start %d, after a change of the consumer's leader %d, moved twice %d, both clocks wrong %d, same timestamps %d, other bodies %d\n"+
		"%d faults at a step\nschedules with a broken invariant: %d\n",
		s.Seed, s.Schedules, s.Seconds, s.PerSecond, s.SimulatedDays, s.Faults, s.Orders, s.Intents, s.Deliveries, s.Requests, s.Records,
		s.Outcomes, s.Created, s.CreatedTwice, s.DocumentedPauses, s.LateHandBacks, s.LateOutcomes, s.Overlaps, s.FormerOwners, s.MovedTwice, s.BothClocks, s.SameStamps, s.OtherBodies,
		s.FaultsAtSteps, s.Broken)
	for _, f := range s.Findings {
		_, _ = fmt.Fprintf(out, "  schedule %s: %s\n", f.Schedule, f.Text)
	}
	return err
}
