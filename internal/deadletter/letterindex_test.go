package deadletter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

func indexed(x *LetterIndex) (rows []LetterRow) {
	for _, e := range x.entries {
		if e.kind != nil {
			rows = append(rows, e.row())
		}
	}
	return rows
}

func listed(t *testing.T, q *queue.Queue, m *LetterMatcher) (rows []LetterRow) {
	t.Helper()
	require.NoError(t, LetterPages(t.Context(), q, func(page []*settle.Letter) error {
		for _, l := range page {
			if m.Selects(l) {
				rows = append(rows, LetterRow{Seq: l.Seq, OrderNo: l.OrderNo, FiledAt: l.FiledAt.UTC().Truncate(time.Millisecond), LetterKind: kindOf(l)})
			}
		}
		return nil
	}))
	return rows
}

func matcher(t *testing.T, f LetterFilter) *LetterMatcher {
	t.Helper()
	m, wrong := f.Compile(time.Now())
	require.Empty(t, wrong)
	return m
}

// requireIndexed follows the stream and compares the index with a fresh listing.
func requireIndexed(t *testing.T, x *LetterIndex) {
	t.Helper()
	want := listed(t, x.queue, matcher(t, LetterFilter{}))
	require.Eventually(t, func() bool {
		_, err := x.Follow(t.Context(), time.Minute)
		return err == nil && len(indexed(x)) == len(want) && !x.Totals().Behind
	}, 20*time.Second, 2*time.Millisecond)
	require.Equal(t, want, indexed(x))
	require.Equal(t, len(want), x.Totals().Letters)
	for _, f := range []LetterFilter{{}, {Outcomes: []string{"unknown"}}, {OrderNo: "A-*5"}, {Reason: "RULE 1"}, {Batch: "b2", Statuses: []string{"2xx"}}, {Since: "1h", Until: "0s"}, {OrderNo: "B"}} {
		m := matcher(t, f)
		rows := listed(t, x.queue, m)
		s := x.Select(m)
		require.Equal(t, len(rows), s.Total, "%+v", f)
		n := 0
		for _, g := range s.Groups {
			n += g.N
		}
		require.Equal(t, s.Total, n)
		require.Equal(t, rows, pagesOf(x, m, 7), "%+v", f)
	}
}

// pagesOf goes forwards through all pages, and fails if the way back differs.
func pagesOf(x *LetterIndex, m *LetterMatcher, n int) (rows []LetterRow) {
	var from uint64
	for {
		p := x.Page(m, from, n, false)
		if p.Before != (len(rows) > 0) {
			return nil
		}
		if len(rows) > 0 && len(p.Rows) > 0 {
			if back := x.Page(m, p.Rows[0].Seq, n, true); len(back.Rows) == 0 || back.Rows[len(back.Rows)-1] != rows[len(rows)-1] || !back.After {
				return nil
			}
		}
		rows = append(rows, p.Rows...)
		if !p.After {
			return rows
		}
		from = p.Rows[len(p.Rows)-1].Seq + 1
	}
}

// file files letters with different outcomes, reasons and imports.
func file(t *testing.T, q *queue.Queue, rnd *rand.Rand, nos ...string) {
	t.Helper()
	var in []settle.Intent
	for i, no := range nos {
		batch := fmt.Sprint("b", rnd.IntN(3))
		in = append(in, settle.Intent{OrderNo: no, Body: body(no), ID: fmt.Sprintf("%s:%s:%d:%d", batch, no, i, rnd.Uint64()), Batch: batch})
	}
	publish(t, q, in...)
	settleSome(t, q, rnd, len(nos))
}

func settleSome(t *testing.T, q *queue.Queue, rnd *rand.Rand, n int) {
	t.Helper()
	for _, d := range pull(t, q, n) {
		r := report(order.Rejected, order.History{})
		r.Status, r.Reason = 400+rnd.IntN(3)*50, fmt.Sprint("rule ", rnd.IntN(3))
		if rnd.IntN(3) == 0 {
			r = order.Report{End: order.EndTotalBudget, Verdict: order.Unsure, Status: 504, Reason: "no answer", History: order.History{Attempts: 3, Unsure: true}}
		}
		settleAs(t, q, d, r)
	}
	requireDrained(t, q)
}

