package lookup

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func doubtful() *Finding {
	history := order.History{Attempts: 7, Unsure: true, DoubtReason: "no answer within 30s", FirstAttemptAt: noon, LastAttemptAt: noon.Add(90 * time.Second)}
	body := `{"order_no":"A-2026/0001","timeout":30,"qty":"12.50","lines":[{"sku":"X-1","text":"a long text that does not fit into what is left of one line of the terminal"}]}`
	return &Finding{
		OrderNo: "A-2026/0001",
		Result: &order.Record{
			OrderNo: "A-2026/0001", Word: "unknown", Verdict: order.Unsure, Status: 504, Response: "<html>Gateway Time-out</html>",
			Reason: "the answer does not say whether the order was created", Error: "POST https://api.example.com/v1/order/create: status 504",
			History: history, Position: order.Position{EnqueuedAt: noon.Add(-time.Minute)}, SettledAt: noon.Add(2 * time.Minute), Batch: "march", Source: "march.csv:17", Worker: "w-3",
			Interventions: []order.Intervention{{At: noon.Add(-24 * time.Hour), By: "anna", Did: "allowed another attempt", Note: "the API's operator says that it is not there, ticket 4711"}},
			Earlier:       []order.Earlier{{Outcome: "unknown", Reason: "no answer within 30s", At: noon.Add(-25 * time.Hour), Attempts: 5}},
		},
		Letters: []Letter{{&settle.Letter{
			OrderNo: "A-2026/0001", Outcome: order.OutcomeUnknown, History: history, FiledAt: noon.Add(2 * time.Minute), Replays: 1,
			Trail: []order.Attempt{
				{At: noon.Add(60 * time.Second), Verdict: order.Retry, Status: 429, Reason: "refused by status 429", Answer: `{"message":"slow down"}`, DurationMS: 12},
				{At: noon.Add(90 * time.Second), Verdict: order.Unsure, Status: 0, Reason: "no answer within 30s", DurationMS: 30000},
			},
		}, body}},
	}
}

func refused() *Finding {
	return &Finding{
		OrderNo: "B-7; rm -rf '~'",
		Result: &order.Record{OrderNo: "B-7", Word: "invalid", Reason: "invalid intent", Error: "byte 0: expected '{', got 'n'",
			Position: order.Position{EnqueuedAt: noon}, SettledAt: noon},
		Letters: []Letter{{&settle.Letter{OrderNo: "B-7", Outcome: order.OutcomeInvalid, FiledAt: noon}, "not JSON at all \x1b[2J"}},
	}
}

// conflicting is an accepted order that somebody wanted with another body, too.
func conflicting() *Finding {
	r := &order.Record{OrderNo: "G-1", Word: "accepted", Verdict: order.Accepted, Status: 200, History: order.History{Attempts: 1},
		IntentID: "g-1", BodyHash: "aa", Position: order.Position{EnqueuedAt: noon}, SettledAt: noon.Add(time.Second)}
	r.Earlier = []order.Earlier{{IntentID: "f-1", Outcome: "rejected", Reason: "refused by status 422", At: noon.Add(-time.Hour), Attempts: 1}}
	r.Refuse(&order.Record{IntentID: "march:17", BodyHash: "bb", Source: "march.csv:18", SettledAt: noon.Add(time.Hour)})
	return &Finding{OrderNo: "G-1", Result: r,
		Letters: []Letter{{&settle.Letter{OrderNo: "G-1", Outcome: order.OutcomeRejected, Conflict: true, FiledAt: noon.Add(time.Hour),
			Reason: "conflict: the order_no was accepted before with another body"}, `{"order_no":"G-1","timeout":31}`}}}
}

// corrected is an order in doubt whose correction was not sent, and whose replay is in the queue.
func corrected() *Finding {
	f := doubtful()
	f.Result.Letter, f.Pending = 7, true
	f.Letters[0].Seq = 7
	f.Result.Conflicts = []order.Conflict{{IntentID: "april:9", Source: "april.csv:10", RefusedAt: noon.Add(time.Hour), Letter: 9}}
	f.Letters = append([]Letter{{&settle.Letter{OrderNo: f.OrderNo, Outcome: order.OutcomeUnknown, FiledAt: noon.Add(time.Hour), Seq: 9, IntentID: "april:9"}, `{"order_no":"A-2026/0001","timeout":30,"qty":"13"}`}}, f.Letters...)
	return f
}

