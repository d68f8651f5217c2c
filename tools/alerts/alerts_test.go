package alerts

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"
)

const folder = "../../deployments/prometheus"

// file is what is used of promtool's format for unit tests of rules.
type file struct {
	RuleFiles          []string `yaml:"rule_files"`
	EvaluationInterval duration `yaml:"evaluation_interval"`
	Tests              []group  `yaml:"tests"`
}

type group struct {
	Name        string   `yaml:"name"`
	Interval    duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	AlertRuleTest []check `yaml:"alert_rule_test"`
}

type check struct {
	EvalTime  duration   `yaml:"eval_time"`
	Alertname string     `yaml:"alertname"`
	ExpAlerts []expected `yaml:"exp_alerts"`
}

type expected struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

// duration reads 90s, 5m, 1h.
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}

func readFile(t *testing.T) file {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "alerts_test.yaml"))
	require.NoError(t, err)
	var f file
	require.NoError(t, yaml.UnmarshalWithOptions(text, &f, yaml.Strict()))
	require.NotEmpty(t, f.Tests)
	require.Positive(t, f.EvaluationInterval)
	return f
}

// TestAlerts runs the file of tests.
func TestAlerts(t *testing.T) {
	f := readFile(t)
	for _, g := range f.Tests {
		t.Run(g.Name, func(t *testing.T) { g.run(t, f) })
	}
}

func (g group) run(t *testing.T, f file) {
	var load strings.Builder
	fmt.Fprintf(&load, "load %s\n", time.Duration(g.Interval))
	for _, s := range g.InputSeries {
		fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
	}
	store := promqltest.LoadedStorage(t, load.String())
	t.Cleanup(func() { _ = store.Close() })
	alerts := loadAlerts(t, f)
	query := rules.EngineQueryFunc(newEngine(t), store)
	for now := time.Duration(0); ; now += time.Duration(f.EvaluationInterval) {
		ts := time.Unix(0, 0).Add(now)
		for _, a := range alerts {
			_, err := a.Eval(t.Context(), 0, ts, query, &url.URL{}, 0)
			require.NoError(t, err, a.Name())
		}
		left := 0
		for _, c := range g.AlertRuleTest {
			switch at := time.Duration(c.EvalTime); {
			case at == now:
				require.Contains(t, alerts, c.Alertname)
				require.ElementsMatch(t, c.ExpAlerts, firing(alerts[c.Alertname]), "%s at %s", c.Alertname, now)
			case at > now:
				left++
			}
		}
		if left == 0 {
			return
		}
	}
}

func newEngine(t *testing.T) *promql.Engine {
	return promqltest.NewTestEngine(t, false, 5*time.Minute, 100_000)
}

func loadAlerts(t *testing.T, f file) map[string]*rules.AlertingRule {
	t.Helper()
	paths := make([]string, len(f.RuleFiles))
	for i, name := range f.RuleFiles {
		paths[i] = filepath.Join(folder, name)
	}
	m := rules.NewManager(&rules.ManagerOptions{Context: t.Context(), Logger: slog.New(slog.DiscardHandler), Parser: parser.NewParser(parser.Options{})})
	groups, errs := m.LoadGroups(time.Duration(f.EvaluationInterval), labels.EmptyLabels(), "", nil, false, paths...)
	require.Empty(t, errs)
	alerts := make(map[string]*rules.AlertingRule)
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			require.NotContains(t, alerts, r.Name(), "two rules of one name")
			alerts[r.Name()] = r
		}
	}
	return alerts
}

// firing is what promtool would see.
func firing(r *rules.AlertingRule) []expected {
	var out []expected
	for _, a := range r.ActiveAlerts() {
		if a.State != rules.StateFiring {
			continue
		}
		l := a.Labels.Map()
		delete(l, "alertname")
		out = append(out, expected{Labels: l, Annotations: a.Annotations.Map()})
	}
	return out
}

// TestEveryAlertIsTested: each one has a moment at which it fires, and one at
// which it does not.
func TestEveryAlertIsTested(t *testing.T) {
	f := readFile(t)
	fires, rests := make(map[string]bool), make(map[string]bool)
	for _, g := range f.Tests {
		for _, c := range g.AlertRuleTest {
			if len(c.ExpAlerts) > 0 {
				fires[c.Alertname] = true
			} else {
				rests[c.Alertname] = true
			}
		}
	}
	for name := range loadAlerts(t, f) {
		require.True(t, fires[name], "no test sees %s fire", name)
		require.True(t, rests[name], "no test sees %s rest", name)
	}
}
