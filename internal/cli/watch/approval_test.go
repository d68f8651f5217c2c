package watch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
)

// asked waits until an import needs an approval, and returns its name and what waits of it.
func (s *site) asked(t *testing.T, n int) (batch string, seen *imports.Assessment) {
	t.Helper()
	require.Eventually(t, func() bool {
		f, err := imports.ReadFeeding(t.Context(), s.q, 0)
		require.NoError(t, err)
		for token, a := range f.Approvals.Imports {
			if a.Why != "" && a.Refused == nil && !a.Whole() {
				batch = imports.ImportName(token)
			}
		}
		return batch != ""
	}, patience, 5*time.Millisecond)
	seen, err := imports.Assess(t.Context(), s.q, batch, "", queue.ToTheEnd, nil)
	require.NoError(t, err)
	require.Equal(t, n, seen.Count)
	return batch, seen
}

// TestAFolderWhoseFilesNeedApproval: a file is held like an upload, and says where people approve
// it. Approved, its results come; refused, it moves to refused/ with the reason.
func TestAFolderWhoseFilesNeedApproval(t *testing.T) {
	s, dir := newSite(t, "ORDERPOST_APPROVALS", "imports"), t.TempDir()
	desk := approval.Desk{Queue: s.q, Journal: journal.New(s.q, "console", "test"), Now: time.Now}
	decision := func(batch string, seen *imports.Assessment, name, note string) approval.Decision {
		return approval.Decision{Batch: batch, Seen: seen, About: journal.About{Actor: journal.Actor{Name: name, Known: journal.Login}, Note: note}}
	}
	said, stop := s.watch(t, dir, brisk)
	put(t, filepath.Join(dir, "good.csv"), "order_no,timeout\nG-1,30\nG-2,30\n")
	batch, seen := s.asked(t, 2)
	saw(t, said, "it needs approval (every import): people approve or refuse it in the console, on the page /approval?batch="+batch)
	held := func(name string) {
		t.Helper()
		require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "done", name)); return err == nil }, patience, 5*time.Millisecond)
		require.NoFileExists(t, filepath.Join(dir, "done", name+".results.csv"))
	}
	held("good.csv")
	for i, name := range []string{"anna", "bob"} { // nobody has checked who runs watch
		require.Empty(t, s.created(t))
		whole, _, unwritten, err := desk.Approve(t.Context(), decision(batch, seen, name, ""))
		require.NoError(t, err)
		require.NoError(t, unwritten)
		require.Equal(t, i == 1, whole)
	}
	holds(t, dir, said, "done/good.csv", "done/good.csv.results.csv")
	require.Contains(t, content(t, dir, "done/good.csv.results.csv"), "G-2,30,accepted,")

	put(t, filepath.Join(dir, "bad.csv"), "order_no,timeout\nR-1,30\nR-2,30\n")
	batch, seen = s.asked(t, 2)
	held("bad.csv")
	require.Equal(t, cli.ExitDone, stop()) // the refusal comes while nobody watches
	_, unwritten, err := desk.Refuse(t.Context(), decision(batch, seen, "bob", "the prices are of last year"))
	require.NoError(t, err)
	require.NoError(t, unwritten)
	_, err = imports.CancelBatch(t.Context(), s.q, batch, "bob") // as the console does then
	require.NoError(t, err)
	put(t, filepath.Join(dir, FlagsFile), "--retry-failed\n")
	said, stop = s.watch(t, dir, brisk)
	holds(t, dir, said, FlagsFile, "done/good.csv", "done/good.csv.results.csv", "refused/bad.csv", "refused/bad.csv.results.csv", "refused/bad.csv.why.txt")
	require.Regexp(t, `^bob refused it at 20.*: the prices are of last year\nWhat waited of it was withdrawn; the results beside this file name each row\. Correct the file, and put it into the folder again; rows that stay as they were are sent only with --retry-failed in the folder's flags\.\n$`,
		content(t, dir, "refused/bad.csv.why.txt"))
	require.Contains(t, content(t, dir, "refused/bad.csv.results.csv"), "R-1,30,cancelled,")
	saw(t, said, "refused: bob refused it at ")

	put(t, filepath.Join(dir, "bad.csv"), "order_no,timeout\nR-1,30\nR-2,60\n") // corrected, under its name
	batch, seen = s.asked(t, 2)
	for _, name := range []string{"anna", "bob"} {
		_, _, _, err := desk.Approve(t.Context(), decision(batch, seen, name, ""))
		require.NoError(t, err)
	}
	holds(t, dir, said, "done/good.csv", "done/good.csv.results.csv", "refused/bad.csv", "refused/bad.csv.results.csv", "refused/bad.csv.why.txt", "done/bad.csv", "done/bad.csv.results.csv", FlagsFile)
	require.Equal(t, cli.ExitDone, stop())
	require.Equal(t, map[string]int{"G-1": 1, "G-2": 1, "R-1": 1, "R-2": 1}, s.created(t))
}

