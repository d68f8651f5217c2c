package borders

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "orderpost/"
	proof  = "proof/" // a module of its own, which proves the product
)

// plan is the house, from the ground up. Packages import what stands on lines above their own in this list, never
// their own line: neighbours do not know each other. One that is missing here fails the test: somebody must decide
// where it belongs.
var plan = [][]string{
	// around it: knows no orders
	{"docs", "docs/schema", "internal/platform/durable", "internal/platform/duration", "internal/platform/endpoint", "internal/platform/jobs",
		"internal/platform/secret", "internal/platform/textfile", "internal/ops/tracing/span", "internal/sandbox/authority"},
	{"internal/platform/livefile", "internal/ops/tracing", "internal/sandbox"},
	// the heart: every order passes here
	{"internal/order"},
	{"internal/order/schema", "internal/sign", "internal/submit/gate", "internal/submit/answer"},
	{"internal/submit/http1"},
	{"internal/submit"},
	{"internal/settle"},
	{"internal/queue/embedded", "internal/ops"},
	{"internal/queue"},
	{"internal/fleet"},
	{"internal/fleet/imports"},
	{"internal/worker/feed"},
	{"internal/worker"},
	// what people and programs ask of it
	{"internal/audit/journal", "internal/status", "internal/audit"},
	{"internal/deadletter"},
	{"internal/approval"},
	// it learns how an API behaves, before a worker posts to it
	{"internal/submit/certify"},
	// files
	{"internal/files/xlsx", "internal/files/folder"},
	{"internal/files/importer"},
	{"internal/files/uploads"},
	// ways in and out: none knows another
	{"internal/gateway/door"},
	{"client", "internal/gateway/fileimport", "internal/gateway", "internal/console", "internal/notify"},
	{"examples/producers/go", "examples/http"},
}

// alone are packages that know no more of ours than this, whatever stands below them.
var alone = map[string][]string{
	"internal/order":       {},
	"internal/sign":        {"internal/order"},
	"internal/settle":      {"internal/order"},
	"internal/submit/gate": {"internal/order"},
	"internal/sandbox":     {"internal/sandbox/authority", "internal/platform/duration"}, // an independent reading of the contract
	"proof/oracle":         {"internal/order", "internal/settle"},
	"proof/simulation":     {"internal/order", "internal/settle", "proof/oracle"},
}

// never are imports that the plan alone would allow.
var never = map[string][]string{
	"internal/queue": {"internal/submit", "internal/submit/gate", "internal/submit/answer", "internal/submit/http1", "internal/sign"},
}

// programs that prove, by their packages.
var proving = []string{"proof/bench", "proof/bench/contender", "proof/bench/syncs", "proof/chaos", "proof/gateway", "proof/overlay", "proof/powercut", "proof/simulate"}

// anything marks the packages that join others: the programs.
func anything(pkg string) bool {
	return strings.HasPrefix(pkg, "internal/cli") || isMain(pkg) || slices.Contains(proving, pkg)
}

func isMain(pkg string) bool { return strings.HasPrefix(strings.TrimPrefix(pkg, proof), "cmd/") }

// onlyIn lists, for foreign packages, the only places that may import them.
var onlyIn = map[string][]string{
	"github.com/nats-io/": {"internal/queue", "internal/queue/embedded", "internal/testing/contract/producer",
		"internal/testing/bitrot", // it asks a server what its own store holds
		"internal/testing/queuetest",
		"proof/bench",           // a cluster whose leaders are the same in each trial
		"proof/bench/contender", // the worker that others write
		"proof/powercut",        // it reads what a broker kept
		"proof/chaos"},          // it breaks brokers, and publishes what our own code would not
	"github.com/synadia-io/": {"internal/queue"},
	"net/http": {"internal/submit", "internal/submit/http1", "internal/submit/answer", "internal/submit/certify", "internal/sandbox", "internal/ops", "internal/console", "internal/gateway", "internal/notify",
		"internal/ops/tracing", // it names the proxy of the exporter
		"proof/bench", "proof/bench/contender",
		"proof/powercut", // it traces requests, and counts those that arrive
		"proof/chaos",    // it reads the workers' metrics
		"examples/http"},
	"filippo.io/age":          {"internal/cli/backup"},
	"github.com/spf13/cobra":  append([]string{"internal/cli"}, proving...),
	"github.com/expr-lang/":   {"internal/submit/answer"},
	"github.com/prometheus/":  {"internal/ops", "internal/cli/service"},
	"github.com/caarlos0/env": {"internal/cli"},
	// Spans are made by the worker, the door and the producer; the SDK is for one place.
	"go.opentelemetry.io/":                     {"internal/ops/tracing", "internal/ops/tracing/span", "internal/worker", "internal/cli/service", "internal/gateway", "internal/cli/gateway"},
	"go.opentelemetry.io/otel/sdk/":            {"internal/ops/tracing"},
	"go.opentelemetry.io/otel/exporters/otlp/": {"internal/ops/tracing"},
	"github.com/valyala/fasthttp":              {"internal/submit/http1", "proof/bench/contender"},
	"golang.org/x/net/":                        {"internal/submit/http1"}, // proxies
}

