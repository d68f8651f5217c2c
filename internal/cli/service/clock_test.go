package service_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sandbox"
	"orderpost/internal/submit/gate"
)

func blocked(m *member, name string) bool {
	return slices.ContainsFunc(m.submitter.Gate().State().Blocks, func(b gate.BlockState) bool { return b.Name == name })
}

// TestAFleetWithAWrongClock: while the clocks differ by ten minutes, every worker stands
// under the block clock, and no key is suspected. Once they agree, the gates open within
// seconds and every order is accepted: there is no dead letter.
func TestAFleetWithAWrongClock(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"behind": 10 * time.Minute, "ahead": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, order.Resubmit)
			members := []*member{r.join("w1", 0, nil), r.join("w2", 0, nil)}
			r.publish(members[0].q, many("before", 10)...)
			r.settled(members[0].q)
			require.NoError(t, r.api.Update(func(s *sandbox.Settings) { s.Skew = skew }))
			r.publish(members[0].q, many("during", 60)...)
			r.eventually(func() bool {
				return blocked(members[0], gate.BlockClock) && blocked(members[1], gate.BlockClock)
			}, "both stand")
			require.False(t, blocked(members[0], gate.BlockCredentials) || blocked(members[1], gate.BlockCredentials))
			require.NoError(t, r.api.Update(func(s *sandbox.Settings) { s.Skew = 0 }))
			r.eventually(func() bool {
				return members[0].submitter.Gate().State().Open && members[1].submitter.Gate().State().Open
			}, "both go on")
			r.allAccepted(members[0], 70)
		})
	}
}

// allAccepted waits until nothing is pending. Then every order must be accepted, and have
// no letter.
func (r *rig) allAccepted(m *member, n int) map[string]*order.Record {
	r.t.Helper()
	records := r.settled(m.q)
	require.Len(r.t, records, n)
	for _, rec := range records {
		require.Equal(r.t, order.OutcomeAccepted, rec.Outcome(), "%s: %s %s", rec.OrderNo, rec.Reason, rec.Error)
	}
	counts, err := m.q.Census.Count(r.t.Context())
	require.NoError(r.t, err)
	require.Zero(r.t, counts.Letters)
	return records
}
