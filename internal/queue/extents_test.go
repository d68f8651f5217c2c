package queue

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// A stream that was cut off and has grown beyond its former end since shows in the sequences
// that writes get. The loss is remembered for every program until a person accepts it.
func TestASequenceThatWasGivenAgainIsALoss(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "worker-1")
	_, seen, err := q.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, q.Extents.RememberExtents(t.Context(), seen, seen))
	_, err = q.store.PutRecord(t.Context(), "one", &order.Record{}, 0)
	require.NoError(t, err)
	q.results.ends.stored(reach{q.results.ends.era, 90}, 88) // 90 was confirmed before the write that got 88

	losses, _, err := q.Extents.Losses(t.Context(), seen)
	require.NoError(t, err)
	require.Len(t, losses, 1)
	require.Contains(t, losses[0].String(), "stream ORDERS_RESULTS")
	require.Contains(t, losses[0].String(), "message 90")
	require.Contains(t, losses[0].String(), "that its broker confirmed are lost")

	other := openQueue(t, s, "worker-2")
	losses, now, err := other.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, losses, 1)
	require.NoError(t, other.Extents.RememberExtents(t.Context(), now, now)) // forgets nothing

	err = other.Extents.AcceptLosses(t.Context(), "anna", nil)
	require.NoError(t, err)
	for _, who := range []*Queue{q, other} {
		losses, _, err = who.Extents.Losses(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, losses)
	}
}

// A loss that one look has found is one for every program, whatever has been written before
// theirs.
func TestALossThatWasSeenIsRemembered(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "worker-1")
	_, seen, err := q.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	results := seen[q.Conn.n.results]
	results.Last = 1 // confirmed, and lost since
	seen[q.Conn.n.results] = results
	require.NoError(t, q.bucket.Put(t.Context(), extentsKey, seen))
	losses, _, err := q.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, losses, 1)

	for _, orderNo := range []string{"one", "two"} {
		_, err = q.store.PutRecord(t.Context(), orderNo, &order.Record{}, 0)
		require.NoError(t, err)
	}
	losses, _, err = openQueue(t, s, "worker-2").Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, losses, 1)
	require.Contains(t, losses[0].String(), "stream ORDERS_RESULTS ended before message 1, which it had reached, and has grown to message 2 since")
}

func TestEnds(t *testing.T) {
	var e ends
	first := era{created: time.Now()}
	require.Zero(t, e.look(first))
	none := e.reached()
	e.stored(none, 5)
	e.stored(none, 4) // sent before 5 was confirmed
	five := e.reached()
	require.Equal(t, reach{first, 5}, five)
	require.Zero(t, e.look(first))
	e.stored(five, 3)
	require.EqualValues(t, 5, e.look(first))
	require.EqualValues(t, 3, e.reached().last, "or each write would tell the loss again")
	for _, next := range []era{{created: first.created, accepted: "loss"}, {created: first.created.Add(time.Hour)}} {
		require.Zero(t, e.look(next))
		e.stored(five, 1) // sent in the former era
		require.Equal(t, reach{next, 0}, e.reached())
		require.Zero(t, e.look(next))
	}
}

// An older copy of everything brings an older bucket, too, which finds nothing missing. Whoever
// saw more does, until a person accepts the loss.
func TestWhatAProgramSawCountsBesideAnOlderBucket(t *testing.T) {
	q := openQueue(t, startBroker(t), "worker-1")
	_, seen, err := q.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, q.Extents.RememberExtents(t.Context(), seen, seen))
	results := seen[q.Conn.n.results]
	results.Last = 5
	seen[q.Conn.n.results] = results
	losses, now, err := q.Extents.Losses(t.Context(), seen)
	require.NoError(t, err)
	require.Len(t, losses, 1)
	require.Contains(t, losses[0].String(), "stream ORDERS_RESULTS ends at message 0 and had reached message 5")
	require.Equal(t, uint64(0), now[q.Conn.n.results].Last)

	require.NoError(t, q.Extents.AcceptLosses(t.Context(), "anna", nil))
	losses, now, err = q.Extents.Losses(t.Context(), seen)
	require.NoError(t, err)
	require.Empty(t, losses)

	// What is seen after her word counts again.
	results = now[q.Conn.n.results]
	results.Last = 7
	now[q.Conn.n.results] = results
	losses, _, err = q.Extents.Losses(t.Context(), now)
	require.NoError(t, err)
	require.Len(t, losses, 1)
}

