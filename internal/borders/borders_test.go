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

const module = "orderpost/"

// mayImport lists, for each package, which of our packages its code (not its
// tests) may import. A package that is missing here fails the test: somebody
// must decide where it belongs.
var mayImport = map[string][]string{
	"internal/order":           {},
	"internal/borders":         {},
	"internal/contract":        {},
	"docs/schema":              {}, // the schemas themselves
	"internal/e2e":             {},
	"internal/e2e/fleet":       {},
	"internal/e2e/child":       {"internal/program", "internal/program/worker"}, // for tests alone
	"examples/producers/go":    {},                                              // as a producer of somebody else's would be
	"internal/durable":         {},
	"internal/patient":         {}, // for tests alone
	"internal/queue/embedded":  {"internal/durable"},
	"internal/queue/netcut":    {},
	"internal/queue/smalldisk": {},
	"internal/sandbox":         {},
	"internal/sign":            {"internal/order"},
	"internal/submit":          {"internal/order", "internal/submit/gate", "internal/submit/answer", "internal/planted"},
	"internal/submit/gate":     {"internal/order"},
	"internal/submit/answer":   {"internal/order"},
	"internal/ops":             {"internal/order"},
	"internal/tracing":         {},
	"internal/settle":          {"internal/order", "internal/planted"},
	"internal/queue":           {"internal/order", "internal/settle"},
	"internal/fleet":           {"internal/order", "internal/settle", "internal/queue", "internal/submit/gate"},
	"internal/importer":        {"internal/order", "internal/settle", "internal/queue", "internal/books", "internal/fleet"},
	"internal/oracle":          {"internal/order", "internal/settle"},
	"internal/planted":         {},
	"internal/simulation":      {"internal/order", "internal/settle", "internal/oracle"},
	"internal/waiting":         {"internal/order", "internal/settle", "internal/queue", "internal/books", "internal/fleet"},
	"internal/worker": {"internal/order", "internal/sign", "internal/submit", "internal/submit/gate", "internal/ops",
		"internal/settle", "internal/queue", "internal/queue/embedded", "internal/books", "internal/fleet", "internal/waiting", "internal/planted"},
	"internal/books":   {"internal/order", "internal/settle", "internal/queue"},
	"internal/journal": {"internal/order", "internal/settle", "internal/queue"},
	"internal/uploads": {"internal/durable", "internal/order", "internal/settle", "internal/queue", "internal/books", "internal/importer"},
	"internal/acts":    {"internal/order", "internal/settle", "internal/queue", "internal/books", "internal/journal"},
	"internal/console": {"internal/order", "internal/settle", "internal/queue", "internal/books", "internal/fleet", "internal/importer", "internal/acts", "internal/journal", "internal/uploads"},
}

// anything marks the packages that join others: the programs.
func anything(pkg string) bool {
	return strings.HasPrefix(pkg, "internal/program") || strings.HasPrefix(pkg, "cmd/")
}

// onlyIn lists, for foreign packages, the only places that may import them.
var onlyIn = map[string][]string{
	"github.com/nats-io/": {"internal/queue", "internal/queue/embedded", "examples/producers/go",
		"internal/program/bench",           // a cluster whose leaders are the same in each trial
		"internal/program/bench/contender", // the worker that others write
		"internal/program/powercut",        // it reads what a broker kept
		"internal/program/chaos"},          // it breaks brokers, and publishes what our own code would not
	"github.com/synadia-io/": {"internal/queue"},
	"net/http": {"internal/submit", "internal/submit/answer", "internal/sandbox", "internal/ops", "internal/console",
		"internal/program/bench", "internal/program/bench/contender",
		"internal/program/powercut", // it traces requests, and counts those that arrive
		"internal/program/chaos"},   // it reads the workers' metrics
	"github.com/spf13/cobra":  {"internal/program"},
	"github.com/expr-lang/":   {"internal/submit/answer"},
	"github.com/prometheus/":  {"internal/ops", "internal/worker"},
	"github.com/caarlos0/env": {"internal/program"},
	// Spans are made by the worker and the producer; the SDK is for one place.
	"go.opentelemetry.io/":                     {"internal/tracing", "internal/worker"},
	"go.opentelemetry.io/otel/sdk/":            {"internal/tracing"},
	"go.opentelemetry.io/otel/exporters/otlp/": {"internal/tracing"},
	"github.com/valyala/fasthttp":              {"internal/submit", "internal/program/bench/contender"},
	"golang.org/x/net/":                        {"internal/submit"}, // proxies
}

// neverLinked lists what a program must not contain, even indirectly.
var neverLinked = map[string][]string{
	"cmd/worker":  {"internal/sandbox", "internal/importer"},
	"cmd/enqueue": {"internal/sandbox"},
	"cmd/orderpost": {"internal/sandbox", "internal/simulation", "internal/oracle", "internal/program/sandbox", "internal/program/demo", "internal/program/bench",
		"internal/program/chaos", "internal/program/simulate", "internal/program/reconcile"}, // it is what the image ships
	"cmd/deadletter": {"internal/sandbox", "internal/importer", "internal/tracing"},
	"cmd/sandbox":    {"internal/submit", "internal/tracing"},
}

type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module) }

// list asks the go command for every package of the module.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports,Deps", "./...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	require.NoError(t, err)
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		pkgs = append(pkgs, p)
	}
	require.Greater(t, len(pkgs), 10, "go list did not see the module")
	return pkgs
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
		if !strings.HasPrefix(p.name(), "cmd/") {
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
