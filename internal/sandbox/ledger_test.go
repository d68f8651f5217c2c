package sandbox

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLedgerUnderConcurrency sends the same orders from many clients at once.
// What the clients were told must add up to what the ledger says.
func TestLedgerUnderConcurrency(t *testing.T) {
	for _, policy := range []Duplicates{RefuseDuplicates, ReturnOriginal, CreateTwice} {
		t.Run(policy.String(), func(t *testing.T) {
			const clients, orders = 8, 50
			a := start(t, func(c *Config) {
				c.Duplicates = policy
				c.Faults = Faults{Unavailable: .1, DropAfter: .1, DropBefore: .1, UnavailableAfter: .1}
			})
			var told [600]atomic.Int64 // by HTTP status, 0 for none
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					for i := range orders {
						got, _ := a.do(a.request(a.order(fmt.Sprintf("A-%d", i))))
						told[got.status].Add(1)
					}
				})
			}
			wg.Wait()

			l := a.server.Ledger()
			require.EqualValues(t, clients*orders, l.Requests)
			require.Equal(t, told[200].Load(), l.Answers["created"]+l.Answers["original"])
			require.Equal(t, told[409].Load(), l.Answers["duplicate"])
			require.Equal(t, told[503].Load(), l.Answers["unavailable"])
			require.Equal(t, told[0].Load(), l.Answers["dropped"])
			require.EqualValues(t, orders, l.OrdersSeen)

			var creations, once, more, attempts int64
			seen := make(map[string]bool)
			for no, e := range a.server.Each {
				require.False(t, seen[no], no)
				seen[no] = true
				creations += int64(e.Created)
				attempts += int64(e.Attempts)
				require.Equal(t, e.Created, a.server.Created(no))
				if e.Created > 0 {
					once++
				}
				if e.Created > 1 {
					more++
				}
			}
			require.Len(t, seen, orders)
			require.EqualValues(t, clients*orders, attempts)
			require.Equal(t, []int64{creations, once, more}, []int64{l.Creations, l.OrdersCreated, l.CreatedTwice})
			if policy == CreateTwice {
				require.Positive(t, more)
			} else {
				require.Zero(t, more, "nothing is created twice")
			}
		})
	}
}

func TestEachStopsAndMayCallTheServer(t *testing.T) {
	a := start(t, nil)
	for i := range 5 {
		a.post(fmt.Sprintf("A-%d", i))
	}
	n := 0
	for no := range a.server.Each {
		n++
		require.Equal(t, 1, a.server.Created(no)) // it would deadlock, were a lock held
		if n == 2 {
			break
		}
	}
	require.Equal(t, 2, n)
}

// TestOrdersWithTheSameHash: equal hashes must not make equal orders.
func TestOrdersWithTheSameHash(t *testing.T) {
	b := newBook()
	settings := Settings{}
	for _, no := range []string{"one", "two", "three", "two"} {
		b.attempt(attempt{orderNo: []byte(no), hash: 7, now: testTime, settings: &settings})
	}
	require.EqualValues(t, 3, b.seen.Load())
	created := map[string]int{}
	for no, e := range b.each {
		created[no] = e.Attempts
	}
	require.Equal(t, map[string]int{"one": 1, "two": 2, "three": 1}, created)
}

// TestOrdersTakeFewBytes: a million orders must fit into a small container.
func TestOrdersTakeFewBytes(t *testing.T) {
	const orders = 250_000
	before := heap()
	b := newBook()
	settings := Settings{}
	var no []byte
	for i := range orders {
		no = fmt.Appendf(no[:0], "ORD-2025-%09d", i)
		b.attempt(attempt{orderNo: no, hash: hashOrderNo(no), now: testTime, settings: &settings})
	}
	each := float64(heap()-before) / orders
	require.EqualValues(t, orders, b.once.Load())
	t.Logf("%.0f bytes an order", each)
	require.Less(t, each, 200.0, "bytes an order")
	runtime.KeepAlive(b)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestSecondsOlderThanAnHourAreForgotten(t *testing.T) {
	var s seconds
	s.count(testTime, true)
	s.count(testTime.Add(time.Second), false)
	require.Equal(t, []Second{{testTime.Unix(), 1, 1}, {testTime.Unix() + 1, 1, 0}}, s.list(testTime.Add(time.Second)))
	late := testTime.Add(time.Hour) // shares its slot with testTime
	require.Equal(t, []Second{{testTime.Unix() + 1, 1, 0}}, s.list(late))
	s.count(late, true)
	require.Equal(t, []Second{{testTime.Unix() + 1, 1, 0}, {late.Unix(), 1, 1}}, s.list(late))
}
