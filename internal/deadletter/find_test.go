package deadletter

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// TestFindWhatCameByAWrongSubject: what is listed can be shown, by the name that
// the listing gives.
func TestFindWhatCameByAWrongSubject(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	js := s.JetStream(t)
	for i, token := range []string{"a%2eb", "\u00e9", "\xe9"} {
		_, err := js.Publish(t.Context(), "orders.new."+token, fmt.Appendf(nil, `{"order_no":"a.b","timeout":30,"n":%d}`, i))
		require.NoError(t, err)
		d := pull(t, q, 1)[0]
		require.Equal(t, settle.WorkInvalid, d.Work)
		require.Equal(t, "invalid: wrong_subject", d.InvalidReason())
		settleAs(t, q, d, order.Report{End: order.EndInvalid, Reason: d.InvalidReason()})
		requireDrained(t, q)
	}
	shown := 0
	require.NoError(t, LetterPages(t.Context(), q, func(page []*settle.Letter) error {
		for _, l := range page {
			found, err := status.Find(t.Context(), q, l.Name())
			require.NoError(t, err)
			require.Len(t, found.Letters, 1, "%q, filed under %q", l.Name(), l.FiledUnder)
			require.Equal(t, l.Seq, found.Letters[0].Seq)
			require.Equal(t, order.OutcomeInvalid, found.Record.Outcome())
			shown++
		}
		return nil
	}))
	require.Equal(t, 3, shown)
	found, err := status.Find(t.Context(), q, "a.b")
	require.NoError(t, err)
	require.Equal(t, status.Found{}, found, "nothing came by its own subject")
	deadLetter(t, q, "a.b")
	found, err = status.Find(t.Context(), q, "a.b")
	require.NoError(t, err)
	require.Equal(t, "b1:a.b", found.Letters[0].IntentID)
	require.Equal(t, "a.b", found.Letters[0].Name())
}