// neverLinked lists what a program must not contain, even indirectly.
var neverLinked = map[string][]string{
	"cmd/worker":     {"internal/sandbox", "internal/files/importer"},
	"cmd/enqueue":    {"internal/sandbox"},
	"cmd/orderpost":  {"internal/sandbox", "internal/cli/sandbox", "internal/cli/demo", "internal/cli/balance"}, // it is what the image ships
	"cmd/deadletter": {"internal/sandbox", "internal/files/importer", "internal/ops/tracing"},
	"cmd/sandbox":    {"internal/submit", "internal/ops/tracing"},
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

// list is every package of the product and of the proof.
func list(t *testing.T) []pkg {
	t.Helper()
	pkgs, err := listed()
	require.NoError(t, err)
	require.Greater(t, len(pkgs), 10, "go list did not see the modules")
	return pkgs
}

// listed asks the go command once for all tests.
var listed = sync.OnceValues(func() (pkgs []pkg, err error) {
	for _, dir := range []string{"../../..", "../../../" + proof} {
		cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports,Deps", "./...")
		cmd.Dir = filepath.FromSlash(dir)
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list in %s: %w", dir, err)
		}
		before := len(pkgs)
		for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
			var p pkg
			if err := dec.Decode(&p); err != nil {
				return nil, err
			}
			pkgs = append(pkgs, p)
		}
		if len(pkgs) == before {
			return nil, fmt.Errorf("go list saw nothing in %s", dir)
		}
	}
	return pkgs, nil
})

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
	line := make(map[string]int)
	for i, names := range plan {
		for _, name := range names {
			line[name] = i + 1
		}
	}
	for _, p := range list(t) {
		name := p.name()
		allowed, isAlone := alone[name]
		if !isAlone && (anything(name) || strings.HasPrefix(name, "internal/testing/")) {
			continue
		}
		require.True(t, isAlone || line[name] > 0, "%s: decide in the plan where it belongs", name)
		for _, imp := range p.Imports {
			other, ours := strings.CutPrefix(imp, module)
			switch {
			case !ours:
			case isAlone:
				require.Contains(t, allowed, other, "%s must not import %s", name, other)
			default:
				require.True(t, line[other] > 0 && line[other] < line[name] && !slices.Contains(never[name], other), "%s must not import %s", name, other)
			}
		}
	}
}

// TestWhatTestsShareIsForTests: helpers of tests are in no program, whoever may import anything else.
func TestWhatTestsShareIsForTests(t *testing.T) {
	helper := func(name string) bool {
		return strings.HasPrefix(name, "internal/testing/")
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
	require.Equal(t, 14, helpers)
}

func TestForeignImports(t *testing.T) {
	for _, p := range list(t) {
		for _, imp := range p.Imports {
			for prefix, places := range onlyIn {
				if imp != prefix && !(strings.HasSuffix(prefix, "/") || prefix == "github.com/caarlos0/env") || !strings.HasPrefix(imp, prefix) {
					continue
				}
				in := slices.ContainsFunc(places, func(place string) bool {
					return p.name() == place || place == "internal/cli" && strings.HasPrefix(p.name(), place)
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
		require.Equal(t, []string{"main.go"}, p.GoFiles, "%s: a program's body belongs into internal/cli", p.name())
		text, err := os.ReadFile(filepath.Join(p.Dir, "main.go"))
		require.NoError(t, err)
		require.Less(t, strings.Count(string(text), "\n"), 60, p.name())
		require.Contains(t, string(text), "cli.Main(", "%s: or it would not notice that its output cannot be written", p.name())
		mains++
	}
	require.Equal(t, 9, mains)
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
			require.NotContains(t, string(text), "../../shared", file)
		}
	}
}
