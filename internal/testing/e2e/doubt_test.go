package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/order"
)

// Under park, an order whose answer is lost needs no person where the API can be asked.
func TestDoubtEndsByLookups(t *testing.T) {
	t.Parallel()
	settings, url := api(t, "--duplicates", "create-twice", "--fault-drop-after", "0.5")
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte(`lookup:
  request: GET /v1/order/{order_no}
  first: 10ms
  rules:
    - {when: status == 200 && body.data.order_no == order_no, verdict: exists}
`), 0o600))
	settings["ORDERPOST_RULES"], settings["ORDERPOST_ON_UNSURE"] = rules, "park"
	startWorker(t, settings)
	code, out, errOut := importFile(t, settings, writeOrders(t, 20), "--wait")
	require.Equal(t, cli.ExitDone, code, out+errOut)
	q := openStreams(t, settings)
	for no, r := range collect(t, q) {
		require.Equal(t, order.OutcomeAccepted, r.Outcome(), no)
	}
	for no, e := range ledger(t, url) {
		require.Equal(t, 1, e.Created, no)
	}
	requireBalanced(t, q, 20)
}

// The first orders of an import go alone; the rest follows if they are accepted.
func TestACanary(t *testing.T) {
	t.Parallel()
	settings, url := api(t)
	settings["ORDERPOST_REFUSAL_RUN"] = "0"
	startWorker(t, settings)
	change(t, url, `{"fault-refuse":1}`)
	file := writeOrders(t, 9)
	code, _, errOut := importFile(t, settings, file, "--canary", "2")
	require.Equal(t, cli.ExitPartial, code)
	require.Contains(t, errOut, file+": not all of the first 2 orders were accepted, so nothing else was enqueued")
	require.Len(t, ledger(t, url), 2)

	change(t, url, `{"fault-refuse":0}`)
	other := writeFile(t, "order_no,timeout\nC-1,60\nC-2,60\nC-3,60\nC-4,60\n")
	code, out, errOut := importFile(t, settings, other, "--canary", "3", "--wait")
	require.Equal(t, cli.ExitDone, code, out+errOut)
	require.Contains(t, errOut, "3 of the first 3 orders of "+other+" are accepted.")
	require.Len(t, ledger(t, url), 6)
	code, out, errOut = importFile(t, settings, file, "--wait") // goes on without a canary
	require.Equal(t, cli.ExitPartial, code, out+errOut)
	require.Len(t, ledger(t, url), 13)
}
