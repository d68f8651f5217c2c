package borders

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "orderpost/"
	proof  = "proof/" // a module of its own, which proves the product
)

// mayImport lists, for each package, which of our packages its code (not its
// tests) may import. A package that is missing here fails the test: somebody
// must decide where it belongs.
var mayImport = map[string][]string{
	"internal/order":             {},
	"internal/borders":           {},
	"internal/contract":          {},
	"docs":                       {}, // the documents themselves
	"docs/schema":                {}, // the schemas themselves
	"internal/e2e":               {},
	"internal/e2e/fleet":         {},
	"internal/e2e/child":         {"internal/program", "internal/program/worker"}, // for tests alone
	"examples/producers/go":      {"client"},                                      // as a producer of somebody else's would be
	"internal/contract/producer": {},                                              // for tests alone: it speaks NATS as docs/producers.md says
	"internal/durable":           {},
	"internal/endpoint":          {},
	"internal/duration":          {},
	"internal/livefile":          {"internal/textfile"},
	"internal/textfile":          {},
	"internal/orderschema":       {"internal/order", "internal/livefile"},
	"internal/patient":           {}, // for tests alone
	"internal/queue/embedded":    {"internal/durable"},
	"internal/authority":         {},
	"internal/sandbox":           {"internal/authority", "internal/duration"},
	"internal/sign":              {"internal/order"},
	"internal/submit":            {"internal/endpoint", "internal/secret", "internal/order", "internal/submit/gate", "internal/submit/http1", "internal/submit/answer", "internal/orderschema", "internal/textfile"},
	"internal/submit/gate":       {"internal/order"},
	"internal/submit/http1":      {"internal/endpoint", "internal/submit/answer", "internal/textfile"},
	"internal/submit/answer":     {"internal/duration", "internal/order", "internal/livefile", "internal/textfile"},
	"internal/ops":               {"internal/order"},
	"internal/tracing":           {"internal/tracing/span"},
	"internal/tracing/span":      {},
	"internal/settle":            {"internal/order"},
	"internal/queue":             {"internal/duration", "internal/endpoint", "internal/order", "internal/settle"},
	"internal/fleet":             {"internal/order", "internal/settle", "internal/queue", "internal/submit/gate"},
	"internal/importer":          {"internal/order", "internal/settle", "internal/queue", "internal/books", "internal/fleet", "internal/xlsx", "internal/orderschema", "internal/textfile"},
	"internal/xlsx":              {},
	"proof/oracle":               {"internal/order", "internal/settle"},
	"proof/simulation":           {"internal/order", "internal/settle", "proof/oracle"},
	"internal/waiting":           {"internal/order", "internal/settle", "internal/queue", "internal/books", "internal/fleet"},
	"internal/worker": {"internal/endpoint", "internal/order", "internal/sign", "internal/submit", "internal/submit/gate", "internal/ops",
		"internal/settle", "internal/queue", "internal/queue/embedded", "internal/books", "internal/fleet", "internal/waiting", "internal/door", "internal/gateway", "internal/notify", "internal/tracing/span", "internal/orderschema", "internal/approvals", "internal/journal"},
	"internal/gateway":   {"internal/endpoint", "docs", "internal/livefile", "internal/order", "internal/queue", "internal/journal", "internal/door", "internal/ops", "internal/tracing/span", "internal/orderschema", "internal/textfile"},
	"internal/imports":   {"internal/order", "internal/queue", "internal/door", "internal/books", "internal/journal", "internal/approvals", "internal/importer", "internal/jobs", "internal/uploads"},
	"internal/books":     {"internal/duration", "internal/order", "internal/settle", "internal/queue", "internal/fleet"},
	"internal/approvals": {"internal/order", "internal/settle", "internal/queue", "internal/books", "internal/fleet", "internal/journal", "internal/letters"},
	"internal/journal":   {"internal/order", "internal/settle", "internal/queue"},
	"internal/uploads":   {"internal/durable", "internal/order", "internal/settle", "internal/queue", "internal/books", "internal/journal", "internal/importer", "internal/jobs", "internal/xlsx", "internal/orderschema", "internal/approvals"},
	"internal/jobs":      {},
	"internal/folder":    {},
	"internal/secret":    {},
	"internal/door":      {"internal/order", "internal/settle", "internal/queue", "internal/books", "internal/journal", "internal/orderschema"},
	"internal/notify":    {"internal/endpoint", "internal/secret", "internal/order", "internal/settle", "internal/queue", "internal/books", "internal/fleet", "internal/ops", "internal/submit/answer", "internal/textfile"},
	"client":             {"internal/door", "internal/queue", "internal/orderschema"},
	"internal/letters":   {"internal/order", "internal/settle", "internal/queue", "internal/books", "internal/journal"},
	"internal/console":   {"internal/duration", "internal/endpoint", "internal/order", "internal/settle", "internal/queue", "internal/books", "internal/fleet", "internal/importer", "internal/jobs", "internal/journal", "internal/letters", "internal/livefile", "internal/uploads", "internal/xlsx", "internal/orderschema", "internal/approvals", "internal/textfile"},

	// for tests and proof/ alone (TestWhatTestsShareIsForTests)
	"internal/testing/bitrot":        {},
	"internal/testing/fleettest":     {"internal/order", "internal/settle", "internal/queue", "internal/fleet"},
	"internal/testing/netcut":        {},
	"internal/testing/queuetest":     {"internal/order", "internal/settle", "internal/queue", "internal/queue/embedded"},
	"internal/testing/smalldisk":     {},
	"internal/testing/storecontract": {"internal/order", "internal/settle"},
	"internal/testing/xlsxtest":      {},
}

