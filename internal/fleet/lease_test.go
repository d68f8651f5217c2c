package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const testLeaseKey = "test.leader"

// testValue is the value of a lease.
type testValue struct {
	Leader
	Done int `json:"done"`
}

// candidate is a process that may lead.
type candidate struct {
	*Lease
	t     *testing.T
	value testValue
	ahead time.Duration // of its clock
}

func newCandidate(t *testing.T, n *node) *candidate {
	c := &candidate{t: t}
	c.Lease = NewLease(n.Queue.Bucket(), testLeaseKey, n.name, &c.value, func(_ context.Context, stored []byte) error {
		if stored == nil {
			return nil
		}
		var now testValue
		err := json.Unmarshal(stored, &now)
		c.value.Done = now.Done
		return err
	})
	c.Clock = func() time.Time { return time.Now().Add(c.ahead) }
	return c
}

func (c *candidate) leads() bool {
	c.t.Helper()
	leads, err := c.Keep(c.t.Context())
	require.NoError(c.t, err)
	return leads
}

// stored returns what the bucket keeps.
func (c *candidate) stored() (v testValue) {
	c.t.Helper()
	e, err := c.bucket.Get(c.t.Context(), testLeaseKey)
	require.NoError(c.t, err)
	require.NoError(c.t, json.Unmarshal(e.Value, &v))
	return v
}

// Two processes want the lease: the second one gets it when it saw no renewal for one term, with
// what the first one had stored. The first one then drops it at its next renewal.
func TestTheLeaseIsOnes(t *testing.T) {
	s := startBroker(t)
	a, b := newCandidate(t, open(t, s, "w1")), newCandidate(t, open(t, s, "w2"))
	require.True(t, a.leads())
	require.False(t, b.leads())
	b.ahead += LeaseTerm + time.Second
	a.value.Done = 7
	a.Changed()
	require.True(t, a.leads())
	require.False(t, b.leads(), "a renewal begins the term anew")
	b.ahead += LeaseTerm + time.Second
	require.True(t, b.leads())
	require.Equal(t, 7, b.value.Done)
	a.Changed()
	require.False(t, a.leads())
	require.False(t, a.Held())
	require.Equal(t, []any{b.Owner, "w2"}, []any{b.stored().Owner, b.stored().Process})
	b.value.Done = 8
	require.NoError(t, b.Leave())
	require.True(t, a.leads(), "a process that leaves gives it up at once")
	require.Equal(t, 8, a.value.Done, "the last word of a process that leaves is kept")
}

// A process whose write was stored without a confirmation still has the lease, and may leave.
func TestAnUnconfirmedRenewalIsOurs(t *testing.T) {
	c := newCandidate(t, open(t, startBroker(t), "w1"))
	require.True(t, c.leads())
	for _, next := range []func(){
		func() { c.Changed(); require.True(t, c.leads()) },
		func() { require.NoError(t, c.Leave()) },
	} {
		c.value.Beat++
		_, err := c.bucket.Swap(t.Context(), testLeaseKey, &c.value, c.Revision())
		require.NoError(t, err)
		c.value.Done++
		next()
		require.Equal(t, c.value.Done, c.stored().Done)
	}
	require.Empty(t, c.stored().Owner)
}

// A leader acts while neither the monotonic nor the wall clock says that its term is over.
func TestALeaderActsWithinItsTerm(t *testing.T) {
	c := newCandidate(t, open(t, startBroker(t), "w1"))
	require.False(t, c.Held())
	require.True(t, c.leads())
	require.True(t, c.Held())
	require.True(t, c.Await(t.Context()))
	wall := c.renewed.Round(0).Add(LeaseTerm)
	c.Clock = func() time.Time { return wall } // the machine was suspended
	require.False(t, c.Held())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, c.Await(ctx))
	require.True(t, c.leads(), "it is renewed")
	require.True(t, c.Held())
}

// A value that cannot be adopted is left as it is.
func TestAValueThatCannotBeReadIsKept(t *testing.T) {
	c := newCandidate(t, open(t, startBroker(t), "w1"))
	require.NoError(t, c.bucket.Put(t.Context(), testLeaseKey, []int{1}))
	for range 2 {
		_, err := c.Keep(t.Context())
		var newer *json.UnmarshalTypeError
		require.True(t, errors.As(err, &newer), "%v", err)
		c.ahead += 2 * LeaseTerm
	}
}
