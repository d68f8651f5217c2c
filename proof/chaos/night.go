package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/sandbox"
	"orderpost/internal/settle"
)

const nightText = `night plants each fault of a bad night by itself in a fleet of two workers and a nats-server, all with their
default settings and with orders coming in, and asks as an operator would until the program names the cause. It
prints the sentence and the seconds from the fault to the sentence. docs/runbook.md lists the sentences.

Exit codes: 0 every cause was named in time; 1 one was not, or something failed; 2 wrong usage; 130 interrupted.`

// noRules is a rules file whose only rule matches no answer of the sandbox.
const noRules = "rules:\n  - when: 'status == 418'\n    verdict: rejected\n"

// wrongRule calls the sandbox's acceptances refusals.
const wrongRule = "rules:\n  - when: 'status == 200 || status == 201'\n    verdict: rejected\n"

// nightFault is one fault of the night, with the words that name it.
type nightFault struct {
	name  string // in the table
	plant func(context.Context, *rig) error
	ask   []string // what the operator types
	// names finds the sentence that names the true cause in what the program prints.
	names *regexp.Regexp
}

// nightOptions are the flags of night.
type nightOptions struct {
	within time.Duration
	only   []string
}

func newNight(stdout, stderr io.Writer) *cobra.Command {
	o := &nightOptions{}
	cmd := &cobra.Command{
		Use: "night", Short: "Plant each fault of a bad night: what does the operator read, and when?", Long: nightText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), stdout, stderr) },
	}
	f := cmd.Flags()
	f.DurationVar(&o.within, "within", 5*time.Second, "how soon each cause must be named")
	f.StringSliceVar(&o.only, "only", nil, "only these faults, by the beginnings of their names")
	return cmd
}

// nightFaults lists the faults of the table in docs/runbook.md.
func nightFaults() []nightFault {
	api := func(change func(*sandbox.Settings)) func(context.Context, *rig) error {
		return func(_ context.Context, r *rig) error { return r.api.Update(change) }
	}
	fleet := []string{"fleet"}
	return []nightFault{
		{"the API answers 503 to everything", api(func(s *sandbox.Settings) { s.Faults.Unavailable = 1 }), fleet,
			regexp.MustCompile(`(the API is down|requests to the API keep failing): .*503.*`)},
		{"the API key is revoked", func(_ context.Context, r *rig) error { r.api.RevokeKey(apiKey); return nil }, fleet,
			regexp.MustCompile(`API key .*denied.*`)},
		{"the API takes 10 s for each answer", api(func(s *sandbox.Settings) { s.Faults.Slow, s.Faults.SlowDelay = 1, 10*time.Second }), fleet,
			regexp.MustCompile(`the API is slow.*`)},
		{"one order always fails", plantPoison, []string{"pending", "--retrying"},
			regexp.MustCompile(`.*POISON-1.*503.*`)},
		{"the broker is killed", func(_ context.Context, r *rig) error { r.end(r.nodes[0], syscall.SIGKILL); return nil }, fleet,
			regexp.MustCompile(`.*broker.*`)},
		{"a worker is frozen", func(_ context.Context, r *rig) error { r.workers[1].freeze(); return nil }, fleet,
			regexp.MustCompile(`.*worker-2.*not seen.*`)},
		{"the broker's disk is full", func(ctx context.Context, r *rig) error {
			_, err := fillDisk(ctx, r, rand.New(rand.NewPCG(1, 4)))
			return err
		}, fleet, regexp.MustCompile(`.*the broker stores nothing.*`)},
		{"the API's clock is ten minutes ahead", api(func(s *sandbox.Settings) { s.Skew = 10 * time.Minute }), fleet,
			regexp.MustCompile(`this machine's clock is .* behind .*`)},
		{"the API's clock is ten minutes behind", api(func(s *sandbox.Settings) { s.Skew = -10 * time.Minute }), fleet,
			regexp.MustCompile(`this machine's clock is .* ahead .*`)},
		{"somebody else holds the fleet", func(ctx context.Context, r *rig) error {
			return r.once(ctx, "orderpost", "hold", "--by", "anna", "--note", "month end closing")
		}, fleet, regexp.MustCompile(`.*held by anna.*month end closing.*`)},
		{"a wrong rule calls acceptances refusals", func(_ context.Context, r *rig) error {
			return os.WriteFile(r.rulesFile(), []byte(wrongRule), 0o600)
		}, fleet, regexp.MustCompile(`(a rule is wrong: )?rule 1 .*`)},
	}
}

// plantPoison adds an order that the API answers with 503 for ever.
func plantPoison(ctx context.Context, r *rig) error {
	r.poison.with("POISON-1")
	q, err := r.open(ctx, "chaos night")
	if err != nil {
		return err
	}
	defer q.Close()
	for _, result := range q.PublishMany(ctx, []settle.Intent{{OrderNo: "POISON-1", ID: "poison", Body: []byte(`{"order_no":"POISON-1","timeout":30}`)}}) {
		err = errors.Join(err, result.Err)
	}
	return err
}

