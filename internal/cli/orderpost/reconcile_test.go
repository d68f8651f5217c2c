package orderpost_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/reconcile"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

type books struct {
	*testing.T
	q       *queue.Queue
	environ map[string]string
}

func open(t *testing.T) *books {
	t.Helper()
	s := queuetest.Start(t)
	return &books{t, queuetest.Open(t, s, "w1"), map[string]string{"ORDERPOST_DATA_DIR": s.Dir, "USER": "anna"}}
}

// settled gives orders an outcome, whose last attempt was at a time.
func (b *books) settled(v order.Verdict, at time.Time, nos ...string) {
	b.Helper()
	r := queuetest.Report(v, order.History{Attempts: 1, Unsure: v == order.Unsure, FirstAttemptAt: at, LastAttemptAt: at})
	if v == order.Unsure {
		r.End = order.EndTotalBudget
	}
	for _, no := range nos {
		queuetest.Publish(b, b.q, queuetest.Intent(no, ""))
		queuetest.Settle(b, b.q, queuetest.Pull(b, b.q, 1)[0], r)
	}
	queuetest.Drained(b, b.q)
}

type said struct {
	code        int
	out, errOut string
	Agreed      int
	BadLines    int `json:"bad_lines"`
	Orders      map[string]int
	Applied     map[string]int
	SHA256      string
}

func (b *books) reconcile(list string, args ...string) (s said) {
	b.Helper()
	file := filepath.Join(b.TempDir(), "list")
	require.NoError(b, os.WriteFile(file, []byte(list), 0o600))
	var out, errOut bytes.Buffer
	cmd := reconcile.NewCommand(b.environ, strings.NewReader(""), &out, &errOut)
	s.code = cli.Execute(b.Context(), cmd, append([]string{file, "--as-of", "0s", "--margin", "0s"}, args...), strings.NewReader(""), &out, &errOut)
	s.out, s.errOut = out.String(), errOut.String()
	if strings.HasPrefix(s.out, "{") {
		require.NoError(b, json.Unmarshal(out.Bytes(), &s))
	}
	return s
}

func (b *books) requireOutcomes(want map[string]order.Outcome) {
	b.Helper()
	for no, outcome := range want {
		require.Equal(b, outcome, queuetest.Lookup(b, b.q, no).Record.Outcome(), no)
	}
}

// plant gives the books and a list each difference.
func plant(t *testing.T) (b *books, list string) {
	t.Helper()
	b = open(t)
	before := time.Now().Add(-time.Hour)
	b.settled(order.Accepted, before, "A-1", "A-2", "GONE")
	b.settled(order.Accepted, time.Now().Add(time.Hour), "YOUNG")
	b.settled(order.Rejected, before, "REFUSED", "R-2")
	b.settled(order.Unsure, before, "DOUBT-1", "DOUBT-2")
	queuetest.Publish(b, b.q, queuetest.Intent("WAITS", ""))
	return b, "ref;amount\nA-1;1\nA-2;2\nA-2;2\nREFUSED;3\nDOUBT-1;4\nFOREIGN;5\nWAITS;6\n"
}

var planted = map[string]int{"missing": 1, "created": 1, "unknown-exists": 1, "unknown-absent": 1, "never-had": 1, "twice": 1, "unsettled": 1, "recent": 1}

func TestReconcileFindsEachDifference(t *testing.T) {
	b, list := plant(t)
	results := filepath.Join(t.TempDir(), "differences.csv")
	got := b.reconcile(list, "--order-no", "ref", "--json", "--results", results)
	require.Equal(t, cli.ExitPartial, got.code, got.errOut)
	require.Equal(t, planted, got.Orders)
	require.Equal(t, 2, got.Agreed)
	rows, err := os.ReadFile(results)
	require.NoError(t, err)
	for _, row := range []string{"GONE,missing,0,accepted,", "REFUSED,created,5,rejected,", "DOUBT-1,unknown-exists,6,unknown,", "DOUBT-2,unknown-absent,0,unknown,",
		"FOREIGN,never-had,7,,", "A-2,twice,3,accepted,", "WAITS,unsettled,8,,", "YOUNG,recent,0,accepted,"} {
		require.Contains(t, string(rows), "\n"+row)
	}

	var lines []string
	for _, no := range []string{"A-1", "A-2", "A-2", "REFUSED", "DOUBT-1", "FOREIGN", "WAITS"} {
		lines = append(lines, `{"data":{"ref":"`+no+`"},"ref":1}`)
	}
	got = b.reconcile(strings.Join(lines, "\n"), "--order-no", "data.ref", "--json")
	require.Equal(t, planted, got.Orders)

	got = b.reconcile(list, "--order-no", "ref")
	require.Contains(t, got.out, "        1 missing: we say accepted, they do not have it\n            GONE accepted\n")
	require.Contains(t, got.errOut, "6 differences between the list and the books")
}

