package settle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// TestInvalidReasons: intents that break the same rule at the same path share a
// reason.
func TestInvalidReasons(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	for i, c := range []struct{ body, want string }{
		{`{"order_no":"N-0","timeout":"soon"}`, "invalid: wrong_type, timeout"},
		{`{"order_no":"N-1","timeout":1,"items":[{"n":1},{"n":9007199254740993}]}`, "invalid: number_not_exact, items[].n"},
		{`{"order_no":"N-2"}`, "invalid: missing_field, timeout"},
		{`no JSON`, "invalid: invalid_json"},
	} {
		publish(t, q, settle.Intent{OrderNo: fmt.Sprintf("N-%d", i), Body: []byte(c.body)})
		d := pull(t, q, 1)[0]
		require.Equal(t, c.want, d.InvalidReason())
		d.Release()
	}
}
