package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

// place is a broker with a journal.
type place struct {
	t  *testing.T
	s  *queuetest.Broker
	q  *queue.Queue
	js jetstream.JetStream
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, s: queuetest.Start(t)}
	queuetest.Open(t, p.s, "w").Close() // makes the streams
	p.q, p.js = p.open(nil), p.s.JetStream(t)
	return p
}

// open connects as a command does.
func (p *place) open(cut *netcut.Dialer) *queue.Queue {
	p.t.Helper()
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Missing, cfg.BrokerWait = p.s.URL, p.s.Token, queue.RefuseMissing, 10*time.Second
	opts := []nats.Option{nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0)}
	if cut != nil {
		opts = append(opts, nats.SetCustomDialer(cut))
		if cut.Stay {
			cfg.BrokerWait = 50 * time.Millisecond
		}
	}
	return queuetest.Connect(p.t, cfg, opts...)
}

// limit sets how many entries the journal takes.
func (p *place) limit(msgs int64) {
	p.t.Helper()
	s, err := p.js.Stream(p.t.Context(), "ORDERS_JOURNAL")
	require.NoError(p.t, err)
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs = msgs
	_, err = p.js.UpdateStream(p.t.Context(), cfg)
	require.NoError(p.t, err)
}

func (p *place) items(query Query) (items []Item) {
	p.t.Helper()
	bad, err := All(p.t.Context(), p.q, query, func(i Item) bool { items = append(items, i); return true })
	require.NoError(p.t, err)
	require.Empty(p.t, bad)
	return items
}

var anna = Actor{Name: "anna@ops", Known: ByUser}

func (p *place) begin(about About) *Act {
	p.t.Helper()
	about.Actor = anna
	a, err := New(p.q, "test", "v0").Begin(p.t.Context(), Intention{About: about})
	require.NoError(p.t, err)
	return a
}

// TestAnActHasTwoHalves: the intention is there before the effect, the result
// joins it.
func TestAnActHasTwoHalves(t *testing.T) {
	p := newPlace(t)
	filter := map[string][]string{"outcome": {"exhausted"}, "since": {"2026-01-02T03:04:05Z"}}
	a := p.begin(About{Kind: Replay, Filter: filter, LastSeq: 7, Note: "ticket 17", Expected: map[string]int{"replayed": 3}})
	got := p.items(Query{})
	require.Len(t, got, 1)
	require.Nil(t, got[0].Result)
	require.NoError(t, a.End(t.Context(), Result{End: Partial, Counts: map[string]int{"replayed": 2, "pending": 1, "late": 0}, Error: "1 stayed"}))
	got = p.items(Query{})
	require.Len(t, got, 1)
	i := got[0]
	require.Equal(t, a.ID(), i.ID)
	require.Equal(t, About{Kind: Replay, Actor: anna, Filter: filter, LastSeq: 7, Note: "ticket 17", Expected: map[string]int{"replayed": 3}}, i.About)
	require.Equal(t, &Result{End: Partial, Counts: map[string]int{"replayed": 2, "pending": 1}, Error: "1 stayed"}, i.Result)
	require.False(t, i.Ended.Before(i.Stored))
	require.NotEmpty(t, i.Host)
}

// TestActsOnOneOrder are found by its number, whatever bytes it has, and those on
// its import beside them.
func TestActsOnOneOrder(t *testing.T) {
	p := newPlace(t)
	odd := []string{"A-100", "A.100", "a b*>\xff", strings.Repeat("ü", 127), "A-1"}
	for _, no := range odd {
		require.NoError(t, p.begin(About{Kind: Resolve, OrderNo: no}).End(t.Context(), Result{End: Done}))
	}
	p.begin(About{Kind: Import, Batch: "march.v1"})
	p.begin(About{Kind: Hold})
	for _, no := range odd {
		items, err := OfOrder(t.Context(), p.q, no, "march.v1")
		require.NoError(t, err)
		require.Len(t, items, 2, "%q", no)
		require.Equal(t, Import, items[0].Kind)
		require.Equal(t, strings.ToValidUTF8(no, "\uFFFD"), items[1].OrderNo)
		require.Equal(t, Done, items[1].Result.End)
	}
	items, err := OfOrder(t.Context(), p.q, "A", "")
	require.NoError(t, err)
	require.Empty(t, items)
}

