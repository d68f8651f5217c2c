package enqueue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

// TestOrderSchema: what breaks the schema is a bad row like any other.
func TestOrderSchema(t *testing.T) {
	settings := brokerSettings(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	settings["ORDERPOST_ORDER_SCHEMA"] = write("order.schema.json", `{"properties":{"amount":{"type":"number","maximum":100}}}`)
	file := write("march.csv", "order_no,timeout,amount:number\nA-1,30,100\nA-2,30,100.01\n")
	got := run(t, settings, "", file)
	require.Equal(t, cli.ExitPartial, got.code)
	require.Contains(t, got.errOut, "nothing was enqueued:\n"+file+":3:3: amount: 100.01 is above the maximum, 100 (order schema, /properties/amount/maximum)\n")
	got = run(t, settings, "", file, "--skip-invalid", "--direct")
	require.Equal(t, cli.ExitPartial, got.code)
	require.Contains(t, got.out, "1 enqueued")
	rejects, err := os.ReadFile(file + ".rejects.csv")
	require.NoError(t, err)
	require.Contains(t, string(rejects), "A-2,30,100.01,3,3,schema,")

	every := write("april.csv", "order_no,timeout,amount\n"+strings.Repeat("A,30,5\n", 50))
	for _, flags := range [][]string{nil, {"--skip-invalid", "--direct"}} {
		got = run(t, settings, "", append(flags, every)...)
		require.Equal(t, cli.ExitPartial, got.code)
		require.Equal(t, 1, strings.Count(got.errOut, "(order schema, "), got.errOut)
		require.Contains(t, got.errOut, "breaks the same rule of the order schema, as in 2:3: amount: \"5\" is of the type string, not number")
	}

	settings["ORDERPOST_ORDER_SCHEMA"] = write("order.schema.json", `{"type":`)
	got = run(t, settings, "", file)
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errOut, "ORDERPOST_ORDER_SCHEMA: "+settings["ORDERPOST_ORDER_SCHEMA"]+":1:9: not valid JSON: ")
}
