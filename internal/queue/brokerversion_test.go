package queue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/testing/netcut"
)

func TestJudgeBroker(t *testing.T) {
	for version, want := range map[string]struct{ refused, warned string }{
		"2.10.29":      {refused: "#8254"},
		"2.11.17":      {refused: "#8254"},
		"2.12.9":       {refused: "#8254"},
		"2.12.10":      {refused: "#8285"},
		"2.12.11-RC.1": {refused: "#8285"},
		"2.12.11":      {warned: "#8265 #8471 #8475 #8629"},
		"2.12.12":      {warned: "#8471 #8475 #8629"},
		"2.12.15":      {warned: "#8471 #8475 #8629"},
		"2.14.0":       {warned: "#8265 #8471 #8475 #8629"},
		"2.14.3":       {warned: "#8471 #8475 #8629"},
		"2.14.4":       {warned: "#8471 #8475 #8629"},
		"2.14.6":       {warned: "#8629"},
		"2.14.8":       {},
		"2.14.9":       {},
		"2.15.0":       {warned: "#8629"},
		"2.15.1-RC.1":  {warned: "#8629"},
		"2.15.1":       {},
		"2.15.2":       {},
		"2.16.0":       {},
		"3.0.0":        {},
		"dev":          {warned: "dev"},
		"":             {warned: `""`},
	} {
		t.Run(version, func(t *testing.T) {
			got := JudgeBroker(version, true)
			require.Equal(t, version, got.Version)
			require.Equal(t, want.refused != "", got.Refused != "", got.Refused)
			require.Contains(t, got.Refused, want.refused)
			words := strings.Fields(want.warned)
			require.Len(t, got.Warnings, len(words), "%q", got.Warnings)
			for i, word := range words {
				require.Contains(t, got.Warnings[i], word)
			}
		})
	}
	require.NotContains(t, strings.Join(JudgeBroker("2.12.11", false).Warnings, " "), "#8265", "one server has no replica that drifts")
}

// The server that is compiled in is one that programs work with, and warn of nothing.
func TestTheEmbeddedBrokerIsRefusedByNobody(t *testing.T) {
	require.Equal(t, BrokerVerdict{Version: server.VERSION}, JudgeBroker(server.VERSION, true))
}

// The table of operations.md says what the programs say.
func TestOperationsNamesEveryBrokerDefect(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "### Which nats-server?")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n### ")
	require.Contains(t, section, LeastBroker)
	for _, d := range BrokerDefects {
		line := ""
		for l := range strings.Lines(section) {
			if strings.HasPrefix(l, "| "+d.Issue) {
				line = l
			}
		}
		for _, part := range append([]string{d.Issue}, d.Fixed...) {
			require.Contains(t, line, part, "%s", d.What)
		}
	}
}

// posing opens a queue at the embedded server, which says another version.
func posing(t *testing.T, version string, log zerolog.Logger) (*netcut.Impostor, *Queue, error) {
	s := startBroker(t)
	as, err := netcut.NewImpostor(strings.TrimPrefix(s.URL, "nats://"), version)
	require.NoError(t, err)
	t.Cleanup(as.Close)
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Living = as.URL(), s.Token, "a", true, living
	q, err := Open(t.Context(), cfg, log, nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
	if err == nil {
		t.Cleanup(q.Close)
	}
	return as, q, err
}

func TestABrokerThatIsTooOldIsRefused(t *testing.T) {
	_, _, err := posing(t, "2.12.9", zerolog.Nop())
	require.ErrorContains(t, err, "nats-server 2.12.9 is older than "+LeastBroker)
}

func TestABrokerWithDefectsIsWarnedOf(t *testing.T) {
	var said strings.Builder
	_, q, err := posing(t, "2.14.6", zerolog.New(&said))
	require.NoError(t, err)
	require.Empty(t, q.Conn.Refused())
	require.Contains(t, said.String(), "#8629")
}

// What was posted before the broker was replaced by an older one is recorded; what was not
// is given to nobody, and is there once a newer one answers.
func TestAReconnectToABrokerThatIsTooOldTakesNothingNew(t *testing.T) {
	as, q, err := posing(t, "2.15.2", zerolog.Nop())
	require.NoError(t, err)
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"))
	posted := pull(t, q, 1)[0]
	become := func(version string) {
		t.Helper()
		as.Become(version)
		require.Eventually(t, func() bool { return q.Conn.nc.ConnectedServerVersion() == version }, time.Minute, time.Millisecond)
	}
	become("2.12.9")
	require.Contains(t, q.Conn.Refused(), "older than "+LeastBroker)
	require.ErrorContains(t, q.Pull(t.Context(), 1, time.Second, nil), "older than "+LeastBroker)
	require.False(t, posted.Lease().Valid(), "nothing is posted under a claim from before")
	r := report(order.Accepted, posted.History)
	_, err = q.Worker.Settle(t.Context(), posted, &r, order.Decide(&r, order.Facts{}))
	require.NoError(t, err)
	posted.Release()
	require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome())

	become("2.15.2")
	require.Empty(t, q.Conn.Refused())
	d := pull(t, q, 1)[0]
	require.Equal(t, "A-2", d.OrderNo())
	settleAs(t, q, d, report(order.Accepted, d.History))
	require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-2").Outcome())
}
