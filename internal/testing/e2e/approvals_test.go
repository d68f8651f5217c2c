package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/orderpost"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
)

// withoutTheQueue takes away from producers what docs/security.md says: the subjects of the
// queue, so that they store in the waiting room alone.
func (s *secured) withoutTheQueue(t *testing.T) {
	t.Helper()
	shipped, err := os.ReadFile(s.conf.file)
	require.NoError(t, err)
	text := string(shipped)
	for _, part := range []string{`(?s)(PRODUCER_MAY \{.*?)"orders\.new\.\*", `, `(?s)(PRODUCERS \{.*?)\n *\{ service: \{ account: ORDERPOST, subject: "orders\.new\.\*" \} \}`} {
		pattern := regexp.MustCompile(part)
		found := pattern.FindStringSubmatchIndex(text)
		require.NotNil(t, found, part)
		text = text[:found[3]] + text[found[1]:]
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	s.server.Shutdown()
	s.server.WaitForShutdown()
	s.conf.file = file
	s.startServer(t)
}

// TestActsWithRoles: what an operator asks for in a terminal, a worker does, with the rights of
// its role alone, once two logins of a console have approved it.
func TestActsWithRoles(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	settings, url := api(t, "--fault-drop-after", "1", "--max-faults-per-order", "1")
	settings["ORDERPOST_APPROVALS"], settings["ORDERPOST_ON_UNSURE"], settings["ORDERPOST_BREAKER_RATIO"] = "resubmit-unknown,resolve,limit", "park", "0"
	w := startWorker(t, s.as("worker", settings))
	code, _, errOut := importFile(t, s.as("producer", nil), writeOrders(t, 3), "--wait")
	require.Equal(t, cli.ExitPartial, code, errOut)
	change(t, url, `{"fault-drop-after":0}`)
	ask := func(run cli.RunFunc, args ...string) (id string) {
		t.Helper()
		code, _, errOut := runProgram(t, run, s.as("operator", nil), args...)
		require.Equal(t, cli.ExitPartial, code, errOut)
		_, id, found := strings.Cut(errOut, "/approval?act=")
		require.True(t, found, errOut)
		return strings.TrimSpace(id)
	}
	code, _, errOut = runProgram(t, orderpost.Run, s.as("operator", nil), "limit", "50/s")
	require.Equal(t, cli.ExitDone, code, errOut) // there was none
	asked := []string{
		ask(deadletter.Run, "resolve", "E2E-00000", "--accepted", "--note", "the API lists it"),
		ask(deadletter.Run, "replay", "--outcome", "unknown", "--resubmit-unknown"),
		ask(orderpost.Run, "limit", "80/s"),
	}
	operator := s.queue(t, "operator")
	desk := approval.Desk{Queue: operator, Journal: journal.New(operator, "console", "test"), Now: time.Now}
	for _, id := range asked {
		for _, name := range []string{"anna", "bob"} {
			act, seen, err := approval.Find(t.Context(), operator, id)
			require.NoError(t, err)
			_, _, unwritten, err := desk.Approve(t.Context(), approval.Decision{Act: act, Seen: seen, About: journal.About{Actor: journal.Actor{Name: name, Known: journal.Login}}})
			require.NoError(t, errors.Join(unwritten, err))
		}
		require.Eventually(t, func() bool {
			act, _, err := approval.Find(t.Context(), operator, id)
			return err == nil && act.Result != nil
		}, patience, pause)
		act, _, err := approval.Find(t.Context(), operator, id)
		require.NoError(t, err)
		require.Equal(t, []any{journal.Done, []string{"anna", "bob"}}, []any{act.Result.End, act.Result.ApprovedBy}, "%+v", act)
	}
	drained(t, operator)
	requireBalanced(t, operator, 5) // three, and two again
	code, out, errOut := runProgram(t, deadletter.Run, s.as("operator", nil), "audit")
	require.Equal(t, cli.ExitDone, code, out+errOut)
	view, err := fleet.New(operator).Read(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 80, view.Limit.PerSecond, 0)
	require.Equal(t, cli.ExitDone, w.end())
	require.NotContains(t, w.errOut.String(), "ermissions violation", "the worker tried what its role may not do")
}

// TestApprovalsWithRoles: a producer's import waits, whatever it publishes beside it, and
// goes out once two logins have approved it by a console's role.
func TestApprovalsWithRoles(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	s.withoutTheQueue(t)
	settings, url := api(t)
	settings["ORDERPOST_APPROVALS"] = "imports"
	w := startWorker(t, s.as("worker", settings))
	code, _, errOut := importFile(t, s.as("producer", nil), writeOrders(t, 12))
	require.Equal(t, cli.ExitDone, code, errOut)
	require.Contains(t, errOut, "it needs approval (every import): people approve or refuse it in the console, on the page /approval?batch=")
	require.NotContains(t, errOut, "ermission")

	producer := s.connect(t, "producer")
	for _, subject := range []string{"orders.new.SNEAKED-1", "$KV.ORDERPOST.waiting.approvals"} {
		_, err := producer.Request(subject, []byte(`{"order_no":"SNEAKED-1","timeout":30}`), time.Second)
		require.Error(t, err, subject)
	}
	operator := s.queue(t, "operator")
	var batch string
	require.Eventually(t, func() bool {
		f, err := imports.ReadFeeding(t.Context(), operator, 0)
		require.NoError(t, err)
		for token, a := range f.Approvals.Imports {
			if a.Why != "" {
				batch = imports.ImportName(token)
			}
		}
		return batch != ""
	}, patience, pause)
	require.Empty(t, ledger(t, url))
	seen, err := imports.Assess(t.Context(), operator, batch, "", queue.ToTheEnd, nil)
	require.NoError(t, err)
	require.Equal(t, 12, seen.Count)
	desk := approval.Desk{Queue: operator, Journal: journal.New(operator, "console", "test"), Now: time.Now}
	for i, name := range []string{"anna", "bob"} {
		whole, _, unwritten, err := desk.Approve(t.Context(), approval.Decision{Batch: batch, Seen: seen, About: journal.About{Actor: journal.Actor{Name: name, Known: journal.Login}}})
		require.NoError(t, err)
		require.NoError(t, unwritten)
		require.Equal(t, i == 1, whole)
	}
	require.Eventually(t, func() bool { return len(ledger(t, url)) == 12 }, patience, pause)
	drained(t, operator)
	requireBalanced(t, operator, 12)
	code, out, errOut := runProgram(t, deadletter.Run, s.as("operator", nil), "audit")
	require.Equal(t, cli.ExitDone, code, out+errOut)
	require.Equal(t, cli.ExitDone, w.end())
	require.NotContains(t, w.errOut.String(), "ermissions violation", "the worker tried what its role may not do")
	require.Contains(t, out, "The books balance.")
}