// TestTheIndexFollowsTheLetters: after random replays, drops, resolutions and new
// letters the index is what a listing shows, also after the broker was restarted.
func TestTheIndexFollowsTheLetters(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	x := NewLetterIndex(q)
	requireIndexed(t, x)

	var nos []string
	for i := range 60 {
		nos = append(nos, fmt.Sprint("A-", i))
	}
	file(t, q, rnd, nos...)
	requireIndexed(t, x)
	anna := settle.Person{Name: "anna", Note: "test"}
	for round := range 12 {
		replayed := 0
		for range rnd.IntN(20) {
			l := letterOf(t, q, nos[rnd.IntN(len(nos))])
			if l == nil {
				continue
			}
			switch rnd.IntN(3) {
			case 0:
				if _, err := q.Operator.Drop(t.Context(), l, anna); !errors.Is(err, settle.ErrPending) {
					require.NoError(t, err)
				}
			case 1:
				if _, err := q.Operator.Resolve(t.Context(), l.OrderNo, "", order.OutcomeAccepted, anna); !errors.Is(err, settle.ErrNotInDoubt) && !errors.Is(err, settle.ErrPending) {
					require.NoError(t, err)
				}
			default:
				if end, err := q.Operator.Replay(t.Context(), l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna}); end == settle.Replayed {
					require.NoError(t, err)
					replayed++
				}
			}
		}
		if rnd.IntN(2) == 0 {
			requireIndexed(t, x)
		}
		settleSome(t, q, rnd, replayed)
		no := fmt.Sprint("N-", round)
		nos = append(nos, no)
		file(t, q, rnd, no)
		if round == 7 {
			s.Stop()
			_, err := x.Follow(t.Context(), time.Second)
			require.Error(t, err)
			s.Restart(t)
			require.Eventually(t, q.Conn.Connected, time.Minute, 5*time.Millisecond)
		}
		requireIndexed(t, x)
	}
	fresh := NewLetterIndex(q)
	requireIndexed(t, fresh)
	require.Equal(t, indexed(x), indexed(fresh))

	js := s.JetStream(t) // another stream under the same name
	stream, err := js.Stream(t.Context(), "ORDERS_DEAD")
	require.NoError(t, err)
	config := stream.CachedInfo().Config
	require.NoError(t, js.DeleteStream(t.Context(), "ORDERS_DEAD"))
	_, err = js.CreateStream(t.Context(), config)
	require.NoError(t, err)
	requireIndexed(t, x)
	require.Zero(t, x.Totals().Letters)
}

// TestTheIndexReadsInTheBackground: readings are short, and what was read is kept.
func TestTheIndexReadsInTheBackground(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range 6 {
		var nos []string
		for j := range 100 {
			nos = append(nos, fmt.Sprintf("A-%d-%d", i, j))
		}
		file(t, q, rnd, nos...)
	}
	x := NewLetterIndex(q)
	more, err := x.Follow(t.Context(), 0)
	require.NoError(t, err)
	require.True(t, more)
	totals := x.Totals()
	require.Equal(t, []uint64{256, 600}, []uint64{totals.Read, totals.Of})
	require.True(t, totals.Behind)
	require.False(t, totals.Whole)
	for more {
		more, err = x.Follow(t.Context(), 0)
		require.NoError(t, err)
	}
	require.True(t, x.Totals().Whole)
	requireIndexed(t, x)

	// What the broker cannot list is found by reading again.
	for i := range 50 {
		_, err := q.Operator.Drop(t.Context(), letterOf(t, q, fmt.Sprintf("A-3-%d", i)), settle.Person{Name: "anna"})
		require.NoError(t, err)
	}
	for more = true; more; {
		more, err = x.reread(t.Context(), time.Now())
		require.NoError(t, err)
	}
	require.Equal(t, 550, x.Totals().Letters)
	requireIndexed(t, x)

	// What is missing, although it is stored, is read again.
	for _, row := range x.Page(matcher(t, LetterFilter{}), 0, 20, false).Rows {
		x.removeIf(row.Seq, row.Seq, func(uint64) bool { return true })
	}
	require.Equal(t, 530, x.Totals().Letters)
	requireIndexed(t, x)
}