// TestAFolderWithASchema: each row that breaks it is named by its place and its rule, also where
// the schema refuses every row; a schema that is none stops the watching before anything is taken.
func TestAFolderWithASchema(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	schema := filepath.Join(t.TempDir(), "order.schema.json")
	set := func(text string) { put(t, schema, text) }
	s.settings["ORDERPOST_ORDER_SCHEMA"] = schema
	set(`{"properties":{"amount":{"type":"number","maximum":100}}}`)
	put(t, filepath.Join(dir, FlagsFile), "--type amount=number\n")
	said, stop := s.watch(t, dir, brisk)
	put(t, filepath.Join(dir, "some.csv"), "order_no,timeout,amount\nS-1,30,5\nS-2,30,500\nS-3,30,600\n")
	put(t, filepath.Join(dir, "good.csv"), "order_no,timeout,amount\nS-4,30,5\n")
	all := []string{FlagsFile, "refused/some.csv", "refused/some.csv.why.txt", "refused/some.csv.rejects.csv", "done/good.csv", "done/good.csv.results.csv"}
	holds(t, dir, said, all...)
	why := content(t, dir, "refused/some.csv.why.txt")
	require.Contains(t, why, "some.csv:3:3: amount: 500 is above the maximum, 100 (order schema, /properties/amount/maximum)\n")
	require.Contains(t, why, "some.csv:4:3: amount: 600 is above the maximum, 100 (order schema, /properties/amount/maximum)\n")
	require.Contains(t, why, "All bad rows (2) are in the file beside this one whose name ends in .rejects.csv")
	require.Equal(t, 3, strings.Count(content(t, dir, "refused/some.csv.rejects.csv"), "\n"))

	set(`{"required":["customer"]}`) // the one who writes the schema misspelt the field
	put(t, filepath.Join(dir, "every.csv"), "order_no,timeout,amount\n"+strings.Repeat("S-5,30,5\n", 50))
	all = append(all, "refused/every.csv", "refused/every.csv.why.txt", "refused/every.csv.rejects.csv")
	holds(t, dir, said, all...)
	why = content(t, dir, "refused/every.csv.why.txt")
	require.Equal(t, 1, strings.Count(why, "(order schema, "), why)
	require.Contains(t, why, "customer")
	require.Equal(t, cli.ExitDone, stop())
	require.Equal(t, map[string]int{"S-4": 1}, s.created(t))

	set(`{"required":`)
	put(t, filepath.Join(dir, "later.csv"), "order_no,timeout,amount\nS-6,30,5\n")
	said, stop = s.watch(t, dir, brisk)
	saw(t, said, schema+":1:13: not valid JSON: unexpected EOF; this is tried again, and what came later waits")
	stop()
	_, err := os.Stat(filepath.Join(dir, "later.csv"))
	require.NoError(t, err, "it waits for a schema that can be read")
	require.Equal(t, map[string]int{"S-4": 1}, s.created(t))
}
