package settle_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/queuetest"
)

// R4: the broker stored the letter, or did not, and the connection broke before the confirmation arrived. What was
// stored twice is named once.
func TestR4AnUnconfirmedLetterIsStoredAgain(t *testing.T) {
	for name, when := range map[string]netcut.Cut{"it was stored": netcut.After, "it was not": netcut.Before} {
		t.Run(name, func(t *testing.T) {
			cuts := 0
			cut := &netcut.Dialer{Decide: func(subject string, _ []byte) netcut.Cut {
				if strings.HasPrefix(subject, "orders.dead.") {
					if cuts++; cuts == 1 {
						return when
					}
				}
				return netcut.Pass
			}}
			s := startBroker(t)
			q, b := openCut(t, s, "a", cut), openQueue(t, s, "b")
			publish(t, q, intent("A-1", "i1"))
			d := pull(t, q, 1)[0]
			settleAs(t, q, d, report(order.Rejected, d.History))
			require.Equal(t, 2, cuts)
			require.False(t, d.Lease().Valid(), "so it was left to the next delivery")
			d = again(t, d, b)
			settleAs(t, b, d, report(order.Rejected, d.History))
			requireDrained(t, b)
			require.Len(t, lettersOf(t, b, "A-1"), 1)
			require.Equal(t, body("A-1"), letterOf(t, b, "A-1").Body)
			requireBalanced(t, b)
		})
	}
}

// About tells of a letter what its record says by now.
func TestAbout(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	stored := &settle.Letter{OrderNo: "A-1", Outcome: order.OutcomeRejected, Reason: "then", IntentID: "i1", BodyHash: "aa", Body: body("A-1"), Seq: 7, FiledAt: at, FiledUnder: "A-1",
		Status: 422, Subject: "orders.new.A-1", Headers: map[string][]string{"A": {"b"}}, Trail: []order.Attempt{{Status: 422}}}
	bare := &settle.Letter{Body: stored.Body, Seq: 7, FiledUnder: "A-1"}
	record := func(o order.Outcome) *order.Record {
		r := &order.Record{OrderNo: "A-1", IntentID: "i1", BodyHash: "aa", Batch: "b1", Source: "march.csv:7", Reason: "now", SettledAt: at, Position: order.Position{Seq: 3, EnqueuedAt: at}}
		r.SetOutcome(o)
		return r
	}
	own := record(order.OutcomeUnknown)
	own.Letter, own.Attempts, own.Unsure = 7, 4, true
	listed := record(order.OutcomeAccepted)
	listed.Conflicts = []order.Conflict{{IntentID: "i0", Letter: 6}, {IntentID: "i1", BodyHash: "aa", Letter: 7, Batch: "b1", Source: "march.csv:7", RefusedAt: at, Position: order.Position{Seq: 3, EnqueuedAt: at}}}
	withheld, settled := *listed, *listed
	withheld.SetOutcome(order.OutcomeUnknown)
	settled.SetOutcome(order.OutcomeRejected)
	settled.By = "anna"
	corrected := record(order.OutcomeNone)
	corrected.IntentID, corrected.Earlier = "replay:7", []order.Earlier{{IntentID: "replay:5", Outcome: "cancelled"}, {IntentID: "i1", Batch: "b1", Outcome: "expired", Reason: "too late", At: at, Attempts: 2, Letter: 7}}
	for name, c := range map[string]struct {
		r        *order.Record
		outcome  order.Outcome
		reason   string
		conflict bool
		unsure   bool
		attempts int
		replays  int
	}{
		"the record's own":        {own, order.OutcomeUnknown, "now", false, true, 4, 0},
		"a conflict":              {listed, order.OutcomeRejected, "conflict: the order_no was accepted before with another body", true, false, 0, 0},
		"withheld":                {&withheld, order.OutcomeUnknown, "", false, true, 0, 0},
		"withheld, and settled":   {&settled, order.OutcomeRejected, "", false, false, 0, 0},
		"a correction is pending": {corrected, order.OutcomeExpired, "too late", false, false, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			for _, l := range []*settle.Letter{stored, bare} {
				before := *l
				now := l.About(c.r)
				require.NotNil(t, now)
				require.Equal(t, before, *l, "the argument stays as it is")
				reason := c.reason
				if reason == "" {
					reason = l.Reason
				}
				require.Equal(t, []any{"A-1", "i1", c.outcome, reason, c.conflict, c.unsure, c.attempts, c.replays}, []any{now.OrderNo, now.IntentID, now.Outcome, now.Reason, now.Conflict, now.Unsure, now.Attempts, now.Replays})
				require.Equal(t, l.Body, now.Body)
				require.Equal(t, at, now.FiledAt)
				require.Equal(t, l.Subject, now.Subject)
				if l == bare {
					require.Equal(t, "b1", now.Batch)
					require.NotEmpty(t, now.BodyHash)
				}
			}
			other := *stored
			other.Seq = 8
			require.Nil(t, other.About(c.r))
		})
	}
	require.Nil(t, stored.About(nil))
	require.Nil(t, (*settle.Letter)(nil).About(own))
	require.Nil(t, (&settle.Letter{}).About(own), "sequence 0 is none")
}

// clock is a Runtime whose time passes when a test says so.
type clock struct {
	settle.Runtime
	now time.Time
}

func (c *clock) Now() time.Time { return c.now }

