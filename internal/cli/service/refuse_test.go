package service_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
)

// tally counts the outcomes that a pool reports.
type tally struct {
	mu  sync.Mutex
	got map[string]int
}

func (c *tally) Settled(rec *order.Record, _ string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got[rec.Word]++
}
func (c *tally) Returned(order.Action) {}
func (c *tally) Redelivered(bool)      {}

func (c *tally) count(word string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got[word]
}

// TestAConflictIsNotCountedAsAccepted: the order exists with another body; the
// intent that is refused for it has not become an order.
func TestAConflictIsNotCountedAsAccepted(t *testing.T) {
	t.Parallel()
	r := newRig(t, order.Resubmit)
	counts := &tally{got: map[string]int{}}
	r.orders = counts
	l := r.start("a", &netcut.Dialer{}, nil)
	r.publish(l.q, "A-1")
	r.eventually(func() bool { return counts.count("accepted") == 1 }, "accepted")
	r.settled(l.q)
	_, err := l.q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"2"}`), ID: "other"})
	require.NoError(t, err)
	r.eventually(func() bool { return counts.count("rejected") == 1 }, "the conflict counts as rejected")
	require.Equal(t, "accepted", r.settled(l.q)["A-1"].Word, "the order's own result stays")
	require.Equal(t, 1, counts.count("accepted"))
}
