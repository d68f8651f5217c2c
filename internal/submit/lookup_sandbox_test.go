package submit_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit"
)

const sandboxLookups = `lookup:
  request: GET /v1/order/{order_no}
  first: 1ms
  absent_for: 21m
  timestamp_window: 5m
  rules:
    - {when: status == 200 && body.data.order_no == order_no && body.data.status == "created", verdict: exists}
    - {when: status == 200 && body.data.order_no == order_no && body.data.status == "declined", verdict: rejected}
    - {when: status == 404 && body.code == 300404, verdict: absent}
`

// An order whose answer is lost is found at the sandbox, declined by it, or absent, over real connections.
func TestLookupsAtTheSandbox(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte(sandboxLookups), 0o600))
	b := newBench(t, benchConfig{change: func(c *submit.Config) { c.OnUnsure, c.Rules = order.Park, rules }})
	for name, c := range map[string]struct {
		settings map[string]string
		want     order.Outcome
	}{
		"A/1 ä": {map[string]string{"fault-drop-after": "1"}, order.OutcomeAccepted},
		"A-2":   {map[string]string{"fault-drop-before": "1"}, order.OutcomeExhausted},
	} {
		b.set(map[string]string{"fault-drop-after": "0", "fault-drop-before": "0"})
		b.set(c.settings)
		s := order.Submission{Order: newOrder(t, name)}
		for range 3 { // the attempt, and at most two lookups
			rep := *b.Submit(context.Background(), &s)
			got := order.Decide(&rep, order.Facts{Policy: order.Park})
			if got.Outcome != order.OutcomeNone {
				require.Equal(t, c.want, got.Outcome, name)
				require.False(t, got.Unsure)
				break
			}
			require.Equal(t, order.Settlement{Action: order.ActDelay, Unsure: true}, got, name)
			s.History, s.AbsentFor = rep.History, 21*time.Minute
			s.History.LastAttemptAt = s.History.LastAttemptAt.Add(-time.Second)
		}
		require.Equal(t, 1, attempts(b, name), "it was posted once")
	}
}

// A worker does not start with a quarantine in which a request may still be on its way.
func TestAShortQuarantineIsRefused(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte(sandboxLookups), 0o600))
	cfg := submit.DefaultConfig("http://127.0.0.1:1")
	cfg.Rules, cfg.RequestTimeout = rules, 11*time.Minute
	_, err := submit.New(cfg, submit.Deps{})
	require.ErrorContains(t, err, "absent_for is 21m0s, and must be longer than 21m0s")
}

func attempts(b *bench, no string) int {
	e, _ := b.api.Lookup(no)
	return e.Attempts
}