// Removing the folder of the last stream may cost a new stream its own. A file in the folder's
// place is refused in the same way, and the server removes it then.
func TestAStreamWhoseFolderIsInTheWayIsMade(t *testing.T) {
	dir := t.TempDir()
	s := startBrokerIn(t, dir)
	streams := filepath.Join(dir, "jetstream", "jetstream", "$G", "streams")
	require.NoError(t, os.MkdirAll(streams, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(streams, "ORDERS"), nil, 0o600))
	q := openQueue(t, s, "worker-1")
	publish(t, q, intent("A-1", "i1"))
	info, err := os.Stat(filepath.Join(streams, "ORDERS"))
	require.NoError(t, err)
	require.True(t, info.IsDir())
}

// A broker that lost everything is still a loss to the workers that used it after another
// worker has started there and made the streams anew. Only a person accepts it.
func TestAWorkerThatStartsOnAnEmptyBrokerAcceptsNoLoss(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "worker-1")
	publish(t, q, intent("A-1", "i1"))
	_, seen, err := q.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	for _, name := range streamNames(t, q) {
		require.NoError(t, q.Conn.js.DeleteStream(t.Context(), name))
	}
	started := openQueue(t, s, "worker-2")
	_, made, err := started.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, started.Extents.RememberExtents(t.Context(), made, made))
	publish(t, started, intent("A-2", "i2"))

	losses, _, err := q.Extents.Losses(t.Context(), seen)
	require.NoError(t, err)
	require.NotEmpty(t, losses)
	require.Equal(t, "stream ORDERS", losses[0].Name)
	losses, _, err = started.Extents.Losses(t.Context(), made)
	require.NoError(t, err)
	require.NotEmpty(t, losses, "the worker that started learns of it, too")
	_, made, err = openQueue(t, s, "worker-3").Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, made["ORDERS"].Last)
	losses, _, err = started.Extents.Losses(t.Context(), made)
	require.NoError(t, err)
	require.NotEmpty(t, losses, "orders that were stored since change nothing")

	require.NoError(t, q.Extents.AcceptLosses(t.Context(), "anna", nil))
	for _, saw := range []Extents{seen, made} {
		losses, _, err = q.Extents.Losses(t.Context(), saw)
		require.NoError(t, err)
		require.Empty(t, losses)
	}
}

// TestWhatAPersonAcceptedIsNamed: names tell whether a loss was accepted after a program looked, and no
// clocks: that of the person who accepted the second loss may be behind that of the first.
func TestWhatAPersonAcceptedIsNamed(t *testing.T) {
	created := time.Unix(1_000_000, 0)
	accepted := func(names ...string) []string { return names }
	for name, c := range map[string]struct {
		bucket, seen []string
		raised       bool
	}{
		"nothing was accepted":                            {nil, nil, true},
		"the first loss was":                              {accepted("a"), nil, false},
		"nothing was since":                               {accepted("a"), accepted("a"), true},
		"another loss was":                                {accepted("a", "b"), accepted("a"), false},
		"an older copy of the bucket":                     {accepted("a"), accepted("a", "b"), true},
		"a copy from before any":                          {nil, accepted("a", "b"), true},
		"the bucket was made again, and a loss accepted":  {accepted("c"), accepted("a", "b"), false},
		"many were accepted since, more than are named":   {accepted("x", "y"), accepted("a"), false},
		"an older copy, after which another was accepted": {accepted("a", "c"), accepted("a", "b"), false},
	} {
		t.Run(name, func(t *testing.T) {
			was := Extents{"ORDERS": {Created: created, Last: 3, Accepted: c.bucket}}
			now := Extents{"ORDERS": {Created: created, Last: 3}}
			require.Equal(t, c.raised, raise(was, Extents{"ORDERS": {Created: created, Last: 9, Accepted: c.seen}}, now))
			require.Equal(t, c.raised, was["ORDERS"].Last == 9)
		})
	}
}

// TestAStreamThatWasReplacedIsALoss whatever the clock said of the broker that made the next one: that of a
// new machine may be years behind.
func TestAStreamThatWasReplacedIsALoss(t *testing.T) {
	for _, apart := range []time.Duration{time.Hour, -time.Hour, -50 * 365 * 24 * time.Hour} {
		former := Extent{Created: time.Unix(2_000_000_000, 0), Last: 5}
		next := Extent{Created: former.Created.Add(apart), Last: 2}
		was, now := Extents{"ORDERS": next}, Extents{"ORDERS": next}
		require.True(t, raise(was, Extents{"ORDERS": former}, now), apart)
		require.Equal(t, former, was["ORDERS"])
		require.False(t, raise(was, Extents{"ORDERS": next}, now), "one that knows only the next stream changes nothing")
		require.Equal(t, former, was["ORDERS"])
	}
}
