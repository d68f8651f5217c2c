package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
)

const soakText = `soak produces orders at a steady rate without faults, and measures the workers and brokers at the start
(after the warm-up) and at the end: memory, goroutines, file descriptors, disk, and how long orders take. Then
all its orders must be settled, each once. docs/reliability.md says by how much a measure may differ.

Exit codes: 0 nothing grew, no order was lost or doubled; 1 something did, or an order was; 2 wrong usage;
130 interrupted.`

// soakOptions are the flags of a soak.
type soakOptions struct {
	options
	length time.Duration
	warmUp time.Duration
}

func newSoak(command string, stdout, stderr io.Writer) *cobra.Command {
	o := &soakOptions{}
	cmd := &cobra.Command{
		Use: "soak", Short: "Steady load: does anything grow?", Long: soakText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.command = command
			return o.run(cmd.Context(), stdout, stderr)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.DurationVar(&o.length, "for", 20*time.Minute, "how long it takes")
	f.DurationVar(&o.warmUp, "warm-up", 3*time.Minute, "not measured, while heaps and caches fill; at most half of the time")
	f.StringVar(&o.broker, "broker", embeddedBroker, "embedded (in the first worker), external (a nats-server), or cluster (three of them)")
	f.Float64Var(&o.rate, "rate", 50, "orders per second")
	f.IntVar(&o.workers, "workers", 2, "worker processes")
	f.StringVar(&o.plant, "plant", "", "leak: build a leak into the workers, which must be found")
	f.BoolVar(&o.json, "json", false, "print the measures as JSON")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "give up so long after the load is over")
	return cmd
}

func (o *soakOptions) validate() error {
	if o.length < 20*time.Second || o.warmUp < 0 || o.workers < 1 || !(o.rate > 0) ||
		!slices.Contains([]string{embeddedBroker, externalBroker, clusterBroker}, o.broker) || o.plant != "" && o.plant != leakPlant {
		return &cli.ExitError{Code: cli.ExitUsage, Err: errors.New("--for at least 20s, --rate above 0, --workers at least 1, --broker embedded, external or cluster, --plant leak")}
	}
	o.policy, o.calm, o.orders = resubmitPolicy, true, 1<<62
	return nil
}

func (o *soakOptions) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	limit := o.length + o.timeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s (--timeout)", limit))
	defer cancel()
	r := &rig{o: &o.options, out: stderr, intents: newIntents(), soaks: true}
	defer r.cleanUp()
	if err := r.prepare(ctx); err != nil {
		return errors.Join(err, r.lastWords())
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go r.watch(watching) // a worker that starts before its broker is ready ends, and is started again
	v, err := r.soak(ctx, o)
	if err != nil {
		return errors.Join(err, r.lastWords())
	}
	if err := v.print(stdout, o.json); err != nil {
		return err
	}
	return v.err(o.plant != "")
}

// samples are how often a soak measures at its start and at its end. Memory goes up and
// down between two collections, so the lowest of these counts. A leak raises that, too.
const samples = 6

// soak produces, and measures at the start and at the end.
func (r *rig) soak(ctx context.Context, o *soakOptions) (*soakVerdict, error) {
	outcomes, err := r.watchOutcomes(ctx)
	if err != nil {
		return nil, err
	}
	defer outcomes.stop()
	enough, produced := make(chan struct{}), make(chan error, 1)
	go func() { produced <- r.produce(ctx, enough) }()
	started := time.Now()
	warm := min(o.warmUp, o.length/2)
	window := min(time.Minute, (o.length-warm)/4)
	start, err := r.lowest(ctx, started.Add(warm), window, outcomes)
	if err != nil {
		return nil, err
	}
	end, err := r.lowest(ctx, started.Add(o.length-window), window, outcomes)
	if err != nil {
		return nil, err
	}
	close(enough)
	if err := <-produced; err != nil {
		return nil, err
	}
	defer r.confirming(ctx)()
	if err := r.untilQuiet(ctx); err != nil {
		return nil, err
	}
	v := &soakVerdict{Command: o.command, Minutes: time.Since(started).Minutes(), Measures: compareMeasures(start, end)}
	return v, outcomes.compare(ctx, r, v)
}

// lowest measures several times between from and from+window, and returns the lowest value of each
// measure. The latencies are those of the window.
func (r *rig) lowest(ctx context.Context, from time.Time, window time.Duration, outcomes *outcomes) (map[string]float64, error) {
	low := make(map[string]float64)
	for i := range samples {
		if err := pause(ctx, time.Until(from.Add(window*time.Duration(i)/(samples-1)))); err != nil {
			return nil, err
		}
		if i == 0 {
			outcomes.latencies() // those of before
		}
		if err := r.sample(ctx, low); err != nil {
			return nil, err
		}
	}
	if took := outcomes.latencies(); len(took) > 0 {
		slices.Sort(took)
		low["all p50 ms"], low["all p99 ms"] = took[len(took)/2], took[len(took)*99/100]
	}
	return low, nil
}

