package settle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// TestFindWhatCameByAWrongSubject: what is listed can be shown, by the name that
// the listing gives.
func TestFindWhatCameByAWrongSubject(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	js := jetStream(t, s)
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
	require.NoError(t, q.LetterPages(t.Context(), func(page []*settle.Letter, _ []error) error {
		for _, l := range page {
			found, err := q.Find(t.Context(), l.Name())
			require.NoError(t, err)
			require.NotNil(t, found.Letter, "%q, filed under %q", l.Name(), l.FiledUnder)
			require.Equal(t, l.Seq, found.Letter.Seq)
			require.Equal(t, order.OutcomeInvalid, found.Record.Outcome())
			shown++
		}
		return nil
	}))
	require.Equal(t, 3, shown)
	found, err := q.Find(t.Context(), "a.b")
	require.NoError(t, err)
	require.Equal(t, settle.Found{}, found, "nothing came by its own subject")
	deadLetter(t, q, "a.b", rejected())
	found, err = q.Find(t.Context(), "a.b")
	require.NoError(t, err)
	require.Equal(t, "b1:a.b", found.Letter.IntentID)
	require.Equal(t, "a.b", found.Letter.Name())
}

// TestInvalidReasons group what breaks the same rule in the same place.
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
