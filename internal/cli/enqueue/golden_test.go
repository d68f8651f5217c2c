package enqueue

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/testing/fleettest"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

var update = flag.Bool("update", false, "write the golden files anew")

const examples = "../../../examples/import/"

// enqueued is one run of the program.
type enqueued struct {
	code        int
	out, errOut string
}

// transcript is what a user sees of it.
func (e enqueued) transcript() string {
	var b strings.Builder
	b.WriteString(e.out)
	if e.errOut != "" {
		b.WriteString("--- stderr\n" + e.errOut)
	}
	b.WriteString("--- exit " + string(rune('0'+e.code)) + "\n")
	return strings.ReplaceAll(b.String(), examples, "")
}

func run(t *testing.T, environ map[string]string, stdin string, args ...string) enqueued {
	t.Helper()
	var out, errOut bytes.Buffer
	code := Run(t.Context(), args, environ, strings.NewReader(stdin), &out, &errOut)
	return enqueued{code, out.String(), errOut.String()}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./internal/cli/enqueue -run %s -update writes it anew", t.Name())
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"help": {"--help"}, "help-watch": {"watch", "--help"}, "help-status": {"status", "--help"},
		"help-results": {"results", "--help"}, "help-cancel": {"cancel", "--help"},
	} {
		got := run(t, nil, "", args...)
		require.Equal(t, cli.ExitDone, got.code)
		golden(t, name, got.out)
	}
}

// TestExamples checks every example without a broker: what a dry run shows.
func TestExamples(t *testing.T) {
	for name, args := range map[string][]string{
		"plain": {"plain.csv"}, "gzip": {"plain.csv.gz"}, "excel": {"excel-windows-1252.csv", "--encoding", "windows-1252"}, "excel-asked": {"excel-windows-1252.csv"}, "typed-nested": {"typed-nested.csv"},
		"unnumbered": {"unnumbered.csv", "--mapping", examples + "unnumbered.mapping.yaml"}, "ndjson": {"orders.ndjson"}, "trailer": {"trailer.csv", "--mapping", examples + "trailer.mapping.yaml"},
		"workbook": {"orders.xlsx"}, "workbook-sheet": {"orders.xlsx", "--sheet", "June"},
		"bad": {"bad.csv"}, "bad-skipped": {"bad.csv", "--skip-invalid"}, "bad-max-errors": {"bad.csv", "--max-errors", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, nil, "", append([]string{examples + args[0], "--dry-run"}, args[1:]...)...)
			golden(t, "example-"+name, got.transcript())
		})
	}
}

func TestWrongUsage(t *testing.T) {
	got := run(t, map[string]string{"ORDERPOST_REPLICAS": "many"}, "", "a.csv", "b.csv", "--batch", "x", "--results", "out.csv", "--dry-run",
		"--delimiter", "comma", "--encoding", "latin", "--format", "xml", "--type", "qty", "--type", "a=float", "--empty", "skip",
		"--order-no-template", "X", "--deadline", "tomorrow", "--rate", "-1", "--max-errors", "0")
	golden(t, "wrong-usage", got.transcript())
	require.Equal(t, cli.ExitUsage, got.code)
	require.Equal(t, cli.ExitUsage, run(t, nil, "").code)
	require.Equal(t, cli.ExitUsage, run(t, nil, "", "a.csv", "--no-such-flag").code)
	require.Equal(t, cli.ExitUsage, run(t, nil, "", "a.csv", "--batch", "a:b").code)
	require.Equal(t, cli.ExitFailed, run(t, nil, "", "missing.csv").code)
}

// TestARateThatIsNone is refused: NaN would be no limit.
func TestARateThatIsNone(t *testing.T) {
	for _, rate := range []string{"NaN", "Inf", "-1"} {
		got := run(t, nil, "order_no,timeout\nA,30\n", "-", "--rate", rate, "--dry-run")
		require.Equal(t, cli.ExitUsage, got.code, rate)
		require.Contains(t, got.errOut, "--rate: ", rate)
		require.Contains(t, got.errOut, "is not a number of orders per second", rate)
	}
}

// TestADeadlineThatCannotBeMet is refused: every order would expire.
func TestADeadlineThatCannotBeMet(t *testing.T) {
	in := func(d time.Duration) string { return time.Now().UTC().Add(d).Format(time.RFC3339) }
	enqueue := func(flags ...string) enqueued {
		return run(t, nil, "order_no,timeout\nA-1,30\n", append([]string{"-", "--dry-run"}, flags...)...)
	}
	for want, flags := range map[string][]string{
		"ago, so every order would expire; give a later time, or leave it out": {"--deadline", in(-time.Hour)},
		"before which nothing is sent, so every order would expire":            {"--deadline", in(time.Hour), "--not-before", in(2 * time.Hour)},
	} {
		got := enqueue(flags...)
		require.Equal(t, cli.ExitUsage, got.code, got.transcript())
		require.Contains(t, got.errOut, "--deadline: ")
		require.Contains(t, got.errOut, want)
	}
	got := enqueue("--deadline", in(2*time.Hour), "--not-before", in(time.Hour))
	require.Equal(t, cli.ExitDone, got.code, got.transcript())
}

func TestEmptyFileIsTold(t *testing.T) {
	got := run(t, nil, "order_no,timeout\n\n", "-", "--source", "march.csv")
	require.Equal(t, cli.ExitPartial, got.code)
	require.Contains(t, got.errOut, "march.csv has no rows")
}

// brokerSettings runs a broker in a data folder, as a worker would.
func brokerSettings(t *testing.T) map[string]string {
	t.Helper()
	q, settings := startStreams(t)
	q.Close()
	return settings
}