func TestReconcileOfSidesThatAgree(t *testing.T) {
	b := open(t)
	b.settled(order.Accepted, time.Now().Add(-time.Hour), "A-1", "A-2")
	b.settled(order.Rejected, time.Now().Add(-time.Hour), "R-1")
	got := b.reconcile("order_no\nA-1\nA-2\n")
	require.Zero(t, got.code, got.errOut)
	require.Contains(t, got.out, "        2 agree: both have them\n")

	got = b.reconcile("order_no\nA-1\n", "--since", "30m", "--json")
	require.Zero(t, got.code, "the list begins after the other one's attempt: %s", got.out)
	got = b.reconcile("order_no\nA-1\n", "--batch", "march", "--json")
	require.Zero(t, got.code, "the list is that of another import: %s", got.out)
	got = b.reconcile("order_no\nA-1\n", "--since", "59m59s", "--margin", "1m", "--json")
	require.Equal(t, map[string]int{"recent": 1}, got.Orders)

	got = b.reconcile("ref\nA-1\n")
	require.Equal(t, cli.ExitFailed, got.code)
	require.Contains(t, got.errOut, `the header has no column "order_no", only ["ref"]`)
}

// TestReconcileApplies: the list settles what is unknown, and nothing else.
func TestReconcileApplies(t *testing.T) {
	b, list := plant(t)
	apply := []string{"--order-no", "ref", "--json", "--apply"}
	require.Contains(t, b.reconcile(list, apply...).errOut, "there is no terminal to ask on")
	untouched := []string{"A-1", "A-2", "GONE", "YOUNG", "REFUSED", "R-2"}
	before := make(map[string]uint64)
	for _, no := range untouched {
		before[no] = queuetest.Lookup(t, b.q, no).Seq
	}

	got := b.reconcile(list, append(apply, "--yes")...)
	require.Equal(t, cli.ExitPartial, got.code)
	require.Equal(t, map[string]int{"resolved": 1}, got.Applied)
	require.Contains(t, got.errOut, "1 unknown orders that the list lacks stay as they are: --complete was not given")
	b.requireOutcomes(map[string]order.Outcome{"DOUBT-1": order.OutcomeAccepted, "DOUBT-2": order.OutcomeUnknown})

	for list, why := range map[string]string{
		"ref\nA-1\n A-2\n": "1 lines of the list could not be compared",
		"ref\nX-1\n":       "the list has no order that the books have as accepted",
	} {
		got = b.reconcile(list, append(apply, "--yes", "--complete")...)
		require.Contains(t, got.errOut, why)
		b.requireOutcomes(map[string]order.Outcome{"DOUBT-2": order.OutcomeUnknown})
	}

	got = b.reconcile(list, append(apply, "--yes", "--complete")...)
	require.Equal(t, map[string]int{"resolved": 1}, got.Applied)
	b.requireOutcomes(map[string]order.Outcome{"DOUBT-2": order.OutcomeRejected, "GONE": order.OutcomeAccepted})
	for _, no := range untouched {
		require.Equal(t, before[no], queuetest.Lookup(t, b.q, no).Seq, "%s was written", no)
	}
	acts := 0
	_, err := journal.All(t.Context(), b.q, journal.Query{}, func(i journal.Item) bool {
		acts++
		require.Equal(t, journal.Resolve, i.Kind)
		require.Equal(t, 1, i.Result.Counts["resolved"])
		require.Len(t, i.Details["list_sha256"], 64)
		require.Contains(t, i.Note, "by the list ")
		return true
	})
	require.NoError(t, err)
	require.Equal(t, 2, acts)
}

// TestReconcileAppliesToOrdersWithoutLetter: somebody dropped it.
func TestReconcileAppliesToOrdersWithoutLetter(t *testing.T) {
	b := open(t)
	b.settled(order.Unsure, time.Now().Add(-time.Hour), "DOUBT")
	_, err := b.q.Operator.Drop(t.Context(), queuetest.Letter(t, b.q, "DOUBT"), settle.Person{Name: "ben"})
	require.NoError(t, err)
	got := b.reconcile("order_no\nDOUBT\n", "--apply", "--yes", "--json")
	require.Zero(t, got.code, got.errOut)
	b.requireOutcomes(map[string]order.Outcome{"DOUBT": order.OutcomeAccepted})
}

// TestReconcileWaitsForASecondPerson: the rule of the fleet covers it.
func TestReconcileWaitsForASecondPerson(t *testing.T) {
	b, list := plant(t)
	approval.SetRule(t.Context(), b.q, "resolve", "w1", "test", zerolog.Nop())
	got := b.reconcile(list, "--order-no", "ref", "--json", "--apply", "--yes")
	require.Equal(t, cli.ExitPartial, got.code)
	require.Equal(t, map[string]int{"asked": 1}, got.Applied)
	require.Contains(t, got.errOut, "must approve it (resolve 1 dead letters as accepted) in the console, on the page /approval?act=")
	b.requireOutcomes(map[string]order.Outcome{"DOUBT-1": order.OutcomeUnknown})

	var asked journal.About
	_, err := journal.All(t.Context(), b.q, journal.Query{}, func(i journal.Item) bool {
		if i.Kind == journal.Resolve {
			asked = i.About
		}
		return true
	})
	require.NoError(t, err)
	d, err := approval.DeedOf(b.q, asked, settle.Person{Name: "ben"})
	require.NoError(t, err, "a worker can carry it out")
	require.Len(t, d.Seqs, 1)
}
