package notify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/docs/schema"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// TestDelivers: each outcome once, notes not at all, and the position is kept when the sender stops.
func TestDelivers(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e, b := newHookServer(t), newLedger(t, q)
	b.put("A-1", "accepted")
	b.put("A-2", "retrying")
	b.put("A-3", "unknown")
	stop := run(t, newTestSender(t, q, e.URL))
	e.await(t, map[string]string{"A-1": "accepted", "A-3": "unknown"})
	b.put("A-3", "accepted", func(r *order.Record) { r.Was, r.By = "unknown", "ann" })
	e.await(t, map[string]string{"A-3": "accepted"})
	stop()
	_, all := e.last()
	require.Len(t, all, 3)
	require.Equal(t, []string{TypeSettled, TypeUnknown, TypeCorrected}, []string{byNo(all, "A-1").Type, byNo(all, "A-3").Type, all[2].Type})
	require.Equal(t, uint64(4), kept(t, q).Position.Seq)
	require.Empty(t, kept(t, q).Owner, "another process sends at once")

	b.put("A-2", "rejected")
	run(t, newTestSender(t, q, e.URL))
	e.await(t, map[string]string{"A-2": "rejected"})
	_, all = e.last()
	require.Len(t, all, 4, "nothing is told twice after an orderly stop")
}

func byNo(all []got, no string) got {
	for _, g := range all {
		if g.Data.OrderNo == no {
			return g
		}
	}
	return got{}
}

// TestTheFirstSenderBeginsNow, unless it is told otherwise.
func TestTheFirstSenderBeginsNow(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e, b := newHookServer(t), newLedger(t, q)
	b.put("A-1", "accepted")
	run(t, newTestSender(t, q, e.URL, func(c *Config) { c.Begin = beginNow }))
	require.Eventually(t, func() bool { return kept(t, q).Owner != "" }, time.Minute, time.Millisecond)
	b.put("A-2", "accepted")
	e.await(t, map[string]string{"A-2": "accepted"})
	_, all := e.last()
	require.Len(t, all, 1)
}

// TestAReceiverThatFails: while nothing is taken, nothing is passed over; everything comes once it
// is back, each order_no in its order.
func TestAReceiverThatFails(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(got) (int, http.Header){
		"500":      answering(500),
		"redirect": func(got) (int, http.Header) { return 302, http.Header{"Location": {"http://127.0.0.1:1/elsewhere"}} },
		"401":      answering(401),
		"410":      answering(410),
		"429":      func(got) (int, http.Header) { return 429, http.Header{"Retry-After": {"1"}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := openQueue(t, startBroker(t))
			e, b := newHookServer(t), newLedger(t, q)
			e.answers(fails)
			s := newTestSender(t, q, e.URL)
			run(t, s)
			want := make(map[string]string)
			for i := range 50 {
				no := fmt.Sprintf("A-%d", i)
				b.put(no, "unknown")
				want[no] = "unknown"
			}
			b.put("A-7", "accepted")
			want["A-7"] = "accepted"
			require.Eventually(t, func() bool { return s.Stats().Attempts[fails1(fails)] >= 2 && s.Stats().Backlog > 0 }, time.Minute, time.Millisecond)
			require.Zero(t, kept(t, q).Position.Seq)
			stats := s.Stats()
			require.Zero(t, stats.Aside+stats.Parked, "it is the receiver that fails, and not an event")
			require.False(t, stats.Oldest.IsZero())
			e.answers(nil)
			e.await(t, want)
			require.Eventually(t, func() bool { return kept(t, q).Position.Seq == b.seqs["A-7"] }, time.Minute, 5*time.Millisecond)
			require.True(t, s.Stats().Oldest.IsZero())
		})
	}
}

func fails1(f func(got) (int, http.Header)) string { code, _ := f(got{}); return classes[code/100] }

// TestOneEventIsRefused: the others go on, also those of its lane. A 410 parks it at once.
func TestOneEventIsRefused(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e, b := newHookServer(t), newLedger(t, q)
	e.answers(func(g got) (int, http.Header) {
		if g.Data.OrderNo == "bad" && g.Data.Outcome == "rejected" {
			return 410, nil
		}
		return 204, nil
	})
	s := newTestSender(t, q, e.URL)
	stop := run(t, s)
	b.put("bad", "rejected")
	require.Eventually(t, func() bool { return s.Stats().Attempts["4xx"] > 0 }, time.Minute, time.Millisecond)
	b.put("good", "accepted") // proves that the receiver takes others
	require.Eventually(t, func() bool { return s.Stats().Parked == 1 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return kept(t, q).Position.Seq == b.seqs["good"] }, time.Minute, 5*time.Millisecond)
	list, err := ReadAside(t.Context(), q)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []any{"bad", "rejected", true, 410}, []any{list[0].OrderNo, list[0].Outcome, list[0].Parked, list[0].Status})
	stop()

	e.answers(nil)
	again := newTestSender(t, q, e.URL)
	run(t, again)
	require.NoError(t, list[0].Retry(t.Context(), q))
	e.await(t, map[string]string{"bad": "rejected"})
	require.Eventually(t, func() bool {
		list, err := ReadAside(t.Context(), q)
		return err == nil && len(list) == 0
	}, time.Minute, 5*time.Millisecond)
}

