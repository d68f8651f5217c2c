package alerts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
)

// The longest that alerts may take: the window of the rule with the longest,
// and what it asks for to last.
const (
	rests = 20 * time.Minute
	fires = 75 * time.Minute
	ends  = 75 * time.Minute
)

// TestEveryAlertOnLiveScrapes: workers are scraped through a calm, an outage
// and its end. Through the calm nothing fires, by the outage its alert does and
// none that it does not explain, and some time after it is over nothing does.
func TestEveryAlertOnLiveScrapes(t *testing.T) {
	for name := range loadAlerts(t, readFile(t)) {
		o, known := outages[name]
		require.True(t, known, "nothing makes %s fire", name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.run(t, name)
		})
	}
}

func (o outage) run(t *testing.T, name string) {
	r := newRig(t, o.settings)
	for _, calm := range []time.Duration{interval, rests - interval, rests} { // orders come at its beginning and at its end
		for r.prom.passed() < calm {
			r.prom.tick()
			require.Empty(t, r.prom.firing(), "in calm")
		}
		r.publish(20)
		r.settled()
	}

	o.breaks(r)
	began := r.prom.passed()
	fired := r.until(began+fires, func(firing []string) bool {
		require.Subset(t, append(o.also, name), firing)
		if o.lasts != nil {
			o.lasts(r)
		}
		return slices.Contains(firing, name)
	}, "%s does not fire", name)

	o.heals(r)
	healed := r.prom.passed()
	cleared := r.until(healed+ends, func(firing []string) bool { return len(firing) == 0 }, "%s is healed, and alerts still fire", name)
	audit, err := books.Audit(t.Context(), r.q)
	require.NoError(t, err)
	require.True(t, audit.Balanced(), "%+v", audit)
	t.Logf("fired %s after the fault, clear %s after its end", fired-began, cleared-healed)
}

// until lets time pass up to a moment, until the alerts that fire are as wanted.
func (r *rig) until(latest time.Duration, wanted func(firing []string) bool, message string, args ...any) time.Duration {
	r.t.Helper()
	for r.prom.passed() < latest {
		r.prom.tick()
		if wanted(r.prom.firing()) {
			return r.prom.passed()
		}
	}
	require.Failf(r.t, "the alerts that fire: "+strings.Join(r.prom.firing(), ", "), message, args...)
	return 0
}
