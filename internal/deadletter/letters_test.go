package deadletter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// seqs returns the sequences of the letters that a listing shows, and makes sure that an index shows the same.
func seqs(t *testing.T, q *queue.Queue, x *LetterIndex) (out []uint64) {
	t.Helper()
	require.NoError(t, EachLetter(t.Context(), q, func(l *settle.Letter) error {
		out = append(out, l.Seq)
		return nil
	}))
	_, err := x.Follow(t.Context(), 0)
	require.NoError(t, err)
	var shown []uint64
	for _, row := range rowsOf(t, x) {
		shown = append(shown, row.Seq)
	}
	require.Equal(t, out, shown)
	require.Equal(t, len(out), x.Totals().Letters)
	return out
}

// rowsOf returns what a page of an index shows.
func rowsOf(t *testing.T, x *LetterIndex) []LetterRow {
	t.Helper()
	all := matcher(t, LetterFilter{})
	rows, err := x.Rows(t.Context(), all, x.Page(all, 0, 100, false).Rows)
	require.NoError(t, err)
	return rows
}

// A letter that no record names is not shown, not replayed and not dropped, until a record names it.
func TestALetterCountsIfARecordNamesIt(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	x := NewLetterIndex(q)
	named := deadLetter(t, q, "A-1")
	second, err := q.Store().PutLetter(t.Context(), "A-1", named)
	require.NoError(t, err)
	require.Equal(t, []uint64{named.Seq}, seqs(t, q, x))
	none, err := LetterAt(t.Context(), q, second)
	require.NoError(t, err)
	require.Nil(t, none)
	left := *named
	left.Seq = second
	require.Equal(t, settle.ReplayGone, replay(t, q, &left, settle.ReplayOptions{}))
	would, err := DryRunDrop(t.Context(), q, []*settle.Letter{&left})
	require.NoError(t, err)
	require.ErrorIs(t, would[0], settle.ErrReplaced)
	gone, err := q.Operator.Drop(t.Context(), &left, settle.Person{Name: "anna"})
	require.NoError(t, err)
	require.True(t, gone)
	ends, err := DryRunResolve(t.Context(), q, []*settle.Letter{&left}, settle.Person{})
	require.NoError(t, err)
	require.ErrorIs(t, ends[0], settle.ErrReplaced)
	a := requireBalanced(t, q)
	require.Equal(t, []int{1, 1}, []int{int(a.Letters), a.Unnamed})

	entry := lookup(t, q, "A-1")
	entry.Record.Letter = second
	_, err = q.Store().PutRecord(t.Context(), "A-1", entry.Record, entry.Seq)
	require.NoError(t, err)
	rowsOf(t, x) // the page of the former letter is what notices that it counts no more
	require.Equal(t, []uint64{second}, seqs(t, q, x))
}

// A replay removes nothing. The letter is listed as under way until the replayed intent has an outcome, and stays
// if that is cancelled.
func TestALetterStaysUntilItsReplayHasAnOutcome(t *testing.T) {
	for end, stays := range map[order.Verdict]bool{order.Accepted: false, order.Rejected: true} {
		q := openQueue(t, startBroker(t), "a")
		x := NewLetterIndex(q)
		l := deadLetter(t, q, "A-1")
		require.False(t, rowsUnderway(t, q, x))
		require.Equal(t, settle.Replayed, replay(t, q, l, settle.ReplayOptions{}))
		require.Equal(t, []uint64{l.Seq}, seqs(t, q, x))
		require.True(t, rowsUnderway(t, q, x))
		require.Equal(t, settle.ReplayedBefore, replay(t, q, l, settle.ReplayOptions{}))
		would, err := DryRunDrop(t.Context(), q, []*settle.Letter{l})
		require.NoError(t, err)
		require.ErrorIs(t, would[0], settle.ErrPending)
		found, err := status.Find(t.Context(), q, "A-1")
		require.NoError(t, err)
		require.True(t, found.Pending)
		require.Equal(t, l.Seq, found.Letters[0].Seq)

		settleAs(t, q, pull(t, q, 1)[0], report(end, order.History{}))
		requireDrained(t, q)
		require.Eventually(t, func() bool { // the broker lists what is gone
			_, err := x.Follow(t.Context(), 0)
			return err == nil && x.Totals().Read == map[bool]uint64{false: 0, true: 1}[stays]
		}, 20*time.Second, 2*time.Millisecond)
		after := seqs(t, q, x)
		require.Equal(t, stays, len(after) == 1)
		require.NotContains(t, after, l.Seq)
		requireBalanced(t, q)
	}
}

