package enqueue

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/fleet/imports"
)

// An import from a terminal is held like an upload. It says where people approve, whoever
// --by says that it is, and --direct does not leave that out.
func TestAnImportThatNeedsApprovalSaysWhere(t *testing.T) {
	q, settings := startStreams(t)
	approval.SetRule(t.Context(), q, "imports", "w1", "test", zerolog.Nop())
	file := orders(t, 0, 3)
	got := run(t, settings, "", file, "--batch", "march", "--by", "bob")
	require.Equal(t, cli.ExitDone, got.code, got)
	require.Contains(t, got.errOut, "The orders of this import that wait stay where they are: it needs approval (every import): people approve or refuse it in the console, on the page /approval?batch=march.\n")
	require.Contains(t, run(t, settings, "", "status", "march").out, "it needs approval (every import): people approve or refuse it in the console, on the page /approval?batch=march\n")
	require.Contains(t, run(t, settings, "", "status", "march", "--json").out, `"paused_by":"the approval that it needs"`)
	f, err := imports.ReadFeeding(t.Context(), q, 0)
	require.NoError(t, err)
	require.Nil(t, f.Approvals.Imports[imports.ImportToken("march")], "the name of a flag stands for nothing")
	imp, err := imports.ReadImport(t.Context(), q, "march")
	require.NoError(t, err)
	require.False(t, imp.Storing)
	acts, err := journal.Read(t.Context(), q, journal.Query{Batch: "march"})
	require.NoError(t, err)
	require.Equal(t, journal.Actor{Name: "bob", Known: journal.ByFlag}, acts.Items[0].Actor)

	got = run(t, settings, "", orders(t, 10, 3), "--direct")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errOut, "imports need approval here, and wait for it in the waiting room: leave --direct out (every import)")

	got = run(t, settings, "", "continue", "march") // it is no pause
	require.Equal(t, cli.ExitDone, got.code)
	require.Contains(t, run(t, settings, "", "status", "march").out, "it needs approval")
}

// Where only large imports need approval, a worker has to look first.
func TestAnImportThatMayNeedApprovalSaysSo(t *testing.T) {
	q, settings := startStreams(t)
	approval.SetRule(t.Context(), q, "imports.rows=2", "w1", "test", zerolog.Nop())
	got := run(t, settings, "", orders(t, 0, 3), "--batch", "march")
	require.Contains(t, got.errOut, "Here imports of more than 2 rows need approval. A worker looks at this one first; orderpost enqueue status march says whether it waits for that.\n")
	require.NotContains(t, run(t, settings, "", "status", "march").out, "approval")
	require.NoError(t, imports.ChangeApprovals(t.Context(), q, func(all *imports.Approvals) (bool, error) {
		all.Imports[imports.ImportToken("march")] = &imports.Approval{At: time.Now(), Why: "it has 3 rows, more than 2"}
		return true, nil
	}))
	require.Contains(t, run(t, settings, "", "status", "march").out, "it needs approval (imports of more than 2 rows)")
	require.Regexp(t, `(?m)^march .*  needs approval$`, run(t, settings, "", "status").out)
}