// TestALaterOutcomeReplacesTheParkedOne: an earlier one never follows it.
func TestALaterOutcomeReplacesTheParkedOne(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e, b := newHookServer(t), newLedger(t, q)
	b.put("A-1", "unknown")
	aside := Aside{OrderNo: "A-1", Token: "A-1", Position: b.seqs["A-1"], Outcome: "unknown", NextAt: time.Now()}
	_, err := aside.store(t.Context(), q)
	require.NoError(t, err)
	b.put("A-1", "accepted")
	run(t, newTestSender(t, q, e.URL))
	require.Eventually(t, func() bool {
		list, err := ReadAside(t.Context(), q)
		return err == nil && len(list) == 0
	}, time.Minute, 5*time.Millisecond)
	e.await(t, map[string]string{"A-1": "accepted"})
	_, all := e.last()
	require.Len(t, all, 1)
}

// TestFilter: a submission that ended as a conflict is rejected, whatever became of the order.
func TestFilter(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e, b := newHookServer(t), newLedger(t, q)
	b.put("A-1", "accepted", func(r *order.Record) { r.Source = "shop" })
	b.put("A-2", "rejected", func(r *order.Record) { r.Source = "other" })
	b.put("A-3", "accepted", func(r *order.Record) {
		r.Source, r.Conflicts = "other", []order.Conflict{{IntentID: "late", Source: "shop:7"}}
	})
	b.put("A-4", "rejected", func(r *order.Record) { r.Source = "shop" })
	b.put("A-5", "accepted", func(r *order.Record) { r.Source, r.Was = "shop", "rejected" }) // it may have been told
	run(t, newTestSender(t, q, e.URL, func(c *Config) { c.Outcomes, c.Sources = []string{"rejected"}, []string{"shop*"} }))
	e.await(t, map[string]string{"A-3": "accepted", "A-4": "rejected", "A-5": "accepted"})
	_, all := e.last()
	require.Len(t, all, 3)
	require.Equal(t, []Submission{{ID: "i-A-3", Outcome: "accepted", Created: "yes", Source: "other"},
		{ID: "late", Outcome: "rejected", Created: "no", Conflict: true, Source: "shop:7"}}, byNo(all, "A-3").Data.Submissions)
}

// TestTakeover: a sender whose process is gone is replaced after its term, at the position that it kept.
func TestTakeover(t *testing.T) {
	t.Parallel()
	s := startBroker(t)
	q := openQueue(t, s)
	e, b := newHookServer(t), newLedger(t, q)
	first, second := newTestSender(t, q, e.URL), newTestSender(t, openQueue(t, s), e.URL)
	ctx, kill := context.WithCancel(t.Context())
	held, err := first.lease.Keep(ctx)
	require.NoError(t, err)
	require.True(t, held)
	run(t, second)
	b.put("A-1", "accepted")
	require.False(t, second.Stats().Sends)
	kill() // it neither renews nor leaves
	began := time.Now()
	e.await(t, map[string]string{"A-1": "accepted"})
	require.Greater(t, time.Since(began), fleet.LeaseTerm-2*lookEvery, "no two processes send at once")
	held, err = first.lease.Keep(t.Context())
	require.NoError(t, err)
	require.False(t, held, "the former sender cannot move the position")
	require.Equal(t, second.lease.Owner, kept(t, q).Owner)
}

// TestAPauseOutlivesItsSender: the next one sends nothing either until the pause is over that the
// receiver asked for.
func TestAPauseOutlivesItsSender(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e, b := newHookServer(t), newLedger(t, q)
	e.answers(func(got) (int, http.Header) { return 503, http.Header{"Retry-After": {"5"}} })
	stop := run(t, newTestSender(t, q, e.URL))
	b.put("A-1", "accepted")
	require.Eventually(t, func() bool { return !kept(t, q).Pause.IsZero() }, time.Minute, time.Millisecond)
	stop()
	end := kept(t, q).Pause
	e.answers(nil)
	run(t, newTestSender(t, q, e.URL))
	e.await(t, map[string]string{"A-1": "accepted"})
	require.False(t, time.Now().Before(end), "it ends at %s", end)
	require.Eventually(t, func() bool { k := kept(t, q); return k.Problem == "" && k.Pause.IsZero() }, time.Minute, 5*time.Millisecond)
}

