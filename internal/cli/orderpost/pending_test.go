package orderpost_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/pending"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// TestPending names the one order that is tried again and again, in 80 columns, whatever
// the API answered.
func TestPending(t *testing.T) {
	s := queuetest.Start(t)
	q := queuetest.Open(t, s, "w1")
	run := func(args ...string) (int, string) {
		var out, errOut bytes.Buffer
		environ := map[string]string{"ORDERPOST_DATA_DIR": s.Dir}
		code := cli.Execute(t.Context(), pending.NewCommand(environ, &out, &errOut), args, strings.NewReader(""), &out, &errOut)
		return code, out.String() + errOut.String()
	}
	require.NoError(t, fleet.New(q).Appear(t.Context(), fleet.Presence{Worker: "w1", ID: "1", Open: true}))
	code, out := run()
	require.Zero(t, code, out)
	require.Equal(t, "No order matches.\n", out)

	_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "WAITS", ID: "w", Batch: "april", Lane: "bulk", Body: []byte(`{"order_no":"WAITS","timeout":30}`)})
	require.NoError(t, err)
	for batch, want := range map[string]string{"": "1 in the waiting room", "april": "1 in the waiting room", "march": "No order matches.\n"} {
		code, out = run("--batch=" + batch)
		if batch == "" {
			code, out = run()
		}
		require.Zero(t, code, out)
		require.Contains(t, out, want)
		require.Equal(t, batch != "march", strings.Contains(out, "waiting room"))
	}

	publish := func(nos ...string) {
		for _, no := range nos {
			_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: no, ID: no, Batch: "march", Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no)})
			require.NoError(t, err)
		}
	}
	publish("POISON")
	var got []*settle.Delivery
	for start := time.Now(); len(got) == 0 && time.Since(start) < time.Minute; {
		require.NoError(t, q.Pull(t.Context(), 1, time.Second, func(ds []*settle.Delivery) { got = append(got, ds...) }))
	}
	now := time.Now().UTC()
	report := order.Report{End: order.EndSubmissionBudget, Verdict: order.Retry, Status: 500, Response: "\x1b[31m" + strings.Repeat("<html>", 50),
		History: order.History{Attempts: 7, FirstAttemptAt: now, LastAttemptAt: now}, Delay: 3 * time.Hour}
	_, err = q.Worker.Settle(context.Background(), got[0], &report, order.Decide(&report, order.Facts{}))
	require.NoError(t, err)
	got[0].Release()
	publish("Q-1", "Q-2", strings.Repeat("x", 200))

	code, out = run("--retrying")
	require.Zero(t, code, out)
	require.Regexp(t, `POISON +7 +\d+s +in [23]h  status 500: \?\[31m<html>`, out)
	require.NotContains(t, out, "Q-1")
	code, out = run("--limit", "2")
	require.Zero(t, code, out)
	require.Contains(t, out, "… and more; 4 orders are in the queue")
	code, out = run("--batch", "march")
	require.Zero(t, code, out)
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(line)-1, 80, line)
		require.NotContains(t, line, "\x1b")
	}
	code, out = run("--json", "--batch", "march")
	require.Zero(t, code, out)
	require.Equal(t, 4, strings.Count(out, "\n"))
	require.Contains(t, out, `"order_no":"POISON","state":"retrying","batch":"march"`)
	code, out = run("--limit", "-1")
	require.Equal(t, cli.ExitUsage, code, out)
}