// programs that prove, by their packages.
var proving = []string{"proof/bench", "proof/bench/contender", "proof/bench/syncs", "proof/chaos", "proof/gateway", "proof/overlay", "proof/powercut", "proof/simulate"}

// anything marks the packages that join others: the programs.
func anything(pkg string) bool {
	return strings.HasPrefix(pkg, "internal/program") || isMain(pkg) || slices.Contains(proving, pkg)
}

func isMain(pkg string) bool { return strings.HasPrefix(strings.TrimPrefix(pkg, proof), "cmd/") }

// onlyIn lists, for foreign packages, the only places that may import them.
var onlyIn = map[string][]string{
	"github.com/nats-io/": {"internal/queue", "internal/queue/embedded", "internal/contract/producer",
		"internal/testing/bitrot", // it asks a server what its own store holds
		"internal/testing/queuetest",
		"proof/bench",           // a cluster whose leaders are the same in each trial
		"proof/bench/contender", // the worker that others write
		"proof/powercut",        // it reads what a broker kept
		"proof/chaos"},          // it breaks brokers, and publishes what our own code would not
	"github.com/synadia-io/": {"internal/queue"},
	"net/http": {"internal/submit", "internal/submit/http1", "internal/submit/answer", "internal/sandbox", "internal/ops", "internal/console", "internal/gateway", "internal/notify",
		"internal/tracing", // it names the proxy of the exporter
		"proof/bench", "proof/bench/contender",
		"proof/powercut", // it traces requests, and counts those that arrive
		"proof/chaos"},   // it reads the workers' metrics
	"github.com/spf13/cobra":  append([]string{"internal/program"}, proving...),
	"github.com/expr-lang/":   {"internal/submit/answer"},
	"github.com/prometheus/":  {"internal/ops", "internal/worker"},
	"github.com/caarlos0/env": {"internal/program"},
	// Spans are made by the worker, the door and the producer; the SDK is for one place.
	"go.opentelemetry.io/":                     {"internal/tracing", "internal/tracing/span", "internal/worker", "internal/gateway", "internal/program/gateway"},
	"go.opentelemetry.io/otel/sdk/":            {"internal/tracing"},
	"go.opentelemetry.io/otel/exporters/otlp/": {"internal/tracing"},
	"github.com/valyala/fasthttp":              {"internal/submit/http1", "proof/bench/contender"},
	"golang.org/x/net/":                        {"internal/submit/http1"}, // proxies
}

// neverLinked lists what a program must not contain, even indirectly.
var neverLinked = map[string][]string{
	"cmd/worker":     {"internal/sandbox", "internal/importer"},
	"cmd/enqueue":    {"internal/sandbox"},
	"cmd/orderpost":  {"internal/sandbox", "internal/program/sandbox", "internal/program/demo", "internal/program/reconcile"}, // it is what the image ships
	"cmd/deadletter": {"internal/sandbox", "internal/importer", "internal/tracing"},
	"cmd/sandbox":    {"internal/submit", "internal/tracing"},
}

