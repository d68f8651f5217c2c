package feed

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
)

// nats-server stores a message under a subject with the byte 127 and does not list it. A
// confirmed intent there goes to a worker nevertheless, and the audit knows of it.
func TestAnIntentThatTheBrokerDoesNotListIsMoved(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	in := waitingIntents("bulk", "march", 300)
	subjects := []string{"orders.waiting.bulk.\x7f", "orders.waiting.\x7f.march", "orders.waiting.at.20261120.0700.0\x7f.bulk.march", "orders.waiting.bulk.a\x7fb"}
	publishRaw(t, q, in, func(i int) string {
		if i%75 == 7 {
			return subjects[i/75]
		}
		return "orders.waiting.bulk.march"
	})
	n, err := q.Waiting.Total(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 300, n)
	a, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, 4, a.OffenderCount, "%+v", a)
	require.Contains(t, fmt.Sprint(a.Offenders), `"orders.waiting.bulk.\x7f", which the broker does not list`)

	run(t, newFeeder(t, q, "w1"))
	for i := 7; i < 300; i += 75 {
		require.Eventually(t, func() bool {
			m, err := q.Store().Intent(t.Context(), in[i].OrderNo)
			return err == nil && m != nil && m.IntentID() == in[i].ID
		}, time.Minute, 10*time.Millisecond, "%q was not moved", subjects[i/75])
	}
	require.Eventually(t, func() bool {
		left, _, _, err := q.Waiting.Unlisted(t.Context(), 1)
		return err == nil && len(left) == 0
	}, time.Minute, 10*time.Millisecond)
	a, err = audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.Zero(t, a.OffenderCount, "%+v", a)
}
