package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// shownDoor is a door that is shown until hide returns.
func (n *node) shownDoor(t *testing.T, d Door) (hide func()) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		n.ShowDoor(ctx, zerolog.Nop(), func() Door { return d })
	}()
	hide = func() { cancel(); <-over }
	t.Cleanup(hide)
	return hide
}

func (n *node) doors(t *testing.T) (names []string) {
	t.Helper()
	v, err := n.Look(t.Context())
	require.NoError(t, err)
	for _, d := range v.Doors() {
		names = append(names, d.Kind+" "+d.Name)
	}
	return names
}

// TestDoors: those who run are listed, whoever ends is not, and a slot that is free is used
// again, so that the bucket keeps no key for each process that ever ran.
func TestDoors(t *testing.T) {
	n := open(t, startBroker(t), "w1")
	hide := n.shownDoor(t, Door{Kind: DoorGateway, Name: "g1"})
	sees := func(want ...string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, want, n.doors(t)) }, time.Minute, 10*time.Millisecond)
	}
	sees("gateway g1")
	n.shownDoor(t, Door{Kind: DoorGateway, Name: "g2"})
	n.shownDoor(t, Door{Kind: DoorNotify, Name: "n1", Sends: true, Backlog: 7, Problem: "the receiver is down"})
	sees("gateway g1", "gateway g2", "notify n1")
	hide()
	require.Equal(t, []string{"gateway g2", "notify n1"}, n.doors(t))
	n.shownDoor(t, Door{Kind: DoorGateway, Name: "g3"})
	sees("gateway g2", "gateway g3", "notify n1")
	entries, err := n.Bucket().Last(t.Context(), doorPrefix+">")
	require.NoError(t, err)
	require.Len(t, entries, 3)

	require.NoError(t, n.Bucket().Put(t.Context(), doorPrefix+DoorGateway+".2", []int{1})) // of a newer version
	require.Contains(t, n.doors(t), "gateway door.gateway.2")
	v, err := n.Read(t.Context())
	require.NoError(t, err)
	require.Empty(t, v.Doors(), "workers do not read them")
}

// TestADoorThatLostItsSlot takes another one. So does one that was frozen while its slot was
// given away.
func TestADoorThatLostItsSlot(t *testing.T) {
	n := open(t, startBroker(t), "w1")
	s, d := &doorSign{control: n.Control}, Door{Kind: DoorGateway, Name: "g1"}
	require.NoError(t, s.show(t.Context(), d))
	require.Equal(t, "door.gateway.0", s.key)
	require.NoError(t, n.Bucket().Put(t.Context(), s.key, Door{Kind: DoorGateway, Name: "g2"}))
	require.ErrorIs(t, s.show(t.Context(), d), settle.ErrStale)
	require.NoError(t, s.show(t.Context(), d))
	require.Equal(t, "door.gateway.1", s.key)
	require.Equal(t, []string{"gateway g1", "gateway g2"}, n.doors(t))
}

// TestADoorsRate is what was done in the last ten seconds or a little more.
func TestADoorsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &doorSign{}
		require.Zero(t, s.rate(Door{Done: 5}))
		for i := range 20 {
			time.Sleep(time.Second)
			require.InDelta(t, 10, s.rate(Door{Done: uint64(5 + 10*(i+1))}), 0.01)
		}
		time.Sleep(10 * time.Second)
		require.Zero(t, s.rate(Door{Done: 205}))
		require.Len(t, s.marks, 2)
	})
}

// TestADoorOfBeforeAStep: a process that ended before the broker's clock was put back is not there, and its
// slot is free.
func TestADoorOfBeforeAStep(t *testing.T) {
	now := time.Now()
	v := &View{Now: now, doors: []Door{{Name: "g1", SeenAt: now.Add(time.Hour)}, {Name: "g2", SeenAt: now.Add(-DoorTerm)}, {Name: "g3", SeenAt: now.Add(-time.Hour)}}}
	require.Equal(t, []Door{v.doors[1]}, v.Doors())
	require.False(t, isThere(now, now.Add(time.Hour)))
}
