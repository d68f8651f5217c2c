package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// settledResults stores an accepted result of each order, which settled so many intents.
func settledResults(t *testing.T, q *Queue, settled map[string]int, nos ...string) (seqs []uint64) {
	t.Helper()
	for _, no := range nos {
		r := &order.Record{OrderNo: no, IntentID: "i-" + no, Settled: max(1, settled[no]), Verdict: order.Accepted, WriteID: "w-" + no}
		r.SetOutcome(order.OutcomeAccepted)
		token := settle.FileToken(order.Token(no))
		was, err := q.store.Record(t.Context(), token)
		require.NoError(t, err)
		seq, err := q.store.PutRecord(t.Context(), token, r, was.Seq)
		require.NoError(t, err)
		seqs = append(seqs, seq)
	}
	return seqs
}

// ran lets the fleet have run for longer than the retention since its first note.
func ran(t *testing.T, q *Queue) (forgot int) {
	t.Helper()
	run := func() {
		n, err := q.Retention.Run(t.Context())
		require.NoError(t, err)
		forgot += n
	}
	run()
	q.Retention.at = q.Retention.at.Add(-2*q.Retention.Keep - time.Minute)
	run()
	return forgot
}

func forgotten(t *testing.T, q *Queue) uint64 {
	t.Helper()
	n, err := q.Retention.Forgotten(t.Context())
	require.NoError(t, err)
	return n
}

// No wall clock makes results old. A broker that stored them while its clock was 40 days behind, or
// whose clock is ahead now, shows them older than they are.
func TestR11AResultIsAsOldAsTheFleetHasRun(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	q.Retention.Keep = time.Nanosecond // by the broker's clock all is older
	settledResults(t, q, nil, "A-1", "A-2")
	n, err := q.Retention.Run(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	q.Retention.Keep = time.Hour // the fleet has run for long, and the broker's clock says that they are new
	require.Zero(t, ran(t, q))
	require.Zero(t, forgotten(t, q))
}

// A process ends between the note of a purge and the purge, or after it: the next one finishes it, and
// what it takes is counted once.
func TestR11APurgeThatIsCutOffIsFinished(t *testing.T) {
	for name, purged := range map[string]bool{"before the purge": false, "after the purge": true} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "a")
			q.Retention.Keep = time.Nanosecond
			seqs := settledResults(t, q, map[string]int{"A-1": 3}, "A-1", "A-2", "A-3")
			ctx := t.Context()
			info, err := q.reader.info(ctx, q.Conn.n.results)
			require.NoError(t, err)
			s, revision, err := q.Retention.read(ctx, bornAt(info).UnixNano())
			require.NoError(t, err)
			s.Purge = &purge{UpTo: seqs[1], Intents: 4}
			require.NoError(t, q.Retention.write(ctx, &s, revision))
			if purged {
				copied := s
				_, err = (&Retention{q: q, revision: q.Retention.revision}).purge(ctx, &copied)
				require.NoError(t, err)
				require.NoError(t, q.bucket.Put(ctx, retentionKey, s)) // as if the process had not noted it
				require.EqualValues(t, 4, forgotten(t, q))
			} else {
				require.Zero(t, forgotten(t, q), "its results are there to be read")
			}
			next := &Retention{q: q, Keep: time.Hour}
			_, err = next.Run(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 4, forgotten(t, q))
			state, err := q.Results().State(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 1, state.Messages)
		})
	}
}

// Between the reading of results and their purge, a later outcome takes the place of one, and carries its count on.
func TestR11WhatIsReplacedMeanwhileIsNotForgotten(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	ctx := t.Context()
	seqs := settledResults(t, q, map[string]int{"A-1": 2}, "A-1", "A-2", "A-3")
	q.Retention.Keep = time.Nanosecond
	first, err := q.Retention.first(ctx, 1, seqs[1], time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Len(t, first, 2)
	s, revision, err := q.Retention.read(ctx, 0)
	require.NoError(t, err)
	s.Purge = &purge{UpTo: seqs[1], Intents: intentsOf(first)}
	require.NoError(t, q.Retention.write(ctx, &s, revision))
	settledResults(t, q, map[string]int{"A-1": 3}, "A-1")
	n, err := q.Retention.purgeExactly(ctx, &s, first)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.EqualValues(t, 1, s.Forgotten, "of A-2")
}

// Two processes that believe to lead count no time twice.
func TestR11TwoLeadersCountNoTimeTwice(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	a, b := &Retention{q: q, Keep: time.Hour}, &Retention{q: q, Keep: time.Hour}
	run := func(rt *Retention, elapsed time.Duration) {
		t.Helper()
		if !rt.at.IsZero() {
			rt.at = rt.at.Add(-elapsed)
		}
		_, err := rt.Run(t.Context())
		require.NoError(t, err)
	}
	run(a, 0)
	run(b, 0)
	for range 3 {
		run(a, time.Hour)
		run(b, time.Hour)
	}
	s, _, err := a.read(t.Context(), 0)
	require.NoError(t, err)
	require.Less(t, s.Ran, time.Hour)
	for range 3 {
		run(b, time.Hour)
	}
	s, _, err = a.read(t.Context(), 0)
	require.NoError(t, err)
	require.InDelta(t, 3*time.Hour, s.Ran, float64(time.Minute))
}

// What is kept was stored in an atomic batch. Its copy is a write of its own.
func TestR11WhatIsKeptIsStoredByItself(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	writeTogether(t, q, []*outgoing{conditional(q, "A-1", 0), conditional(q, "A-2", 0), conditional(q, "A-3", 0)})
	q.Retention.Keep = time.Nanosecond
	require.Zero(t, ran(t, q))
	for no, kept := range map[string]bool{"A-1": true, "A-2": true, "A-3": false} { // the newest stays where it is
		m, err := q.reader.lastMsg(t.Context(), q.Conn.n.results, q.Conn.n.resPre+no)
		require.NoError(t, err)
		require.Equal(t, kept, Kept(m), no)
		require.Equal(t, kept, m.Seq > 3, no)
		require.Equal(t, "accepted", m.Header.Get(settle.HeaderOutcome))
	}
}
