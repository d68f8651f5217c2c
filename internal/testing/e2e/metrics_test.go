package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/gateway"
	"orderpost/internal/ops"
	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
)

const (
	alertsPath    = "../../../deployments/prometheus/alerts.yaml"
	dashboardPath = "../../../deployments/grafana/dashboard.json"
	runbookPath   = "../../../docs/runbook.md"
)

type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readAlerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile(alertsPath)
	require.NoError(t, err)
	var f struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.UnmarshalWithOptions(text, &f, yaml.Strict()))
	require.Len(t, f.Groups, 1)
	require.NotEmpty(t, f.Groups[0].Rules)
	return f.Groups[0].Rules
}

// series is what a worker's registry holds: the values of each label, by the
// names under which Prometheus stores a metric.
type series map[string]map[string][]string

func workersSeries(t *testing.T) series {
	t.Helper()
	reg := ops.NewRegistry()
	stages := []string{gate.StageTrial.String(), gate.StageProbe.String(), gate.StageShut.String()}
	full := ops.Snapshot{Clock: &ops.Clock{}, Sizes: &ops.Sizes{OldestDue: time.Now(), Lanes: []ops.Lane{{Name: "bulk", Oldest: time.Now()}}}, Parts: []ops.Part{{Name: "results", Precious: true}}} // or these would have no series
	ops.New(reg, ops.Options{Blocks: gate.BlockNames(), Stages: stages, State: func() ops.Snapshot { return full }})
	ops.RegisterNotify(reg, func() ops.Notify {
		return ops.Notify{Sends: true, Oldest: time.Now(), Attempts: map[string]uint64{"2xx": 1}}
	})
	ops.NewGateway(reg, gateway.MetricsOptions())
	families, err := reg.Gather()
	require.NoError(t, err)
	out := make(series)
	for _, f := range families {
		names := []string{f.GetName()}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			names = []string{f.GetName() + "_bucket", f.GetName() + "_sum", f.GetName() + "_count"}
		}
		for _, name := range names {
			out[name] = labelValues(f)
		}
	}
	require.Contains(t, out, "orderpost_orders_total")
	require.Contains(t, out["orderpost_orders_total"]["outcome"], order.OutcomeUnknown.String())
	return out
}

func labelValues(f *dto.MetricFamily) map[string][]string {
	out := make(map[string][]string)
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			out[l.GetName()] = append(out[l.GetName()], l.GetValue())
		}
	}
	return out
}

var (
	selector = regexp.MustCompile(`\b((?:orderpost|process|go)_[a-z0-9_]+)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|without)\s*\(([^)]*)\)`)
)

// fromScrape are the labels that are not the worker's own but the scrape's.
var fromScrape = []string{"namespace", "job", "instance", "le"}

// requireKnown: every metric of an expression exists, with the labels and
// values that it asks for.
func (s series) requireKnown(t *testing.T, where, expr string) {
	t.Helper()
	found := selector.FindAllStringSubmatch(expr, -1)
	require.NotEmpty(t, found, "%s asks for no metric: %s", where, expr)
	labels := slices.Clone(fromScrape)
	for _, m := range found {
		name, inside := m[1], m[2]
		require.Contains(t, s, name, "%s: no worker has the metric %s", where, name)
		labels = slices.AppendSeq(labels, maps.Keys(s[name]))
		for _, c := range matcher.FindAllStringSubmatch(inside, -1) {
			label, op, value := c[1], c[2], c[3]
			if slices.Contains(fromScrape, label) {
				continue
			}
			for _, v := range strings.Split(value, "|") {
				require.Contains(t, s[name][label], v, "%s: %s is never %s%s%q", where, name, label, op, v)
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, label := range strings.Split(g[1], ",") {
			require.Contains(t, labels, strings.TrimSpace(label), "%s: groups by a label that its metrics have not: %s", where, expr)
		}
	}
}

func TestAlertsAskForWhatExists(t *testing.T) {
	s := workersSeries(t)
	for _, a := range readAlerts(t) {
		s.requireKnown(t, a.Alert, a.Expr)
		require.Contains(t, []string{"critical", "warning"}, a.Labels["severity"], a.Alert)
		require.NotEmpty(t, a.Annotations["summary"], a.Alert)
		require.NotEmpty(t, a.For, a.Alert)
	}
}

func TestDashboardAsksForWhatExists(t *testing.T) {
	s := workersSeries(t)
	text, err := os.ReadFile(dashboardPath)
	require.NoError(t, err)
	var d struct {
		Panels []struct {
			Title   string `json:"title"`
			Type    string `json:"type"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	require.NoError(t, json.Unmarshal(text, &d))
	shown := make(map[string]bool)
	for _, p := range d.Panels {
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, target := range p.Targets {
			s.requireKnown(t, p.Title, target.Expr)
			for _, m := range selector.FindAllStringSubmatch(target.Expr, -1) {
				shown[m[1]] = true
			}
		}
	}
	for name := range s {
		base := strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count") + "_bucket"
		if strings.HasPrefix(name, "orderpost_") && !shown[base] {
			require.Contains(t, shown, name, "the dashboard does not show %s", name)
		}
	}
}

// TestRunbook: each alert has its section, each section its alert, and all of
// them say what it means and what to type.
func TestRunbook(t *testing.T) {
	text, err := os.ReadFile(runbookPath)
	require.NoError(t, err)
	sections := make(map[string]string)
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		sections[title] = body
	}
	alerts := readAlerts(t)
	for _, a := range alerts {
		body, found := sections[a.Alert]
		require.True(t, found, "the runbook has no section for %s", a.Alert)
		require.Equal(t, "https://docs.example.com/orderpost/runbook.md#"+strings.ToLower(a.Alert), a.Annotations["runbook_url"])
		meaning, _, found := strings.Cut(body, "\n```sh\n")
		require.True(t, found, a.Alert)
		require.NotEmpty(t, strings.TrimSpace(meaning), a.Alert)
	}
	require.Len(t, sections, len(alerts), "the runbook has a section without an alert")
	s := workersSeries(t)
	for _, m := range selector.FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, s, m[1], "the runbook names a metric that no worker has")
	}
}
