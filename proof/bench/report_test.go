package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

// TestFailedTrials: a trial that failed takes neither its row nor the other
// rounds with it.
func TestFailedTrials(t *testing.T) {
	trials := []trial{{contender: usual}, {contender: ours}, {contender: riverSQLite}}
	compared := compare("Case", trials, [][]outcome{
		{{Rate: 100, CPU: 10, BrokerCPU: 30}, {Rate: 200, CPU: 10, BrokerCPU: 30}, {Failed: "failed: no broker"}},
		{{Failed: "failed: no API"}, {Rate: 300, CPU: 10, BrokerCPU: 10}, {Rate: 900, CPU: 10, BrokerCPU: 10}},
		{{Failed: "failed: no broker"}, {Failed: "failed: too slow"}, {Failed: "failed: no broker"}},
	})
	require.Equal(t, []string{usual + " (1 of 3 failed: no broker)", "150", "1.00", "10.0", "30.0", "40.0", "1.00", "0", "0.0"}, compared.Rows[0])
	require.Equal(t, []string{ours + " (1 of 3 failed: no API)", "600", "1.50", "10.0", "10.0", "20.0", "0.50", "0", "0.0"}, compared.Rows[1])
	require.Equal(t, []string{riverSQLite, "failed: no broker"}, compared.Rows[2])

	var text bytes.Buffer
	require.NoError(t, (&report{Tables: []table{compared}}).print(&text, false))
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "|") {
			require.Equal(t, len(compared.Columns)+1, strings.Count(line, "|"), line)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range []string{"--cases parade", "--contenders nobody", "--in-flight 0", "--rounds 0", "--set CONCURRENCY", "--fsync soon", "--fsync -1ms"} {
		var out, errOut bytes.Buffer
		require.Equal(t, cli.ExitUsage, Run(t.Context(), strings.Fields(args), nil, nil, &out, &errOut), args)
		require.Contains(t, errOut.String(), "--", args)
		require.Empty(t, out.String())
	}
}

// TestFilters: --contenders, --in-flight and --orders leave out what is not wanted.
func TestFilters(t *testing.T) {
	o := &options{contenders: []string{"ours", "usual"}}
	require.Equal(t, []string{usual, ours}, o.entered(usual, ours, riverSQLite))
	r := &rig{options: o}
	require.Len(t, r.sizes(100_000, trial{}, 64, 256), 2)
	o.inFlight, o.orders = []int{7}, 1000
	sizes := r.sizes(100_000, trial{nodes: 3}, 64, 256)
	require.Equal(t, []trial{{nodes: 3, inFlight: 7, orders: 1000, warm: 50}}, sizes)
}
