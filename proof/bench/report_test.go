package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
)

// TestFailedTrials: a trial that failed takes neither its row nor the other
// rounds with it.
func TestFailedTrials(t *testing.T) {
	trials := []trial{{contender: usualStored}, {contender: ours}, {contender: leanStored}}
	compared := compare("Case", trials, [][]outcome{
		{{Rate: 100, CPU: 10, BrokerCPU: 30}, {Rate: 200, CPU: 10, BrokerCPU: 30}, {Failed: "no broker"}},
		{{Failed: "no API"}, {Rate: 300, CPU: 10, BrokerCPU: 10}, {Rate: 900, CPU: 10, BrokerCPU: 10}},
		{{Failed: "no broker"}, {Failed: "too slow"}, {Failed: "no broker"}},
	})
	require.Equal(t, []string{usualStored + " (1 of 3 failed: no broker)", "150", "1.00", "–", "10.0", "30.0", "40.0", "1.00", "–", "0", "0.0"}, compared.Rows[0])
	require.Equal(t, []string{ours + " (1 of 3 failed: no API)", "600", "1.50", "–", "10.0", "10.0", "20.0", "0.50", "–", "0", "0.0"}, compared.Rows[1])
	require.Equal(t, []string{leanStored, "failed: no broker"}, compared.Rows[2])

	var text bytes.Buffer
	require.NoError(t, (&report{Tables: []table{compared}}).print(&text, false))
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "|") {
			require.Equal(t, len(compared.Columns)+1, strings.Count(line, "|"), line)
		}
	}
}

// TestPromised: those who took part, and no others.
func TestPromised(t *testing.T) {
	list, any := promised([]table{{Outcomes: []named{{Name: leanStored}, {Name: usualStored}}}, {Outcomes: []named{{Name: "another"}}}})
	require.True(t, any)
	require.Equal(t, []string{"promise", usualStored, leanStored}, list.Columns)
	_, any = promised(nil)
	require.False(t, any)
}

func TestWrongUsage(t *testing.T) {
	for _, args := range []string{"--cases parade", "--contenders nobody", "--in-flight 0", "--rounds 0", "--set CONCURRENCY"} {
		var out, errOut bytes.Buffer
		require.Equal(t, program.ExitUsage, Run(t.Context(), strings.Fields(args), nil, nil, &out, &errOut), args)
		require.Contains(t, errOut.String(), "--", args)
		require.Empty(t, out.String())
	}
}

// TestFilters: --contenders and --in-flight leave out what is not wanted.
func TestFilters(t *testing.T) {
	o := &options{contenders: []string{"ours", "usual-stored"}, scale: 1}
	require.Equal(t, []string{usualStored, ours}, o.entered(usualStored, ours, leanStored))
	r := &rig{options: o}
	require.Len(t, r.sizes(100_000, trial{}, 64, 256), 2)
	o.inFlight = []int{7}
	sizes := r.sizes(100_000, trial{nodes: 3}, 64, 256)
	require.Len(t, sizes, 1)
	require.Equal(t, trial{nodes: 3, inFlight: 7, orders: 100_000, warm: 5000}, sizes[0])
}