type pkg struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module) }

// list asks the go command for every package of the product and of the proof.
func list(t *testing.T) []pkg {
	t.Helper()
	pkgs := append(listModule(t, "../.."), listModule(t, "../../"+proof)...)
	require.Greater(t, len(pkgs), 10, "go list did not see the modules")
	return pkgs
}

func listModule(t *testing.T, dir string) (pkgs []pkg) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = filepath.FromSlash(dir)
	out, err := cmd.Output()
	require.NoError(t, err)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			require.NotEmpty(t, pkgs, "go list saw nothing in %s", dir)
			return pkgs
		} else {
			require.NoError(t, err)
		}
		pkgs = append(pkgs, p)
	}
}

// TestTheProductKnowsNothingOfItsProof: nothing of the product's module, tests included,
// imports the proof. In the workspace it would compile, and in a build of the product
// alone (a release, the image) it would not.
func TestTheProductKnowsNothingOfItsProof(t *testing.T) {
	for _, p := range list(t) {
		if strings.HasPrefix(p.name(), proof) {
			continue
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			require.False(t, strings.HasPrefix(imp, module+proof), "%s must not import %s", p.name(), imp)
		}
	}
}

func TestOurImports(t *testing.T) {
	for _, p := range list(t) {
		if anything(p.name()) {
			continue
		}
		allowed, known := mayImport[p.name()]
		require.True(t, known, "%s: decide in mayImport what it may import", p.name())
		for _, imp := range p.Imports {
			if name, ours := strings.CutPrefix(imp, module); ours {
				require.Contains(t, allowed, name, "%s must not import %s", p.name(), name)
			}
		}
	}
}

// TestWhatTestsShareIsForTests: helpers of tests are in no program, whoever may import anything else.
func TestWhatTestsShareIsForTests(t *testing.T) {
	helper := func(name string) bool {
		return strings.HasPrefix(name, "internal/testing/") || name == "internal/patient" || name == "internal/contract/producer"
	}
	helpers := 0
	for _, p := range list(t) {
		if helper(p.name()) {
			helpers++
			continue
		}
		if strings.HasPrefix(p.name(), proof) {
			continue
		}
		for _, imp := range p.Imports {
			require.False(t, helper(strings.TrimPrefix(imp, module)), "%s must import %s in tests only", p.name(), imp)
		}
	}
	require.Equal(t, 9, helpers)
}

func TestForeignImports(t *testing.T) {
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			for prefix, places := range onlyIn {
				if imp != prefix && !(strings.HasSuffix(prefix, "/") || prefix == "github.com/caarlos0/env") || !strings.HasPrefix(imp, prefix) {
					continue
				}
				in := slices.ContainsFunc(places, func(place string) bool {
					return p.name() == place || place == "internal/program" && strings.HasPrefix(p.name(), place)
				})
				require.True(t, in, "%s imports %s; that belongs into %v", p.name(), imp, places)
			}
		}
	}
}

func TestLinked(t *testing.T) {
	for _, p := range list(t) {
		for _, never := range neverLinked[p.name()] {
			require.NotContains(t, p.Deps, module+never, "%s must not contain %s", p.name(), never)
		}
	}
}

func TestMainsAreThin(t *testing.T) {
	mains := 0
	for _, p := range list(t) {
		if !isMain(p.name()) {
			continue
		}
		require.Equal(t, []string{"main.go"}, p.GoFiles, "%s: a program's body belongs into internal/program", p.name())
		f, err := os.Open(filepath.Join(p.Dir, "main.go"))
		require.NoError(t, err)
		lines := 0
		for s := bufio.NewScanner(f); s.Scan(); {
			lines++
		}
		require.NoError(t, f.Close())
		require.Less(t, lines, 60, p.name())
		mains++
	}
	require.GreaterOrEqual(t, mains, 4)
}

// TestNothingReadsTheOutside: the project stands on its own.
func TestNothingReadsTheOutside(t *testing.T) {
	for _, p := range list(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.Contains(file, "borders_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NotContains(t, string(text), "../shared", file)
		}
	}
}
