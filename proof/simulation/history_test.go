package simulation

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/proof/oracle"
)

// A schedule that was written to a file and read again is judged in the same way, with
// its lines, whether it breaks an invariant or not.
func TestAHistoryIsJudgedAgain(t *testing.T) {
	broken := 0
	for _, m := range append([]Mutation{None}, Mutations()...) {
		for seed := uint64(1); seed <= 60; seed++ {
			var file bytes.Buffer
			out := json.NewEncoder(&file)
			var cs coroutines
			r := play(&Schedule{Seed: seed}, m, nil, nil, func(e oracle.Event) { require.NoError(t, out.Encode(&e)) }, &cs)
			cs.end()
			events, err := oracle.Read(&file)
			require.NoError(t, err)
			again := oracle.Judge(events)
			require.Equal(t, r.Counts.Counts, again.Counts)
			require.Len(t, again.Findings, len(r.Findings), "seed %d, %s", seed, m)
			for i, f := range again.Findings {
				require.Equal(t, r.Findings[i].String(), f.String())
				require.NotEmpty(t, f.Lines, f)
				require.NotEmpty(t, f.Rule(), f)
				broken++
			}
		}
	}
	require.Greater(t, broken, 50)
}
