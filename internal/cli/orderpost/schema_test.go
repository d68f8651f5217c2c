package orderpost

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/order"
	"orderpost/internal/order/schema"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// TestNoProgramStartsWithAWrongSchema: each says where its mistake is.
func TestNoProgramStartsWithAWrongSchema(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "order.schema.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"properties":{"amount":{"maximum":"5"}}}`), 0o600))
	for _, args := range [][]string{{"worker"}, {"gateway"}, {"console"}, {"enqueue", "-"}} {
		environ := map[string]string{"ORDERPOST_DATA_DIR": dir, "ORDERPOST_ORDER_SCHEMA": file, "ORDERPOST_API_URL": "http://127.0.0.1:9", "ORDERPOST_API_KEY": "key",
			"ORDERPOST_API_SECRET": "secret", "ORDERPOST_OPS_ADDR": "", "ORDERPOST_NATS_CONNECT_TIMEOUT": "10ms"}
		var out, errOut bytes.Buffer
		require.Equal(t, cli.ExitUsage, Run(t.Context(), args, environ, strings.NewReader(""), &out, &errOut), "%s: %s", args[0], errOut.String())
		require.Contains(t, errOut.String(), "ORDERPOST_ORDER_SCHEMA: "+file+": at /properties/amount/maximum: not a valid schema: got string, want number", args[0])
	}
}

// TestAFirstOrderSchema is made from the orders of a file that were accepted as they are.
func TestAFirstOrderSchema(t *testing.T) {
	s := queuetest.Start(t)
	q := queuetest.Open(t, s, "w1")
	environ := map[string]string{"ORDERPOST_NATS_URL": strings.Replace(s.URL, "://", "://"+s.Token+"@", 1)}
	path := filepath.Join(t.TempDir(), "march.csv")
	require.NoError(t, os.WriteFile(path, []byte("order_no,timeout,amount:number,note\nA-1,30,1.5,x\nA-2,30,900,\nA-3,30,7,z\nA-4,soon,7,z\n"), 0o600))
	draft := func(args ...string) (int, string, string) {
		var out, errOut bytes.Buffer
		code := Run(t.Context(), append([]string{"schema"}, args...), environ, nil, &out, &errOut)
		return code, out.String(), errOut.String()
	}
	code, out, errOut := draft("order", "--from", path)
	require.Equal(t, cli.ExitPartial, code)
	require.Empty(t, out)
	require.Contains(t, errOut, "no order of these files is known to be accepted")

	for no, members := range map[string]string{"A-1": `"amount":1.5,"note":"x"`, "A-2": `"amount":900,"note":""`, "A-3": `"amount":8,"note":"z"`} {
		_, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: no, Body: []byte(`{"order_no":"` + no + `","timeout":30,` + members + `}`), ID: no})
		require.NoError(t, err)
	}
	h := settle.NewHandler(q.Worker, settle.HandlerOptions{Submit: func(_ context.Context, s *order.Submission) *order.Report {
		s.History.Attempts++
		verdict := order.Accepted
		if s.Order.OrderNo() == "A-2" {
			verdict = order.Rejected
		}
		return &order.Report{End: order.EndAnswer, Verdict: verdict, Status: 200, History: s.History}
	}})
	for done := 0; done < 3; {
		require.NoError(t, q.Pull(t.Context(), 3, time.Minute, func(ds []*settle.Delivery) {
			for _, d := range ds {
				h.Handle(t.Context(), t.Context(), d, nil)
				done++
			}
		}))
	}
	code, out, errOut = draft("order", "--from", path)
	require.Equal(t, cli.ExitDone, code, errOut)
	require.Contains(t, errOut, path+": 1 bad row is left out: "+path+":5:2: column timeout")
	require.Contains(t, out, `from 1 order, for you`) // A-3 was accepted with another body
	require.Contains(t, out, `seen: 1.5 to 1.5`)
	made, err := schema.Parse("made", []byte(out))
	require.NoError(t, err)
	good, err := order.Parse([]byte(`{"order_no":"B","timeout":1,"amount":2,"note":"n"}`))
	require.NoError(t, err)
	require.Nil(t, made.Check(good))

	code, out, _ = draft("order", "--from", path, "--all")
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, out, "seen: 1.5 to 900")
	require.Contains(t, out, `from 3 orders, for you`)
	code, _, errOut = draft("rules", "--from", path)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errOut, "orderpost schema order --from FILE")
	code, _, _ = draft("order", "--from", path+".none")
	require.Equal(t, cli.ExitUsage, code)
	code, out, _ = draft("order")
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, out, "order --json")
}