// TestTheKindsAreBounded: reasons that name the order do not fill the memory.
func TestTheKindsAreBounded(t *testing.T) {
	x := NewLetterIndex(nil)
	var kinds []*letterCount
	for i := range 3 * maxKinds {
		kinds = append(kinds, x.countKind(LetterKind{Outcome: order.OutcomeRejected, Reason: fmt.Sprint("order ", i), Batch: fmt.Sprint("b", i)}))
	}
	require.LessOrEqual(t, len(x.kinds), 2*maxKinds+1)
	require.Equal(t, OtherReasons, kinds[maxKinds].Reason)
	require.Equal(t, OtherImports, kinds[len(kinds)-1].Batch)
	for _, k := range kinds {
		x.forget(0, k)
	}
	require.Empty(t, x.kinds)
	require.Zero(t, x.kindBytes)
}

// TestGlobs holds the patterns against regular expressions.
func TestGlobs(t *testing.T) {
	for range 20_000 {
		pattern, text := randomText(`ab*?\ü`), randomText("abü*?")
		var expr strings.Builder
		escaped := false
		for _, r := range pattern {
			switch {
			case !escaped && r == '\\':
				escaped = true
				continue
			case !escaped && r == '*':
				expr.WriteString(".*")
			case !escaped && r == '?':
				expr.WriteString(".")
			default:
				expr.WriteString(regexp.QuoteMeta(string(r)))
			}
			escaped = false
		}
		want := regexp.MustCompile(`(?s)\A` + expr.String() + `\z`).MatchString(text)
		require.Equal(t, want, newGlob(pattern).matches(text), "%q %q", pattern, text)
	}
}

func randomText(from string) string {
	runes := []rune(from)
	out := make([]rune, rand.IntN(8))
	for i := range out {
		out[i] = runes[rand.IntN(len(runes))]
	}
	return string(out)
}

// Letters that came by a subject of no order_no, or whose header was cut, are in the index as in a listing, also if
// their records name them only after they were read.
func TestTheIndexKnowsOddLetters(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	js := s.JetStream(t)
	x := NewLetterIndex(q)
	for i, token := range []string{"a%2eb", "\u00e9", "\xe9"} {
		_, err := js.Publish(t.Context(), "orders.new."+token, fmt.Appendf(nil, `{"order_no":"a.b","timeout":30,"n":%d}`, i))
		require.NoError(t, err)
		d := pull(t, q, 1)[0]
		settleAs(t, q, d, order.Report{End: order.EndInvalid, Reason: d.InvalidReason()})
		requireDrained(t, q)
	}
	for _, no := range []string{"A-1", "A-2"} {
		deadLetter(t, q, no)
	}
	require.Len(t, seqs(t, q, x), 5)
	name := func(no string) uint64 { // another letter without a header in place of the order's own
		ack, err := js.Publish(t.Context(), "orders.dead."+no, body(no))
		require.NoError(t, err)
		_, err = x.Follow(t.Context(), 0)
		require.NoError(t, err)
		entry := lookup(t, q, no)
		entry.Record.Letter = ack.Sequence
		_, err = q.Store().PutRecord(t.Context(), no, entry.Record, entry.Seq)
		require.NoError(t, err)
		return ack.Sequence
	}
	cut := name("A-1")
	rowsOf(t, x)
	require.Contains(t, seqs(t, q, x), cut)
	one := matcher(t, LetterFilter{OrderNo: "A-1", Reason: "rule 2"})
	rows, err := x.Rows(t.Context(), one, x.Page(one, 0, 10, false).Rows)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, []any{cut, "A-1", "b1"}, []any{rows[0].Seq, rows[0].OrderNo, rows[0].Batch})
	require.WithinDuration(t, time.Now(), rows[0].FiledAt, time.Hour)

	for range 2 * mostAgain { // more than are looked at again at a time
		_, err := js.Publish(t.Context(), "orders.dead.A-3", body("A-3"))
		require.NoError(t, err)
	}
	cut = name("A-2")
	rowsOf(t, x)
	require.Eventually(t, func() bool {
		_, err := x.Follow(t.Context(), 0)
		return err == nil && len(x.unnamed) == 2*mostAgain+2 // also those that these took the place of
	}, 20*time.Second, time.Millisecond)
	require.Contains(t, seqs(t, q, x), cut)
	require.Len(t, rowsOf(t, x), 5)
}
