package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/planted"
	"orderpost/internal/program"
)

const soakText = `soak produces orders at a steady rate without faults, and samples the workers and brokers: memory,
goroutines, file descriptors, disk, and how long orders take. One call is one piece. The next one with the
same --state goes on with the same streams, so pieces add up to hours; each starts the processes anew.

Each measure is judged by its trend: the median slope within the pieces, and between them, with the interval
that holds it with 95% confidence (docs/reliability.md says what counts as flat). At the end of a piece all
its orders must be settled, each once.

Exit codes: 0 nothing grows, no order was lost or doubled; 1 something does, or an order was; 2 wrong usage;
130 interrupted.`

// soakOptions are the flags of a soak.
type soakOptions struct {
	options
	state  string
	length time.Duration
	warmUp time.Duration
}

func newSoak(command string, stdout, stderr io.Writer) *cobra.Command {
	o := &soakOptions{}
	cmd := &cobra.Command{
		Use: "soak", Short: "Steady load in pieces: does anything grow?", Long: soakText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.command = command
			return o.run(cmd.Context(), stdout, stderr)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.state, "state", "", "folder of the streams and of pieces.jsonl; the next piece goes on there (default: a temporary one, removed)")
	f.DurationVar(&o.length, "for", 20*time.Minute, "how long this piece is; 0 = none, judge the pieces that there are")
	f.DurationVar(&o.warmUp, "warm-up", 3*time.Minute, "ignored at the beginning of a piece, while heaps and caches fill; at most half of it")
	f.StringVar(&o.broker, "broker", embeddedBroker, "embedded (in the first worker), external (a nats-server), or cluster (three of them)")
	f.Float64Var(&o.rate, "rate", 50, "orders per second")
	f.IntVar(&o.workers, "workers", 2, "worker processes")
	f.StringVar(&o.plant, "plant", "", "leak: build a leak into the workers, which must be found")
	f.BoolVar(&o.json, "json", false, "print the judgement as JSON")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "give up so long after the piece is over")
	return cmd
}

func (o *soakOptions) validate() error {
	if o.length < 0 || o.length > 0 && o.length < 20*time.Second || o.warmUp < 0 || o.workers < 1 || !(o.rate > 0) ||
		!slices.Contains([]string{embeddedBroker, externalBroker, clusterBroker}, o.broker) || o.plant != "" && o.plant != string(planted.Leak) || o.length == 0 && o.state == "" {
		return &program.ExitError{Code: program.ExitUsage, Err: errors.New("--for at least 20s (or 0 with --state), --rate above 0, --workers at least 1, --broker embedded, external or cluster, --plant leak")}
	}
	o.policy, o.calm, o.orders = resubmitPolicy, true, 1<<62
	return nil
}

func (o *soakOptions) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	if o.state == "" {
		if o.state, err = os.MkdirTemp("", "orderpost-soak-*"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(o.state) }()
	}
	if o.state, err = filepath.Abs(o.state); err != nil {
		return err
	}
	pieces, err := readPieces(o.state)
	if err != nil {
		return err
	}
	if o.length > 0 {
		p, err := o.piece(ctx, len(pieces)+1, stderr)
		if err != nil {
			return err
		}
		if err := p.save(o.state); err != nil {
			return err
		}
		pieces = append(pieces, *p)
	}
	v := judgePieces(pieces)
	if err := v.print(stdout, o.json); err != nil {
		return err
	}
	return v.err(o.plant != "")
}

