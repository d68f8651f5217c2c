package alerts

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"
)

// interval is the time between two scrapes, and between two evaluations, of
// the clock that the tests advance.
const interval = 15 * time.Second

// prometheus is Prometheus's parser, storage and rule groups behind a clock of
// the test's own: what it scrapes is what workers serve at that moment, and is
// stored as if interval had passed since the scrape before. So the minutes of
// the rules pass in milliseconds, and nothing else is made up. The clock shows
// the real time when the calm before an outage is over.
type prometheus struct {
	t       *testing.T
	store   *teststorage.TestStorage
	group   *rules.Group
	began   time.Time
	now     time.Time
	client  *http.Client
	targets map[string]string           // instance to the URL of its /metrics
	series  map[seriesKey]labels.Labels // every one that was ever told
	seen    map[string]map[string]bool  // by instance, the lines of its last scrape
}

// seriesKey is a series as a target tells it.
type seriesKey struct{ instance, line string }

func newPrometheus(t *testing.T) *prometheus {
	t.Helper()
	began := time.Now().Add(-rests)
	p := &prometheus{t: t, store: teststorage.New(t), began: began, now: began,
		client:  &http.Client{Transport: &http.Transport{DisableCompression: true}},
		targets: make(map[string]string), series: make(map[seriesKey]labels.Labels), seen: make(map[string]map[string]bool)}
	t.Cleanup(p.client.CloseIdleConnections)
	m := rules.NewManager(&rules.ManagerOptions{
		Context: t.Context(), Logger: slog.New(slog.DiscardHandler), Parser: parser.NewParser(parser.Options{}),
		QueryFunc: rules.EngineQueryFunc(newEngine(t), p.store), Appendable: p.store, Queryable: p.store,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := m.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, filepath.Join(folder, "alerts.yaml"))
	require.Empty(t, errs)
	require.Len(t, groups, 1)
	for _, g := range groups {
		p.group = g
	}
	return p
}

// tick scrapes every target and evaluates the rules, an interval later.
func (p *prometheus) tick() {
	p.t.Helper()
	p.now = p.now.Add(interval)
	app := p.store.Appender(p.t.Context())
	for instance := range p.seen {
		if _, is := p.targets[instance]; !is {
			p.keep(app, instance, nil)
			delete(p.seen, instance)
		}
	}
	for instance, url := range p.targets {
		p.keep(app, instance, p.scrape(instance, url))
	}
	require.NoError(p.t, app.Commit())
	p.group.Eval(p.t.Context(), p.now)
	for _, r := range p.group.Rules() {
		require.NoError(p.t, r.LastError(), r.Name())
	}
}

// sample is one line of a scrape.
type sample struct {
	line   string // without its value
	series labels.Labels
	value  float64
}

// keep stores what a target told, and marks what it tells no longer as gone,
// as Prometheus does.
func (p *prometheus) keep(app storage.Appender, instance string, samples []sample) {
	p.t.Helper()
	now := p.now.UnixMilli()
	told := make(map[string]bool, len(samples))
	for _, s := range samples {
		_, err := app.Append(0, s.series, now, s.value)
		require.NoError(p.t, err)
		told[s.line] = true
	}
	for line := range p.seen[instance] {
		if !told[line] {
			_, err := app.Append(0, p.series[seriesKey{instance, line}], now, math.Float64frombits(value.StaleNaN))
			require.NoError(p.t, err)
		}
	}
	p.seen[instance] = told
}

// scrape asks a target, and gives nothing where it does not answer.
func (p *prometheus) scrape(instance, url string) []sample {
	p.t.Helper()
	resp, err := p.client.Get(url)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil
	}
	lines, err := textparse.New(text, resp.Header.Get("Content-Type"), nil, textparse.ParserOptions{})
	require.NoError(p.t, err)
	var out []sample
	for {
		entry, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(p.t, err)
		if entry != textparse.EntrySeries {
			continue
		}
		line, _, v := lines.Series()
		key := seriesKey{instance, string(line)}
		if _, known := p.series[key]; !known {
			var own labels.Labels
			lines.Labels(&own)
			p.series[key] = labels.NewBuilder(own).Set("namespace", "shop").Set("job", "orderpost").Set("instance", instance).Labels()
		}
		out = append(out, sample{line: key.line, series: p.series[key], value: v})
	}
}

// firing are the names of the alerts that fire, sorted.
func (p *prometheus) firing() (names []string) {
	for _, r := range p.group.AlertingRules() {
		if r.State() == rules.StateFiring {
			names = append(names, r.Name())
		}
	}
	slices.Sort(names)
	return names
}

// passed is the time on the clock.
func (p *prometheus) passed() time.Duration { return p.now.Sub(p.began) }

// reads gives a metric's series that have the labels, over all targets, as a
// scrape would see them now. Nothing is stored.
func (p *prometheus) reads(metric string, matching ...string) (out []float64) {
	p.t.Helper()
	for instance, url := range p.targets {
		for _, s := range p.scrape(instance, url) {
			is := s.series.Get(model.MetricNameLabel) == metric
			for i := 0; i < len(matching); i += 2 {
				is = is && s.series.Get(matching[i]) == matching[i+1]
			}
			if is {
				out = append(out, s.value)
			}
		}
	}
	return out
}

// sum adds a metric's series up.
func (p *prometheus) sum(metric string, matching ...string) (total float64) {
	p.t.Helper()
	for _, v := range p.reads(metric, matching...) {
		total += v
	}
	return total
}