// startStreams runs a broker in a data folder. It returns a worker's connection, which
// made the streams, and the settings of other programs.
func startStreams(t *testing.T) (*queue.Queue, map[string]string) {
	t.Helper()
	s := queuetest.Start(t)
	return queuetest.Open(t, s, "worker"), map[string]string{"ORDERPOST_NATS_URL": strings.Replace(s.URL, "://", "://"+s.Token+"@", 1), "USER": "anna"}
}

// besideWorker calls do beside a worker that is held: it posts nothing, and settles what
// people cancel.
func besideWorker(t *testing.T, q *queue.Queue, do func()) {
	t.Helper()
	defer fleettest.Held(t, q, imports.RetireCancellations)()
	do()
}

// TestSession is an import from its beginning to its cancellation, as its user
// sees it.
func TestSession(t *testing.T) {
	q, settings := startStreams(t)
	dir := t.TempDir()
	var b strings.Builder
	step := func(stdin string, args ...string) enqueued {
		got := run(t, settings, stdin, args...)
		b.WriteString("$ enqueue " + strings.Join(args, " ") + "\n" + got.transcript())
		return got
	}
	step("", examples+"plain.csv", "--batch", "march", "--direct")
	step("", examples+"plain.csv", "--batch", "march", "--direct")
	step("order_no,timeout,sku,quantity\nEX-0001,30,00012,7\nEX-0003,30,00012,1\n", "-", "--source", "april.csv", "--batch", "april", "--direct")
	step("other", "-", "--format", "ndjson", "--batch", "march")
	step("order_no,timeout\nX,30\n", "-", "--batch", "march")
	step("", "status", "april")
	step("", "results", "march", "-o", filepath.Join(dir, "out.csv"))
	step("", "cancel", "march", "--dry-run")
	step("", "cancel", "march")
	b.WriteString("$ worker\n")
	besideWorker(t, q, func() {
		require.Eventually(t, func() bool { // the order of april is left
			c, err := q.Census.Count(t.Context())
			return err == nil && c.Pending == 1
		}, time.Minute, 5*time.Millisecond)
		step("", "cancel", "march")
		step("", "cancel", "EX-0003", "--dry-run", "--json")
		step("", "cancel", "EX-0003")
	})
	step("", "results", "march", "-o", "-")
	step("", examples+"plain.csv", "--batch", "march", "--direct")
	step("", "watch", "march", "--json")
	step("", "status", "may")
	host, err := os.Hostname()
	require.NoError(t, err)
	got := strings.NewReplacer(dir, "DIR", "anna@"+host, "anna@HOST").Replace(b.String())
	require.NotContains(t, got, "ORDERPOST_NATS_URL")
	golden(t, "session", scrub(got))
}

func TestRejectsAreNotOverwritten(t *testing.T) {
	settings := brokerSettings(t)
	file := filepath.Join(t.TempDir(), "bad.csv")
	content, err := os.ReadFile(examples + "bad.csv")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, content, 0o600))
	got := run(t, settings, "", file, "--skip-invalid")
	require.Equal(t, cli.ExitPartial, got.code, got.errOut)
	require.Contains(t, got.out, "1 enqueued")
	rejects := file + ".rejects.csv"
	require.Contains(t, got.out, "the bad rows are in "+rejects)
	again := run(t, settings, "", file, "--skip-invalid")
	require.Contains(t, again.out, "pending already", "the same rejects are no obstacle")

	text, err := os.ReadFile(rejects)
	require.NoError(t, err)
	corrected := strings.NewReplacer("soon", "60", "1.2E+12", "EX-0403", "EX-0401", "EX-0404", "EX-0405,30,#N/A,", "EX-0405,30,00016,").Replace(string(text))
	require.NoError(t, os.WriteFile(rejects, []byte(corrected), 0o600))
	refused := run(t, settings, "", file, "--skip-invalid")
	require.Equal(t, cli.ExitFailed, refused.code)
	require.Contains(t, refused.errOut, "if it holds corrections")
	back := run(t, settings, "", rejects)
	require.Equal(t, cli.ExitDone, back.code, back.errOut)
	require.Contains(t, back.out, "4 enqueued")
}

// TestInterrupted: Ctrl-C while waiting leaves the orders, and says how to
// come back.
func TestInterrupted(t *testing.T) {
	settings := brokerSettings(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out bytes.Buffer
	errOut := &stopWhen{text: "no worker is running", stop: stop}
	code := Run(ctx, []string{examples + "plain.csv", "--wait", "--batch", "march"}, settings, strings.NewReader(""), &out, errOut)
	require.Equal(t, cli.ExitInterrupted, code)
	require.Contains(t, errOut.String(), "0 of 2 orders settled; nothing is sent: no worker is running")
	for _, way := range []string{"orderpost enqueue watch march", "orderpost enqueue status march", "orderpost enqueue results march", "orderpost order ORDER_NO"} {
		require.Contains(t, errOut.String(), way)
	}
}

// stopWhen ends a context when a text was written.
type stopWhen struct {
	bytes.Buffer
	text string
	stop func()
}

func (s *stopWhen) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if strings.Contains(s.String(), s.text) {
		s.stop()
	}
	return n, err
}

var (
	someTime = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z`)
	someTerm = regexp.MustCompile(`after [0-9.]+(ms|s)`)
	somePath = regexp.MustCompile(`[^ "]*/examples/import/`)
)

// scrub takes out of a transcript what differs from run to run.
func scrub(text string) string {
	text = someTime.ReplaceAllString(text, "TIME")
	text = someTerm.ReplaceAllString(text, "after SOME TIME")
	return somePath.ReplaceAllString(text, "EXAMPLES/")
}