// TestCrashes: senders stop at any moment without a last word, while outcomes change and the
// receiver is flaky. The receiver knows the last outcome of each order_no, last; and the
// position never was ahead of it.
func TestCrashes(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e, b := newHookServer(t), newLedger(t, q)
	e.answers(func(got) (int, http.Header) {
		if rand.IntN(4) == 0 {
			return 503, nil
		}
		return 200, nil
	})
	want, when := make(map[string]string), make(map[string]uint64)
	words := []string{"accepted", "rejected", "unknown", "retrying", "cancelled"}
	for round := range 12 {
		ctx, crash := context.WithCancel(t.Context())
		s := newTestSender(t, q, e.URL)
		s.lease.Owner = "the same" // the next one need not wait for the term
		ended := make(chan struct{})
		go func() { defer close(ended); _, _ = s.lead(ctx) }()
		for i := range 120 {
			no, word := fmt.Sprintf("A-%d", rand.IntN(40)), words[rand.IntN(len(words))]
			if b.put(no, word); word != "retrying" {
				want[no], when[no] = word, b.seqs[no]
			} else {
				delete(want, no)
			}
			if i%40 == round%40 {
				requirePositionBehind(t, kept(t, q).Position.Seq, e, want, when)
			}
		}
		time.Sleep(time.Duration(rand.IntN(int(fleet.LeaseRenewal)))) // any moment of the renewals
		crash()
		<-ended
		requirePositionBehind(t, kept(t, q).Position.Seq, e, want, when)
	}
	run(t, newTestSender(t, q, e.URL, func(*Config) {}))
	e.await(t, want)
	require.Eventually(t, func() bool { return kept(t, q).Position.Seq >= maxSeq(b.seqs) }, time.Minute, 5*time.Millisecond)
	_, all := e.last()
	highest := make(map[string]uint64)
	for _, g := range all {
		highest[g.Data.OrderNo] = max(highest[g.Data.OrderNo], g.Data.Position)
	}
	last := make(map[string]uint64)
	for _, g := range all {
		last[g.Data.OrderNo] = g.Data.Position
	}
	require.Equal(t, highest, last, "the last that the receiver hears of an order_no is its last outcome")
}

func maxSeq(seqs map[string]uint64) (most uint64) {
	for _, seq := range seqs {
		most = max(most, seq)
	}
	return most
}

// requirePositionBehind fails if the position passed an outcome that stands and was not taken.
func requirePositionBehind(t *testing.T, position uint64, e *hookServer, want map[string]string, when map[string]uint64) {
	t.Helper()
	_, all := e.last()
	taken := make(map[string]uint64)
	for _, g := range all {
		taken[g.Data.OrderNo] = max(taken[g.Data.OrderNo], g.Data.Position)
	}
	for no := range want {
		if when[no] <= position {
			require.GreaterOrEqual(t, taken[no], when[no], "%s at %d, position %d", no, when[no], position)
		}
	}
}

// TestTheFleetIsHeld is told, and that it goes on.
func TestTheFleetIsHeld(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e := newHookServer(t)
	run(t, newTestSender(t, q, e.URL))
	types := func() (all []string) {
		_, taken := e.last()
		for _, g := range taken {
			all = append(all, g.Type)
		}
		return all
	}
	control := fleet.New(q)
	require.NoError(t, control.SetHold(t.Context(), fleet.Hold{By: "ann", Reason: "maintenance", Since: time.Now().UTC()}))
	require.Eventually(t, func() bool { return len(types()) == 1 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, control.Resume(t.Context(), "ann"))
	require.Eventually(t, func() bool { return len(types()) == 2 }, time.Minute, 5*time.Millisecond)
	require.Equal(t, []string{TypeHeld, TypeResumed}, types())
	requireSchema(t, e)
}

// TestASlowReceiver: others are told meanwhile, and the slow event's attempt is bounded.
func TestASlowReceiver(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	b := newLedger(t, q)
	var taken atomic.Int64
	block := make(chan struct{})
	e := newHookServer(t)
	t.Cleanup(func() { close(block) }) // before the server waits for its requests
	e.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if taken.Add(1) == 1 {
			<-block
		}
	})
	s := newTestSender(t, q, e.URL)
	s.client.timeout = 5 * time.Second // which no other answer takes, even on a busy machine
	run(t, s)
	for i := range 40 {
		b.put(fmt.Sprintf("A-%d", i), "accepted")
	}
	require.Eventually(t, func() bool { return kept(t, q).Position.Seq == b.seqs["A-39"] }, time.Minute, 5*time.Millisecond)
	require.EqualValues(t, 41, taken.Load(), "the slow one was sent again")
	require.EqualValues(t, 1, s.Stats().Attempts["none"])
}