// sample measures every process and the disk, and lowers the measures that were higher.
func (r *rig) sample(ctx context.Context, low map[string]float64) error {
	add := func(process, measure string, v float64) {
		if have, ok := low[process+" "+measure]; !ok || v < have {
			low[process+" "+measure] = v
		}
	}
	watched := make(map[*process]string) // the address of each one's profiles
	for _, w := range r.workers {
		watched[w.process] = w.ops
	}
	for i, node := range r.nodes {
		watched[node] = r.profiles[i]
	}
	for proc, profiles := range watched {
		if proc.pid() == 0 {
			return fmt.Errorf("%s has ended by itself:\n  %s", proc.name, proc.lastLines(3))
		}
		resident, files, err := residentAndFiles(proc.pid())
		if err != nil {
			return fmt.Errorf("%s: %w", proc.name, err)
		}
		goroutines, err := profiled(ctx, profiles, "goroutine?debug=1", "goroutine profile: total ")
		if err != nil {
			return fmt.Errorf("%s: %w", proc.name, err)
		}
		heap, err := profiled(ctx, profiles, "heap?gc=1&debug=1", "# HeapAlloc = ") // after a collection
		if err != nil {
			return fmt.Errorf("%s: %w", proc.name, err)
		}
		add(proc.name, "live heap MiB", heap/(1<<20))
		add(proc.name, "resident MiB", resident)
		add(proc.name, "file descriptors", files)
		add(proc.name, "goroutines", goroutines)
	}
	disk, err := r.diskUsed()
	if err != nil {
		return err
	}
	add("all", "disk MiB", disk)
	return nil
}

// allowed is by how much a measure may rise between the start and the end of a soak: a
// share of its level, and what a process shows without any leak, for instance when the
// machine slows down and all slots are taken.
var allowed = map[string]struct{ share, noise float64 }{
	"live heap MiB":    {0.05, 8},
	"resident MiB":     {0.05, 64},
	"goroutines":       {0.05, 100},
	"file descriptors": {0.05, 100},
	"disk MiB":         {0.05, 32},
	"p50 ms":           {0.25, 100},
	"p99 ms":           {0.25, 1000},
}

// soakVerdict is the result of a soak.
type soakVerdict struct {
	Command  string          `json:"command"`
	Minutes  float64         `json:"minutes"`
	Orders   int             `json:"orders"`
	Lost     int             `json:"lost"`
	Doubled  int             `json:"doubled"`
	Measures []judgedMeasure `json:"measures"`
}

// judgedMeasure is a measure of a process at the start and at the end of a soak.
type judgedMeasure struct {
	Name  string  `json:"name"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Grew  bool    `json:"grew"`
}

func compareMeasures(start, end map[string]float64) (all []judgedMeasure) {
	for _, name := range slices.Sorted(maps.Keys(end)) {
		_, measure, _ := strings.Cut(name, " ")
		may := allowed[measure]
		all = append(all, judgedMeasure{name, start[name], end[name], end[name] > start[name]*(1+may.share)+may.noise})
	}
	return all
}

// err returns an error if something grew or an order was lost. If a leak was planted, it
// returns an error if nothing grew.
func (v *soakVerdict) err(leaks bool) error {
	var grew []string
	for _, m := range v.Measures {
		if m.Grew {
			grew = append(grew, m.Name)
		}
	}
	switch {
	case v.Lost+v.Doubled > 0:
		return fmt.Errorf("lost %d, doubled %d", v.Lost, v.Doubled)
	case v.Orders == 0:
		return errors.New("no order was settled: this shows nothing")
	case leaks && len(grew) == 0:
		return errors.New("a leak was planted, and nothing grew")
	case !leaks && len(grew) > 0:
		return fmt.Errorf("grew: %s", strings.Join(grew, ", "))
	}
	return nil
}

func (v *soakVerdict) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return cli.PrintReport(out, v)
	}
	_, _ = fmt.Fprintf(out, "%.1f minutes, %d orders, lost %d, doubled %d\n", v.Minutes, v.Orders, v.Lost, v.Doubled)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "measure\tat the start\tat the end\t\t")
	for _, m := range v.Measures {
		word := ""
		if m.Grew {
			word = "grew"
		}
		_, _ = fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%s\t\n", m.Name, m.Start, m.End, word)
	}
	return t.Flush()
}
