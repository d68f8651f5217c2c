package bench

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScale: every figure of the case is taken, and its books balance.
func TestScale(t *testing.T) {
	var out, errOut bytes.Buffer
	code := Run(t.Context(), []string{"--cases", "scale", "--short", "--disk", onDisk(t), "--json"}, nil, nil, &out, &errOut)
	require.Zero(t, code, errOut.String())
	var r report
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Len(t, r.Tables, 1)
	for _, row := range r.Tables[0].Rows {
		if row[0] != "worker's growth by the audit" {
			require.NotEqual(t, "0", row[1], row[0])
		}
	}
}
