package door

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/testing/queuetest"
)

// collect reads outcomes from a position until n are there, and returns them as words.
func (r *rig) collect(after uint64, n int) (got []string, last uint64) {
	r.t.Helper()
	for o, err := range r.Outcomes(r.t.Context(), after) {
		require.NoError(r.t, err)
		got, last = append(got, fmt.Sprintf("%s %s %s", o.OrderNo, o.ID, o.Outcome)), o.Position
		if len(got) == n {
			break
		}
	}
	return got, last
}

// TestTheFeedGoesOnWhereItWas: what is stored already, then what comes, each once; and a
// conflict comes before the outcome that it lost to.
func TestTheFeedGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	queuetest.Trimming(t, r.worker)
	r.submit(one("A", "a1"), Stored)
	r.answer(1, order.Accepted)
	r.submit(one("B", "b1"), Stored)
	r.answer(1, order.Rejected)
	got, last := r.collect(0, 1)
	require.Equal(t, []string{"A a1 accepted"}, got)

	rest := make(chan []string)
	go func() {
		got, _ := r.collect(last, 4)
		rest <- got
	}()
	require.Eventually(t, func() bool { return r.waits() == 1 }, waitLong, waitShort)
	r.submit(Order{Body: body("A", "2"), ID: "a2"}, Stored)
	r.answer(1, order.Accepted)
	r.submit(one("C", "c1"), Stored)
	r.answer(1, order.Accepted)
	require.Equal(t, []string{"B b1 rejected", "A a2 rejected", "A a1 accepted", "C c1 accepted"}, <-rest)

	got, last = r.collect(last, 2) // stops between a conflict and its record
	require.Equal(t, "A a2 rejected", got[1])
	got, last = r.collect(last, 3)
	require.Equal(t, []string{"A a2 rejected", "A a1 accepted", "C c1 accepted"}, got)

	var failed error
	for _, err := range r.Outcomes(t.Context(), last+1) {
		failed = err
	}
	require.ErrorIs(t, failed, ErrPosition)
}

// TestAFeedOfAClosedDoorEnds, also one that still reads what was stored before: the broker of
// a closed door is out of reach for ever.
func TestAFeedOfAClosedDoorEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg *queue.Config) { cfg.BrokerWait = time.Second })
	r.submit(one("A", "a1"), Stored)
	r.answer(1, order.Accepted)
	ctx, cancel := context.WithTimeout(t.Context(), waitLong)
	defer cancel()
	for range 10 { // one that is open, and others that come later
		var ended error
		for o, err := range r.Outcomes(ctx, 0) {
			ended = err
			if err == nil {
				require.Equal(t, "A", o.OrderNo)
				r.Close()
				r.q.Close()
			}
		}
		require.ErrorIs(t, ended, ErrClosed)
	}
}

// TestManyFeedsReadOneFollower: they get the same, in the same order, slow readers too.
func TestManyFeedsReadOneFollower(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n, feeds = 2 * mostKept, 8
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard, goOn := make(chan []string, feeds), make(chan struct{})
	for i := range feeds {
		go func() {
			var got []string
			for o, err := range r.Outcomes(ctx, 0) {
				if err != nil || o.Outcome != order.OutcomeAccepted {
					t.Error(o, err)
				}
				if got = append(got, o.OrderNo); len(got) == 1 && i%2 == 0 {
					<-goOn // until the follower has forgotten what comes next
				}
				if len(got) == n {
					break
				}
			}
			heard <- got
		}()
	}
	require.Eventually(t, func() bool { return r.waits() == feeds }, waitLong, waitShort)
	r.acceptMany(n)
	require.Eventually(t, func() bool {
		r.follow.mu.Lock()
		defer r.follow.mu.Unlock()
		return r.follow.run.recent.last >= n && r.follow.run.recent.from > 0
	}, waitLong, waitShort)
	close(goOn)
	first := <-heard
	require.Len(t, first, n)
	for range feeds - 1 {
		require.Equal(t, first, <-heard)
	}
	cancel()
	require.Eventually(t, r.idle, waitLong, waitShort)
}

// acceptMany submits n orders, all of which are accepted.
func (r *rig) acceptMany(n int) {
	r.t.Helper()
	var orders []Order
	for i := range n {
		orders = append(orders, Order{Body: body(fmt.Sprint(i), "1")})
	}
	for _, err := range r.SubmitAll(r.t.Context(), slices.Values(orders)) {
		require.NoError(r.t, err)
	}
	r.answer(n, order.Accepted)
}

// TestFeedsThatAreFarBehindTakeTurns: hundreds of clients come back at once and read what they missed. If each
// asked the broker at the same time, all would wait longer than they may, and throw away what came.
func TestFeedsThatAreFarBehindTakeTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n, feeds = 300, 100
	r.acceptMany(n)

	var mu sync.Mutex
	open, most := map[string]bool{}, 0
	_, err := r.broker.JetStream(t).Conn().Subscribe(">", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(m.Subject, "$JS.API.DIRECT.GET.") && strings.Contains(string(m.Data), `"batch":`) {
			open[m.Reply] = true
			most = max(most, len(open))
		} else if m.Header.Get("Status") != "" {
			delete(open, m.Subject)
		}
	})
	require.NoError(t, err)
	require.NoError(t, r.broker.JetStream(t).Conn().Flush())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stuck, whole sync.WaitGroup
	stuck.Add(feeds)
	goOn := make(chan struct{})
	for range feeds {
		whole.Go(func() {
			got := 0
			for _, err := range r.Outcomes(ctx, 0) {
				if err != nil {
					t.Error(err)
				}
				if got++; got == 1 { // it keeps nobody waiting while its client does not read
					stuck.Done()
					<-goOn
				} else if got == n {
					break
				}
			}
		})
	}
	stuck.Wait()
	close(goOn)
	whole.Wait()
	mu.Lock()
	defer mu.Unlock()
	require.Positive(t, most)
	require.LessOrEqual(t, most, catchUps+1, "with the follower's")
}