// acted is the doubtful order with the journal of an import, a replay that the
// record has as well, and an act whose program was killed.
func acted() *Finding {
	f := doubtful()
	anna := journal.Actor{Name: "anna", Known: journal.ByFlag}
	entry := func(kind journal.Kind, at time.Time, end *journal.Result) journal.Entry {
		return journal.Entry{ID: "x", At: at, Host: "ops-1", Program: "orderpost " + string(kind), Result: end,
			About: journal.About{Kind: kind, Actor: anna, OrderNo: f.OrderNo}}
	}
	day := noon.Add(-24 * time.Hour)
	replayed := entry(journal.Replay, day.Add(-time.Second), &journal.Result{End: journal.Done, Counts: map[string]int{"replayed": 1}})
	replayed.Note, replayed.Details = "ticket 4711", map[string]string{"resubmit-unknown": "true"}
	imported := entry(journal.Import, day.Add(-time.Hour), &journal.Result{End: journal.Partial, Counts: map[string]int{"stored": 16, "conflict": 1}, Error: "1 row did not make it"})
	imported.OrderNo, imported.Batch, imported.Details = "", "march", map[string]string{"file": "march.csv", "content": "aa"}
	f.Journal = []journal.Item{
		{Seq: 9, Stored: noon, Entry: entry(journal.Resolve, noon, nil)},
		{Seq: 5, Stored: day, Entry: replayed, Ended: day.Add(time.Second)},
		{Seq: 3, Stored: day.Add(-time.Hour), Entry: imported, Ended: day.Add(time.Second)},
	}
	return f
}

func TestShowGolden(t *testing.T) {
	for name, f := range map[string]*Finding{"unknown": doubtful(), "invalid": refused(), "conflict": conflicting(), "acted": acted(), "corrected": corrected()} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, f.print(&out))
			path := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), out.String())
			for line := range strings.Lines(out.String()) {
				require.NotContains(t, line, "\x1b")
				if !strings.HasPrefix(line, "    orderpost deadletter ") { // is copied, and must not be broken
					require.LessOrEqual(t, utf8.RuneCountInString(line)-1, width, line)
				}
			}
		})
	}
}

// TestDoubtIsShownBesideARefusal, also if a rule gives both the same reason; of an attempt in
// doubt, the reason says it.
func TestDoubtIsShownBesideARefusal(t *testing.T) {
	for verdict, want := range map[order.Verdict]int{order.Rejected: 2, order.Unsure: 1} {
		f := doubtful()
		f.Letters = nil
		f.Result.Verdict, f.Result.Reason, f.Result.DoubtReason, f.Result.Error = verdict, "its code is 7", "its code is 7", ""
		var out bytes.Buffer
		require.NoError(t, f.print(&out))
		require.Equal(t, want, strings.Count(out.String(), "its code is 7"), out.String())
	}
}

// TestStepsForEveryState: whatever is found, a person is told what to do.
func TestStepsForEveryState(t *testing.T) {
	for _, o := range append(order.Outcomes(), order.OutcomeNone) {
		for _, pending := range []bool{false, true} {
			for _, letters := range [][]Letter{nil, {{Letter: &settle.Letter{OrderNo: "A"}}}, {{Letter: &settle.Letter{OrderNo: "A", Conflict: true}}}} {
				r := &order.Record{OrderNo: "A"}
				r.SetOutcome(o)
				f := &Finding{OrderNo: "A", Result: r, Letters: letters, Pending: pending}
				require.NotEmpty(t, f.steps(), "%s %v %v", o, pending, letters)
				for _, s := range f.steps() {
					require.NotEmpty(t, s.Text)
					if o == order.OutcomeUnknown && strings.Contains(s.Command, " replay ") {
						require.Contains(t, s.Command, "--resubmit-unknown")
					}
				}
			}
		}
	}
}
