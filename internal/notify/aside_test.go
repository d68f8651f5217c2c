package notify

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
)

// refuses answers so to the events of one order_no, and takes all others.
func refuses(no string, code int) func(got) (int, http.Header) {
	return func(g got) (int, http.Header) {
		if g.Data.OrderNo == no {
			return code, nil
		}
		return http.StatusNoContent, nil
	}
}

// awaitAside waits until the only event that is aside is as it should be.
func awaitAside(t *testing.T, q *queue.Queue, is func(*Aside) bool) *Aside {
	t.Helper()
	var found *Aside
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		all, err := ReadAside(t.Context(), q)
		require.NoError(c, err)
		require.Len(c, all, 1)
		require.True(c, is(all[0]), "%+v", *all[0])
		found = all[0]
	}, time.Minute, 5*time.Millisecond)
	return found
}

// awaitNoAside waits until no event is aside.
func awaitNoAside(t *testing.T, q *queue.Queue) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		all, err := ReadAside(t.Context(), q)
		require.NoError(c, err)
		require.Empty(c, all)
	}, time.Minute, 5*time.Millisecond)
}

// TestAQuietFleetTriesWhatIsAside: no new outcome is needed for it, neither after the event's own
// failures made the receiver count as down, nor after a person's retries were refused.
func TestAQuietFleetTriesWhatIsAside(t *testing.T) {
	t.Parallel()
	for _, code := range []int{500, http.StatusGone} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			q := openQueue(t, startBroker(t))
			e, b := newHookServer(t), newLedger(t, q)
			e.answers(refuses("bad", code))
			s := newTestSender(t, q, e.URL)
			run(t, s)
			b.put("bad", "rejected")
			require.Eventually(t, func() bool { return s.Stats().Attempts[classes[code/100]] > 0 }, time.Minute, time.Millisecond)
			b.put("good", "accepted") // proves that the receiver takes others. There is no other outcome from then on
			tried := func(a *Aside) bool { return a.Tries > 0 && a.Parked == (code == http.StatusGone) }
			a := awaitAside(t, q, tried)
			for range 3 { // looks are more than five seconds apart, which is when a receiver that takes nothing counts as down
				require.NoError(t, a.Retry(t.Context(), q))
				a = awaitAside(t, q, tried)
			}
			e.answers(nil)
			require.NoError(t, a.Retry(t.Context(), q))
			e.await(t, map[string]string{"bad": "rejected"})
			awaitNoAside(t, q)
		})
	}
}

// TestAnotherEventThatWaits, because nothing was taken since its first failure, keeps nobody from
// retrying what is aside. That one's delivery shows that the other is refused alone.
func TestAnotherEventThatWaits(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e, b := newHookServer(t), newLedger(t, q)
	e.answers(refuses("waits", 500))
	b.put("parked", "rejected")
	parked := &Aside{OrderNo: "parked", Token: "parked", Position: b.seqs["parked"], Outcome: "rejected", Parked: true}
	parked, err := parked.store(t.Context(), q)
	require.NoError(t, err)
	s := newTestSender(t, q, e.URL, func(c *Config) { c.Begin = beginNow })
	run(t, s)
	require.Eventually(t, func() bool { return s.Stats().Parked == 1 }, time.Minute, time.Millisecond)
	b.put("waits", "accepted")
	require.Eventually(t, func() bool { return kept(t, q).Problem != "" }, time.Minute, 5*time.Millisecond)
	require.NoError(t, parked.Retry(t.Context(), q))
	e.await(t, map[string]string{"parked": "rejected"})
	awaitAside(t, q, func(a *Aside) bool { return a.OrderNo == "waits" })
}

// TestManyRefusedRetries: whatever becomes of the events that are aside, the receiver does not
// count as down for that, and what is new does not wait for them.
func TestManyRefusedRetries(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e, b := newHookServer(t), newLedger(t, q)
	e.answers(func(g got) (int, http.Header) {
		if g.Data.OrderNo == "good" {
			return http.StatusNoContent, nil
		}
		return 500, nil
	})
	const many = 2 * downTries
	for i := range many {
		no := fmt.Sprintf("A-%d", i)
		b.put(no, "rejected")
		a := &Aside{OrderNo: no, Token: no, Position: b.seqs[no], Outcome: "rejected", NextAt: time.Now(), slot: i}
		_, err := a.store(t.Context(), q)
		require.NoError(t, err)
	}
	s := newTestSender(t, q, e.URL, func(c *Config) { c.Begin = beginNow })
	run(t, s)
	require.Eventually(t, func() bool { return s.Stats().Attempts["5xx"] >= many }, time.Minute, time.Millisecond)
	require.Empty(t, s.stats.session.Load().receiver.trouble())
	b.put("good", "accepted")
	e.await(t, map[string]string{"good": "accepted"})
}

// TestDueOneAtATime: the longest due first, and none while another one is busy.
func TestDueOneAtATime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newAsides(nil)
	for slot := range 3 {
		s.all[slot] = &Aside{slot: slot, NextAt: now.Add(time.Duration(-slot) * time.Second)}
	}
	first := s.due(now, 1)
	require.Equal(t, []*Aside{s.all[2]}, first)
	require.Empty(t, s.due(now, 1))
	s.release(first[0])
	require.Len(t, s.due(now, mostAside), 3)
}

// TestARetryAfterIsNamed, with its end, by what people read: the sender is silent until then.
func TestARetryAfterIsNamed(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e, b := newHookServer(t), newLedger(t, q)
	e.answers(func(got) (int, http.Header) { return 429, http.Header{"Retry-After": {"86400"}} })
	b.put("A-1", "rejected")
	_, err := Aside{OrderNo: "A-1", Token: "A-1", Position: b.seqs["A-1"], Outcome: "rejected", NextAt: time.Now()}.store(t.Context(), q)
	require.NoError(t, err)
	began := time.Now().Truncate(time.Second)
	s := newTestSender(t, q, e.URL, func(c *Config) { c.Begin = beginNow })
	run(t, s)
	a := awaitAside(t, q, func(a *Aside) bool { return a.Tries > 0 })
	require.Regexp(t, `^nothing is sent until \d\d:\d\d:\d\dZ$`, a.Answer)
	require.Equal(t, "status 429: "+a.Answer, s.describe().Problem)
	end, err := time.Parse(pauseEnds, a.Answer)
	require.NoError(t, err)
	hour := began.Add(longestPause).UTC()
	late := end.Sub(time.Date(0, 1, 1, hour.Hour(), hour.Minute(), hour.Second(), 0, time.UTC))
	require.Less(t, (late+24*time.Hour)%(24*time.Hour), time.Minute)
}