// sweeper returns a Sweeper over a store, and the clock by which it goes.
func sweeper(store settle.Store) (*settle.Sweeper, *clock) {
	c := &clock{Runtime: settle.RealTime(), now: time.Now()}
	return settle.New(settle.Config{Worker: "feeds", IntentSubjects: "orders.new."}, store, c).Sweeper, c
}

// R4: what no record names is removed after an hour, and nothing else: not what has no record at all, because results were lost.
func TestR4WhatNoRecordNamesIsSwept(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	store := q.Store()
	file := func(no string) uint64 {
		seq, err := store.PutLetter(t.Context(), no, &settle.Letter{OrderNo: no, Outcome: order.OutcomeRejected, IntentID: "i0"})
		require.NoError(t, err)
		return seq
	}
	inert, alone := file("A-1"), file("without-a-record")
	deadLetter(t, q, "A-1", exhaustedInDoubt())
	withheld(t, q)
	corrected := deadLetter(t, q, "A-2", rejected())
	publish(t, q, intent("A-2", "i3"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, order.Report{End: order.EndHandBack, History: d.History})
	require.Equal(t, corrected.Seq, lookup(t, q, "A-2").EarlierWith(corrected.Seq).Letter)
	unreadable := file("A-3")
	_, err := s.JetStream(t).Publish(t.Context(), "orders.results.A-3", []byte("of a newer version"))
	require.NoError(t, err)

	sw, now := sweeper(store)
	sweep := func(after time.Duration, want int) {
		t.Helper()
		now.now = now.now.Add(after)
		removed, err := sw.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, removed)
	}
	stays := func(seq uint64, no string) {
		t.Helper()
		l, err := store.Letter(t.Context(), no, seq)
		require.NoError(t, err)
		require.NotNil(t, l)
	}
	sweep(0, 0)
	sweep(time.Hour-time.Nanosecond, 0)
	young := file("A-1")
	stays(inert, "A-1")
	sweep(time.Nanosecond, 1)
	stays(young, "A-1")
	require.Len(t, lettersOf(t, q, "A-1"), 2)
	require.Len(t, lettersOf(t, q, "A-2"), 1)
	stays(unreadable, "A-3")
	stays(alone, "without-a-record")
	sweep(time.Hour-time.Nanosecond, 0)
	stays(young, "A-1")
	sweep(time.Nanosecond, 1)
	requireLetters(t, q, 5)

	entry, err := q.Ledger.Lookup(t.Context(), "A-2")
	require.NoError(t, err)
	_, err = store.PutRecord(t.Context(), "A-2", entry.Record.WithoutLetter(corrected.Seq), entry.Seq) // and the removal failed
	require.NoError(t, err)
	sweep(time.Hour, 0)
	sweep(settle.SweepAll, 1)
	requireLetters(t, q, 4)
}

// R4: the stream of letters was made again, and gives its sequences to letters whose writers are about to name them.
func TestR4ASweepLeavesTheLettersOfAStreamThatWasMadeAgain(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	store := q.Store()
	file := func() {
		_, err := store.PutLetter(t.Context(), "A-1", &settle.Letter{OrderNo: "A-1", Outcome: order.OutcomeRejected})
		require.NoError(t, err)
	}
	for range 5 {
		file()
	}
	accepted(t, store)
	sw, now := sweeper(store)
	_, err := sw.Sweep(t.Context())
	require.NoError(t, err)
	queuetest.Remake(t, s.Server, false, "ORDERS_DEAD")
	requireLetters(t, q, 0)
	file()
	file()
	for _, want := range []int{0, 2} {
		now.now = now.now.Add(time.Hour)
		removed, err := sw.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, removed)
	}
}

// accepted stores that order A-1 exists.
func accepted(t *testing.T, store settle.Store) {
	t.Helper()
	_, err := store.PutRecord(t.Context(), "A-1", &order.Record{OrderNo: "A-1", Word: order.OutcomeAccepted.String(), IntentID: "i1", WriteID: "w1", Settled: 1}, 0)
	require.NoError(t, err)
}

// unanswered is a store that fails at one kind of request.
type unanswered struct {
	settle.Store
	listing, removal error
}

func (s *unanswered) LettersFrom(ctx context.Context, seq uint64, most int) ([]settle.LetterRef, error) {
	if s.listing != nil {
		return nil, s.listing
	}
	return s.Store.LettersFrom(ctx, seq, most)
}

func (s *unanswered) DeleteLetter(ctx context.Context, token string, seq uint64) error {
	if s.removal != nil {
		return s.removal
	}
	return s.Store.DeleteLetter(ctx, token, seq)
}

// A sweep that is cut off goes on where it was.
func TestASweepThatIsCutOffGoesOn(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	store := &unanswered{Store: q.Store()}
	_, err := store.PutLetter(t.Context(), "A-1", &settle.Letter{OrderNo: "A-1", Outcome: order.OutcomeRejected})
	require.NoError(t, err)
	accepted(t, store)
	sw, now := sweeper(store)
	_, err = sw.Sweep(t.Context())
	require.NoError(t, err)
	now.now = now.now.Add(time.Hour)
	for _, fails := range []unanswered{{listing: settle.ErrUnreachable}, {removal: settle.ErrUnreachable}, {listing: settle.ErrUnreachable}} {
		store.listing, store.removal = fails.listing, fails.removal
		_, err = sw.Sweep(t.Context())
		require.ErrorIs(t, err, settle.ErrUnreachable)
	}
	store.listing, store.removal = nil, nil
	removed, err := sw.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, removed)
}