func rowsUnderway(t *testing.T, q *queue.Queue, x *LetterIndex) bool {
	t.Helper()
	require.Len(t, seqs(t, q, x), 1)
	return rowsOf(t, x)[0].Underway
}

// An order in doubt keeps its letter beside that of a correction, which was not sent. Each is listed and dropped by
// itself.
func TestACorrectionsLetterBesideTheOrdersOwn(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	x := NewLetterIndex(q)
	publish(t, q, intent("A-1", "first"))
	settleAs(t, q, pull(t, q, 1)[0], order.Report{End: order.EndTotalBudget, Verdict: order.Unsure, History: order.History{Attempts: 3, Unsure: true}})
	requireDrained(t, q)
	own := letterOf(t, q, "A-1")
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"2"}`), ID: "second"})
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkWithheld, d.Work)
	_, err := q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	d.Release()
	requireDrained(t, q)

	found, err := status.Find(t.Context(), q, "A-1")
	require.NoError(t, err)
	require.Len(t, found.Letters, 2)
	correction := found.Letters[0]
	require.Equal(t, []string{"second", "first"}, []string{correction.IntentID, found.Letters[1].IntentID})
	ends, err := DryRunReplay(t.Context(), q, []*settle.Letter{own}, settle.ReplayOptions{ResubmitUnknown: true})
	require.NoError(t, err)
	require.Equal(t, []settle.Replay{settle.ReplayGone}, ends, "the record that she saw was replaced")
	own = found.Letters[1]
	require.Contains(t, found.Advice("A-1")[0].Text, "about a correction")
	require.Equal(t, []uint64{own.Seq, correction.Seq}, seqs(t, q, x))
	for _, row := range rowsOf(t, x) {
		require.Equal(t, order.OutcomeUnknown, row.Outcome)
	}
	ends, err = DryRunReplay(t.Context(), q, []*settle.Letter{own, correction}, settle.ReplayOptions{ResubmitUnknown: true})
	require.NoError(t, err)
	require.Equal(t, []settle.Replay{settle.Replayed, settle.ReplayOtherInDoubt}, ends)
	a := requireBalanced(t, q)
	require.Equal(t, []int{2, 0, 0}, []int{int(a.Letters), int(a.Conflicts), a.Unnamed})

	resolved, err := DryRunResolve(t.Context(), q, []*settle.Letter{own, correction}, settle.Person{})
	require.NoError(t, err)
	require.Equal(t, []error{nil, nil}, resolved)
	gone, err := q.Operator.ResolveLetter(t.Context(), own, order.OutcomeAccepted, settle.Person{Name: "anna", Note: "seen"})
	require.NoError(t, err)
	require.False(t, gone)
	rowsOf(t, x)
	require.Equal(t, []uint64{correction.Seq}, seqs(t, q, x))
	row := rowsOf(t, x)[0]
	require.Equal(t, order.OutcomeRejected, row.Outcome)
	require.Contains(t, row.Reason, "conflict")
	require.EqualValues(t, 1, requireBalanced(t, q).Conflicts)
	would, err := DryRunResolve(t.Context(), q, []*settle.Letter{own, rereadLetter(t, q, correction)}, settle.Person{})
	require.NoError(t, err)
	require.Equal(t, []error{settle.ErrReplaced, settle.ErrNotInDoubt}, would)

	_, err = q.Operator.Drop(t.Context(), correction, settle.Person{Name: "anna"})
	require.NoError(t, err)
	rowsOf(t, x)
	require.Empty(t, seqs(t, q, x))
	requireBalanced(t, q)
}

func rereadLetter(t *testing.T, q *queue.Queue, l *settle.Letter) *settle.Letter {
	t.Helper()
	now, err := LetterAt(t.Context(), q, l.Seq)
	require.NoError(t, err)
	return now
}