// TestAReceiverThatSwitchesProtocols: what follows such an answer is a connection without a
// timeout. It takes no hand for ever.
func TestAReceiverThatSwitchesProtocols(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	b := newLedger(t, q)
	e := newHookServer(t)
	var switched atomic.Int64
	e.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if switched.Add(1) > hands {
			e.ServeHTTP(w, r)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"))
	})
	s := newTestSender(t, q, e.URL)
	run(t, s)
	want := make(map[string]string)
	for i := range 2 * hands {
		no := fmt.Sprintf("A-%d", i)
		b.put(no, "accepted")
		want[no] = "accepted"
	}
	e.await(t, want)
	require.EqualValues(t, hands, s.Stats().Attempts["1xx"])
}

// TestAPersonCorrects: what a worker and a person do to an order, as the receiver hears it. Each
// event is as the schema says.
func TestAPersonCorrects(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e := newHookServer(t)
	run(t, newTestSender(t, q, e.URL))
	queuetest.Publish(t, q, settle.Intent{OrderNo: "A-1", Body: queuetest.Body("A-1"), ID: "i1", Batch: "march", Source: "march.csv:2"})
	d := queuetest.Pull(t, q, 1)[0]
	r := order.Report{End: order.EndAnswer, Verdict: order.Unsure, History: order.History{Attempts: 1, Unsure: true}}
	_, err := q.Worker.Settle(t.Context(), d, &r, order.Decide(&r, order.Facts{Policy: order.Park}))
	require.NoError(t, err)
	d.Release()
	e.await(t, map[string]string{"A-1": "unknown"})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_ = q.Trimmer.Trim(t.Context()) // until then the intent counts as pending
		_, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, settle.Person{Name: "ann"})
		require.NoError(c, err)
	}, time.Minute, 10*time.Millisecond)
	e.await(t, map[string]string{"A-1": "rejected"})
	_, err = q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, settle.Person{Name: "ann"})
	require.NoError(t, err)
	e.await(t, map[string]string{"A-1": "accepted"})
	_, all := e.last()
	var told []string
	for _, g := range all {
		told = append(told, g.Type+" "+g.Data.Was+">"+g.Data.Outcome)
		require.Equal(t, "march.csv:2", g.Data.Submissions[0].Source)
	}
	require.Equal(t, []string{"order.unknown >unknown", "order.corrected unknown>rejected", "order.corrected rejected>accepted"}, told)
	requireSchema(t, e)
}

// requireSchema holds every body that was taken against docs/schema/notify-event.json.
func requireSchema(t *testing.T, e *hookServer) {
	t.Helper()
	text, err := schema.Text("notify-event")
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("event", doc))
	compiled, err := c.Compile("event")
	require.NoError(t, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	require.NotEmpty(t, e.bodies)
	for _, body := range e.bodies {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, compiled.Validate(value), body)
	}
}

// TestTheBucketIsLost: a process that knows the position goes on with it.
func TestTheBucketIsLost(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	e, b := newHookServer(t), newLedger(t, q)
	e.answers(answering(500))
	s := newTestSender(t, q, e.URL, func(c *Config) { c.Begin = beginNow })
	run(t, s)
	require.Eventually(t, func() bool { return s.Stats().Sends }, time.Minute, time.Millisecond)
	b.put("A-1", "accepted")
	require.NoError(t, q.Bucket().Delete(t.Context(), senderKey, 0))
	require.Eventually(t, func() bool { return kept(t, q).Owner != "" }, time.Minute, time.Millisecond)
	e.answers(nil)
	e.await(t, map[string]string{"A-1": "accepted"})
}

// TestTheBucketIsLostWithThePosition, while nobody sends: the next sender tells all that is kept.
func TestTheBucketIsLostWithThePosition(t *testing.T) {
	t.Parallel()
	server := startBroker(t)
	q := openQueue(t, server)
	e, b := newHookServer(t), newLedger(t, q)
	b.put("A-1", "accepted")
	js := server.JetStream(t)
	bucket, err := js.Stream(t.Context(), "KV_ORDERPOST")
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), "KV_ORDERPOST"))
	made := bucket.CachedInfo().Config
	made.Metadata["orderpost.born"] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano) // A-1 is an hour older
	_, err = js.CreateStream(t.Context(), made)
	require.NoError(t, err)
	run(t, newTestSender(t, q, e.URL, func(c *Config) { c.Begin = beginNow }))
	e.await(t, map[string]string{"A-1": "accepted"})
}