// TestPagesNewestFirst: each act once, with its result, also where that is pages
// away.
func TestPagesNewestFirst(t *testing.T) {
	p := newPlace(t)
	const n = 700
	first := p.begin(About{Kind: Replay, Note: "0"})
	for i := 1; i < n; i++ {
		a := p.begin(About{Kind: []Kind{Hold, Resume}[i%2], Note: fmt.Sprint(i)})
		if i%3 > 0 {
			require.NoError(t, a.End(t.Context(), Result{End: Done}))
		}
	}
	require.NoError(t, first.End(t.Context(), Result{End: Stopped}))
	query, want, pages := Query{Limit: 100}, n-1, 0
	for {
		page, err := Read(t.Context(), p.q, query)
		require.NoError(t, err)
		for _, i := range page.Items {
			require.Equal(t, fmt.Sprint(want), i.Note)
			require.Equal(t, want%3 > 0 || want == 0, i.Result != nil, "act %d", want)
			want--
		}
		pages++
		if query.Before = page.Next; query.Before == 0 {
			break
		}
	}
	require.Equal(t, -1, want)
	require.Equal(t, 7, pages)

	require.Len(t, p.items(Query{Kind: Hold, Limit: 10}), n/2-1)
	require.Len(t, p.items(Query{By: "anna"}), n)
	require.Empty(t, p.items(Query{By: "ann"}))
	all := p.items(Query{})
	middle := all[n/2].Stored
	require.Len(t, p.items(Query{Since: middle}), len(all)-len(p.items(Query{Until: middle})))
}

// TestNobodyTakesBack: entries cannot be deleted, purged, replaced or made to
// expire.
func TestNobodyTakesBack(t *testing.T) {
	p := newPlace(t)
	a := p.begin(About{Kind: Hold})
	s, err := p.js.Stream(t.Context(), "ORDERS_JOURNAL")
	require.NoError(t, err)
	require.Error(t, s.DeleteMsg(t.Context(), 1))
	require.Error(t, s.SecureDeleteMsg(t.Context(), 1))
	require.Error(t, s.Purge(t.Context()))
	m, err := s.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	for name, header := range map[string]nats.Header{"another body": nil, "roll-up": {"Nats-Rollup": {"all"}}, "expiry": {"Nats-TTL": {"1s"}}} {
		_, err := p.js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: header, Data: []byte("{}")})
		require.Error(t, err, name)
	}
	cfg := s.CachedInfo().Config
	cfg.DenyDelete, cfg.DenyPurge = false, false
	_, err = p.js.UpdateStream(t.Context(), cfg)
	require.Error(t, err)
	require.NoError(t, a.End(t.Context(), Result{End: Done}))
	require.Len(t, p.items(Query{}), 1)
}

// TestCrashes: a program that dies between intention and effect, or between
// effect and result, leaves an act without a result.
func TestCrashes(t *testing.T) {
	for name, step := range map[string]string{"before the effect": ".intention", "after the effect": ".result"} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			cut := &netcut.Dialer{Stay: true, Decide: func(subject string, _ []byte) netcut.Cut {
				switch {
				case !strings.HasPrefix(subject, "orders.journal.") || !strings.HasSuffix(subject, step):
					return netcut.Pass
				case step == ".result":
					return netcut.Before
				}
				return netcut.After
			}}
			about := About{Kind: Drop, Actor: anna, OrderNo: "A-1"}
			a, err := New(p.open(cut), "test", "v0").Begin(t.Context(), Intention{About: about})
			if step == ".result" {
				require.NoError(t, err)
				require.ErrorContains(t, a.End(t.Context(), Result{End: Done}), "is not in the journal")
			} else {
				require.ErrorIs(t, err, queue.ErrUnreachable, "the effect must not happen")
			}
			items, err := OfOrder(t.Context(), p.q, "A-1", "")
			require.NoError(t, err)
			require.Len(t, items, 1)
			require.Nil(t, items[0].Result)
		})
	}
}

// TestALostConfirmationStoresOnce: what was stored is written again and stays
// one entry.
func TestALostConfirmationStoresOnce(t *testing.T) {
	p := newPlace(t)
	cuts := 0
	q := p.open(&netcut.Dialer{Decide: func(subject string, _ []byte) netcut.Cut {
		if strings.HasPrefix(subject, "orders.journal.") && cuts < 2 {
			cuts++
			return netcut.After
		}
		return netcut.Pass
	}})
	a, err := New(q, "test", "v0").Begin(t.Context(), Intention{About: About{Kind: Resume, Actor: anna}})
	require.NoError(t, err)
	require.Equal(t, 2, cuts)
	require.NoError(t, a.End(t.Context(), Result{End: Done}))
	s, err := p.js.Stream(t.Context(), "ORDERS_JOURNAL")
	require.NoError(t, err)
	require.EqualValues(t, 2, s.CachedInfo().State.Msgs)
}