// piece runs one piece.
func (o *soakOptions) piece(ctx context.Context, number int, stderr io.Writer) (p *piece, err error) {
	o.seed, o.keep, o.chosen = uint64(time.Now().Unix()), o.state, nil // no order_no of an earlier piece again, not even of one that failed
	limit := o.length + o.timeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s (--timeout)", limit))
	defer cancel()
	r := &rig{o: &o.options, out: stderr, intents: newIntents(), soaks: true}
	defer r.cleanUp()
	if err := r.prepare(ctx); err != nil {
		return nil, errors.Join(err, r.lastWords())
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go r.watch(watching) // a worker that starts before its broker is ready ends, and is started again
	p = &piece{Number: number, Command: o.command, Started: time.Now().UTC().Truncate(time.Second), Broker: o.broker, Rate: o.rate, Workers: o.workers}
	if err := r.soak(ctx, o, p); err != nil {
		return nil, errors.Join(err, r.lastWords())
	}
	return p, nil
}

// soak produces and samples.
func (r *rig) soak(ctx context.Context, o *soakOptions, p *piece) error {
	outcomes, err := r.watchOutcomes(ctx)
	if err != nil {
		return err
	}
	defer outcomes.stop()
	enough, produced := make(chan struct{}), make(chan error, 1)
	go func() { produced <- r.produce(ctx, enough) }()
	started := time.Now()
	warm := min(o.warmUp, o.length/2)
	every := min(10*time.Second, (o.length-warm)/24)
	for at := warm; at <= o.length; at += every {
		if err := pause(ctx, time.Until(started.Add(at))); err != nil {
			return err
		}
		if at == warm {
			outcomes.latencies() // those of the warm-up
			continue
		}
		if err := r.sample(ctx, p, time.Since(started), outcomes); err != nil {
			return err
		}
	}
	close(enough)
	if err := <-produced; err != nil {
		return err
	}
	if err := r.untilQuiet(ctx); err != nil {
		return err
	}
	p.Seconds = time.Since(started).Seconds()
	return outcomes.compare(ctx, r, p)
}

// sample measures every process and the disk.
func (r *rig) sample(ctx context.Context, p *piece, at time.Duration, outcomes *outcomes) error {
	add := func(process, measure string, v float64) { p.add(process+" "+measure, at.Hours(), v) }
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
	if took := outcomes.latencies(); len(took) > 0 {
		slices.Sort(took)
		add("all", "p50 ms", quantile(took, float64(len(took)-1)*0.50))
		add("all", "p99 ms", quantile(took, float64(len(took)-1)*0.99))
	}
	return nil
}

// soakVerdict is the judgement of all pieces.
type soakVerdict struct {
	Pieces   int     `json:"pieces"`
	Hours    float64 `json:"hours"`
	Orders   int     `json:"orders"`
	Lost     int     `json:"lost"`
	Doubled  int     `json:"doubled"`
	Measures []judgedMeasure
}

// judgedMeasure is a measure with its trends within the pieces and between them.
type judgedMeasure struct {
	Name    string `json:"name"`
	Within  trend  `json:"within"`
	Word    string `json:"word"`
	Between *trend `json:"between,omitempty"`
	Words   string `json:"between_word,omitempty"`
}

func judgePieces(pieces []piece) *soakVerdict {
	v := &soakVerdict{Pieces: len(pieces)}
	names := make(map[string]bool)
	for i := range pieces {
		p := &pieces[i]
		v.Hours += p.Seconds / 3600
		v.Orders += p.Orders
		v.Lost += p.Lost
		v.Doubled += p.Doubled
		for name := range p.Samples {
			names[name] = true
		}
	}
	for _, name := range sortedNames(names) {
		_, short, _ := strings.Cut(name, " ")
		m := measureNamed(short)
		j := judgedMeasure{Name: name, Word: undecided}
		var ok bool
		if j.Within, ok = trendOf(within(pieces, name)); ok {
			j.Word = m.word(j.Within)
		}
		if t, ok := trendOf(between(pieces, name)); ok {
			j.Between, j.Words = &t, m.word(t)
		}
		v.Measures = append(v.Measures, j)
	}
	return v
}

// err returns an error if something grows or an order was lost. If a leak was planted,
// it returns an error if nothing grows.
func (v *soakVerdict) err(leaks bool) error {
	var growing []string
	for _, j := range v.Measures {
		if j.Word == grows || j.Words == grows {
			growing = append(growing, j.Name)
		}
	}
	switch {
	case v.Lost+v.Doubled > 0:
		return fmt.Errorf("lost %d, doubled %d", v.Lost, v.Doubled)
	case leaks && len(growing) == 0:
		return errors.New("a leak was planted, and nothing grows")
	case leaks:
		return nil
	case v.Orders == 0:
		return errors.New("no order was settled: this shows nothing")
	case len(growing) > 0:
		return fmt.Errorf("growing: %s", strings.Join(growing, ", "))
	default:
		return nil
	}
}

func (v *soakVerdict) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return program.PrintReport(out, v)
	}
	_, _ = fmt.Fprintf(out, "%d pieces, %.2f hours, %d orders, lost %d, doubled %d\n", v.Pieces, v.Hours, v.Orders, v.Lost, v.Doubled)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "measure\tlevel\tper hour\t95% from\tto\t\tbetween pieces, per hour\tfrom\tto\t\t")
	for _, j := range v.Measures {
		_, _ = fmt.Fprintf(t, "%s\t%.1f\t%+.2f\t%+.2f\t%+.2f\t%s\t", j.Name, j.Within.Level, j.Within.PerHour, j.Within.Low, j.Within.High, j.Word)
		if b := j.Between; b != nil {
			_, _ = fmt.Fprintf(t, "%+.2f\t%+.2f\t%+.2f\t%s\t", b.PerHour, b.Low, b.High, j.Words)
		}
		_, _ = fmt.Fprintln(t)
	}
	return t.Flush()
}
