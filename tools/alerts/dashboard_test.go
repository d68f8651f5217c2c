package alerts

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/config"
	_ "github.com/prometheus/prometheus/discovery/dns" // how prometheus.yml finds the workers
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"
)

// TestDashboardOnLiveScrapes: every query of the dashboard is answered with
// something by scrapes of a worker that has settled orders and is held while
// more of them wait.
func TestDashboardOnLiveScrapes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.prom.tick()
	r.publish(20)
	r.settled()
	r.command("hold", "--reason", "maintenance")
	r.above(0, "orderpost_gate_block", "block", "hold")
	r.publish(5)
	r.above(0, "orderpost_pending_orders")
	r.publishWaiting(1000) // more than the feeder puts into the queue
	r.above(0, "orderpost_lane_orders", "lane", "bulk")
	for range 8 {
		require.Equal(t, http.StatusCreated, r.bring())
		r.prom.tick()
	}

	text, err := os.ReadFile("../../deployments/grafana/dashboard.json")
	require.NoError(t, err)
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &d))
	variables := strings.NewReplacer("$namespace", "shop", "$job", ".*", "$__rate_interval", "1m")
	query := rules.EngineQueryFunc(newEngine(t), r.prom.store)
	asked := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			expr := variables.Replace(target.Expr)
			require.NotContains(t, expr, "$", "%s: a variable that this test does not know", p.Title)
			got, err := query(t.Context(), expr, r.prom.now)
			require.NoError(t, err, "%s: %s", p.Title, expr)
			require.NotEmpty(t, got, "%s shows nothing: %s", p.Title, expr)
			asked++
		}
	}
	require.Positive(t, asked)
	r.command("resume")
	r.settled()
}

// TestConfig reads prometheus.yml as Prometheus does at its start, with the
// rules that it names.
func TestConfig(t *testing.T) {
	c, err := config.LoadFile(filepath.Join(folder, "prometheus.yml"), false, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(folder, "alerts.yaml")}, c.RuleFiles)
	require.Len(t, c.ScrapeConfigs, 1)
	require.Less(t, time.Duration(c.GlobalConfig.ScrapeInterval), time.Minute, "the rules' windows suppose several scrapes each")
}