// sighting is what the operator read, and when.
type sighting struct {
	fault    nightFault
	sentence string // "" = nothing named the cause
	after    time.Duration
}

func (o *nightOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	chosen := slices.DeleteFunc(nightFaults(), func(f nightFault) bool {
		return len(o.only) > 0 && !slices.ContainsFunc(o.only, func(name string) bool { return strings.HasPrefix(f.name, name) })
	})
	if len(chosen) == 0 {
		return &cli.ExitError{Code: cli.ExitUsage, Err: errors.New("--only: no fault begins with that; without it the table names all")}
	}
	var late []error
	_, _ = fmt.Fprintf(stdout, "`go run ./proof/cmd/chaos night`, %s, %d cores:\n\n| fault | you type | and read | after |\n|---|---|---|--:|\n", time.Now().Format(time.DateOnly), runtime.NumCPU())
	for _, f := range chosen {
		s, err := o.plant(ctx, f, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if s.sentence == "" || s.after > o.within {
			late = append(late, fmt.Errorf("%s: not named within %s", f.name, o.within))
		}
		_, _ = fmt.Fprintf(stdout, "| %s | `orderpost %s` | %s | %.1f s |\n", f.name, strings.Join(f.ask, " "), strings.ReplaceAll(s.sentence, "|", "\\|"), s.after.Seconds())
	}
	return errors.Join(late...)
}

// nightPatience is how long the operator asks for one cause.
const nightPatience = 90 * time.Second

// plant starts a fleet, lets it work, plants the fault, and asks until the cause is named.
func (o *nightOptions) plant(ctx context.Context, f nightFault, stderr io.Writer) (s sighting, err error) {
	opts := options{usual: true, calm: true, policy: resubmitPolicy, broker: externalBroker, workers: 2, rate: 20, orders: 1 << 30, timeout: nightPatience, seed: 1}
	if opts.chosen, err = chosen([]string{"small-disk"}, externalBroker, true); err != nil {
		return s, err
	}
	r := &rig{o: &opts, out: stderr, intents: newIntents()}
	defer r.cleanUp()
	ctx, cancel := context.WithTimeoutCause(ctx, 3*nightPatience, errors.New("the fleet did not come up, or the fault could not be planted"))
	defer cancel()
	if err := r.prepare(ctx); err != nil {
		return s, errors.Join(err, r.lastWords())
	}
	enough := make(chan struct{})
	produced := make(chan struct{})
	producing, stop := context.WithCancel(ctx)
	go func() { _ = r.produce(producing, enough); close(produced) }() // an order that was not confirmed is no matter here
	defer func() { stop(); <-produced }()
	for r.api.Ledger().OrdersCreated < 2*int64(opts.rate) { // the fleet works
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return s, errors.Join(err, r.lastWords())
		}
	}
	r.say("planting: %s", f.name)
	if err := f.plant(ctx, r); err != nil {
		return s, err
	}
	return r.askUntilNamed(ctx, f, time.Now())
}

// askUntilNamed runs the operator's command again and again until it names the cause.
func (r *rig) askUntilNamed(ctx context.Context, f nightFault, since time.Time) (sighting, error) {
	s := sighting{fault: f}
	for last := ""; ; {
		cmd, err := r.tool(ctx, "orderpost", f.ask...)
		if err != nil {
			return s, err
		}
		out := &lineFinder{wanted: f.names}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil && ctx.Err() != nil {
			return s, context.Cause(ctx)
		} else if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return s, err
		}
		if s.sentence = out.line(); s.sentence != "" {
			s.after = out.at.Sub(since)
			return s, nil
		}
		last = out.text()
		if s.after = time.Since(since); s.after > nightPatience {
			r.say("nothing names it; the last words are:\n%s", last)
			return s, nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return s, err
		}
	}
}

// continued finds where a sentence goes on in the next line of a terminal.
var continued = regexp.MustCompile(`\n +`)

// beginning returns the beginning of a sentence.
func beginning(text string) string {
	const most = 200
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + " …"
	}
	return text
}

// lineFinder keeps what a program prints and notes when the first line came that an
// expression matches. It is safe for concurrent use.
type lineFinder struct {
	wanted *regexp.Regexp

	mu    sync.Mutex
	all   bytes.Buffer
	found string
	at    time.Time
}

// Write implements io.Writer.
func (l *lineFinder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	if l.found == "" {
		if m := l.wanted.Find(continued.ReplaceAll(l.all.Bytes(), []byte(" "))); m != nil {
			l.found, l.at = beginning(strings.Join(strings.Fields(string(m)), " ")), time.Now()
		}
	}
	return len(p), nil
}

func (l *lineFinder) line() string { l.mu.Lock(); defer l.mu.Unlock(); return l.found }
func (l *lineFinder) text() string { l.mu.Lock(); defer l.mu.Unlock(); return l.all.String() }
