package service_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit"
	"orderpost/internal/testing/netcut"
)

// TestAWrongRuleCostsNoOrder: a rule calls every acceptance a refusal, until somebody
// corrects it in the file. No order ends as unknown, as rejected or doubled, and none that
// exists needs a person.
func TestAWrongRuleCostsNoOrder(t *testing.T) {
	for _, policy := range []order.Policy{order.Resubmit, order.Park} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, policy)
			r.ackWait = 30 * time.Second
			file := filepath.Join(t.TempDir(), "rules.yaml")
			write := func(verdict string) {
				require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "rules:\n  - when: status >= 200 && status < 300\n    verdict: %s\n", verdict), 0o600))
				long := time.Now().Add(-time.Hour)
				require.NoError(t, os.Chtimes(file, long, long))
			}
			write("rejected")
			l := r.start("a", &netcut.Dialer{}, nil, func(c *submit.Config) {
				c.Rules, c.Concurrency = file, 64
				c.RefusalQuiet, c.HoldRetry, c.GatePatience = time.Second, 50*time.Millisecond, 100*time.Millisecond
			})
			nos := make([]string, 40)
			for i := range nos {
				nos[i] = fmt.Sprintf("W-%03d", i)
			}
			r.publish(l.q, nos...)
			r.eventually(func() bool {
				s := l.submitter.Gate().State()
				return !s.Open && strings.Contains(fmt.Sprint(s.Reasons), "rule 1 (rules.yaml:2)")
			}, "the run holds the pool, and names the rule")
			if policy == order.Resubmit {
				r.eventually(func() bool {
					return strings.Contains(fmt.Sprint(l.submitter.Gate().State().Reasons), "a rule is wrong")
				}, "an order on trial meets its own first attempt")
			}
			require.False(t, l.submitter.Gate().State().Open)

			write("accepted")
			records := r.settled(l.q)
			require.Len(t, records, len(nos))
			kept := 0
			for no, rec := range records {
				require.Equal(t, "accepted", rec.Word, "%s: %+v", no, rec)
				if rec.Recalled.Rule > 0 && rec.Verdict == order.Accepted {
					require.Equal(t, 1, r.attempts(no), "%s was posted again", no)
					kept++
				}
			}
			require.Positive(t, kept, "some were settled by the answer that was kept")
		})
	}
}

// TestADuplicateAfterARulesRetryIsNobodyElsesOrder: under park a duplicate means somebody else's order
// only at the first attempt. A rule that called the first answer a retry may be wrong.
func TestADuplicateAfterARulesRetryIsNobodyElsesOrder(t *testing.T) {
	r := newRig(t, order.Park)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte("rules:\n  - when: status >= 200 && status < 300\n    verdict: retry\n"), 0o600))
	l := r.start("a", &netcut.Dialer{}, nil, func(c *submit.Config) { c.Rules, c.RetrySubmissionAttempts = file, 2 })
	r.publish(l.q, "W-1")
	require.Equal(t, "unknown", r.settled(l.q)["W-1"].Word)
}