// TestAFullJournal refuses every act but those that make things safer.
func TestAFullJournal(t *testing.T) {
	p := newPlace(t)
	p.begin(About{Kind: Hold})
	p.limit(1)
	j := New(p.q, "test", "v0")
	_, err := j.Begin(t.Context(), Intention{About: About{Kind: Replay, Actor: anna}})
	require.ErrorIs(t, err, ErrNotJournaled)
	require.ErrorContains(t, err, "nothing was done")
	require.ErrorContains(t, err, "ORDERS_JOURNAL")
	_, err = j.Begin(t.Context(), Intention{About: About{Kind: Limit, Actor: anna}, Safer: func(context.Context) bool { return false }})
	require.ErrorIs(t, err, ErrNotJournaled)

	lost, err := j.Begin(t.Context(), Intention{About: About{Kind: Hold, Actor: anna}, Safer: Always})
	require.NoError(t, err)
	require.Error(t, lost.Unannounced())
	require.ErrorContains(t, lost.End(t.Context(), Result{End: Done}), "is not in the journal")

	late, err := j.Begin(t.Context(), Intention{About: About{Kind: Cancel, Actor: anna, Batch: "march"}, Safer: Always})
	require.NoError(t, err)
	p.limit(-1)
	require.NoError(t, late.End(t.Context(), Result{End: Done, Counts: map[string]int{"cancelled": 3}}))
	for _, query := range []Query{{Kind: Cancel}, {Batch: "march"}} {
		items := p.items(query)
		require.Len(t, items, 1)
		require.True(t, items[0].Unannounced)
		require.Equal(t, 3, items[0].Result.Counts["cancelled"])
	}
}

// With a broker that takes no entries, the result of an act that went on without its
// intention is not waited for either: a hold is in effect, and its person must hear so.
func TestAnUnannouncedActEndsSoon(t *testing.T) {
	p := newPlace(t)
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Missing, cfg.BrokerWait = p.s.URL, p.s.Token, queue.RefuseMissing, time.Hour
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	p.s.Stop()
	act, err := New(q, "test", "v0").Begin(t.Context(), Intention{About: About{Kind: Hold, Actor: Actor{Name: "anna"}}, Safer: Always})
	require.NoError(t, err)
	require.Error(t, act.Unannounced())
	ended := make(chan error, 1)
	go func() { ended <- act.End(t.Context(), Result{End: Done}) }()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "is not in the journal")
	case <-time.After(time.Minute):
		t.Fatal("it waits for the journal")
	}
}

// TestAnIntentionThatArrivesLate: the act went on without it, and is listed once.
func TestAnIntentionThatArrivesLate(t *testing.T) {
	p := newPlace(t)
	a := p.begin(About{Kind: Hold})
	a.unannounced = errors.New("no answer in time") // but it was stored
	require.NoError(t, a.End(t.Context(), Result{End: Done}))
	items := p.items(Query{})
	require.Len(t, items, 1)
	require.Equal(t, Done, items[0].Result.End)
}

// TestAnInterruptedActHasAResult: Ctrl-C ends the act, not its record.
func TestAnInterruptedActHasAResult(t *testing.T) {
	p := newPlace(t)
	a := p.begin(About{Kind: Replay})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, a.End(ctx, Result{End: Stopped}))
	require.Equal(t, Stopped, p.items(Query{})[0].Result.End)
	_, err := New(p.q, "test", "v0").Begin(ctx, Intention{About: About{Kind: Hold}, Safer: Always})
	require.ErrorIs(t, err, context.Canceled)
}

// TestWithoutAJournal: the broker has lost it. Reading finds nothing, and no act begins.
func TestWithoutAJournal(t *testing.T) {
	p := newPlace(t)
	require.NoError(t, p.js.DeleteStream(t.Context(), "ORDERS_JOURNAL"))
	require.Empty(t, p.items(Query{}))
	require.Empty(t, p.items(Query{OrderNo: "A-1"}))
	last, err := Last(t.Context(), p.q)
	require.NoError(t, err)
	require.Zero(t, last)
	_, err = New(p.q, "test", "v0").Begin(t.Context(), Intention{About: About{Kind: Replay}})
	require.ErrorIs(t, err, queue.ErrNoJournal)
}

// TestFollow passes each act when it begins and when it ends.
func TestFollow(t *testing.T) {
	p := newPlace(t)
	p.begin(About{Kind: Drop})
	last, err := Last(t.Context(), p.q)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	seen, done := make(chan Item, 10), make(chan error, 1)
	go func() { done <- Follow(ctx, p.q, Query{Kind: Hold}, last, func(i Item) { seen <- i }) }()
	a := p.begin(About{Kind: Hold})
	p.begin(About{Kind: Resume})
	require.Nil(t, (<-seen).Result)
	require.NoError(t, a.End(t.Context(), Result{End: Done}))
	require.Equal(t, Done, (<-seen).Result.End)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Empty(t, seen)
}
