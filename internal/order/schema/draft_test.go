package schema

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// TestDraft: the first schema has what the orders have in common, and takes all of them.
func TestDraft(t *testing.T) {
	var d Draft
	var all []*order.Order
	for i := range 40 {
		o := with(t, fmt.Sprintf(`"amount":%d.5,"count":%d,"currency":%q,"day":"2026-03-%02d","note":"n%d","at":"2026-03-01T10:00:00Z",
			"items":[{"price":%d,"sku":"s"},{"price":0.1}],"extra":%s`, i, i, []string{"EUR", "USD"}[i%2], i%28+1, i, i, []string{"null", `"x"`}[i%2]))
		all = append(all, o)
		d.Add(o)
	}
	all = append(all, parsed(t, `{"order_no":"B","timeout":5,"items":[]}`))
	d.Add(all[40])
	require.Equal(t, 41, d.Orders())
	text, err := d.Text()
	require.NoError(t, err)
	s, err := Parse("draft.json", text)
	require.NoError(t, err, string(text))
	for _, o := range all {
		require.Nil(t, s.Check(o))
	}
	var got struct {
		Required   []string
		Properties map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, []string{"items", "order_no", "timeout"}, got.Required)
	require.Equal(t, map[string]any{"type": "number", "$comment": "seen: 0.5 to 39.5"}, got.Properties["amount"])
	require.Equal(t, map[string]any{"type": "integer", "$comment": "seen: 0 to 39"}, got.Properties["count"])
	require.Equal(t, map[string]any{"type": "string", "enum": []any{"EUR", "USD"}}, got.Properties["currency"])
	require.Equal(t, map[string]any{"type": "string", "format": "date"}, got.Properties["day"])
	require.Equal(t, map[string]any{"type": "string", "format": "date-time"}, got.Properties["at"])
	require.Equal(t, map[string]any{"type": "string", "$comment": "seen: 2 to 3 characters"}, got.Properties["note"])
	require.Equal(t, map[string]any{"type": []any{"null", "string"}}, got.Properties["extra"])
	require.Equal(t, "integer", got.Properties["timeout"]["type"])
	require.NotContains(t, got.Properties["order_no"], "enum")
	require.Equal(t, map[string]any{"type": "object", "required": []any{"price"}, "properties": map[string]any{
		"price": map[string]any{"type": "number", "$comment": "seen: 0 to 39"},
		"sku":   map[string]any{"type": "string", "enum": []any{"s"}}}}, got.Properties["items"]["items"])

	for members, want := range map[string]string{`"items":[{}]`: "items[0].price: is missing", `"items":[],"currency":"EURO"`: `currency: "EURO" is none of "EUR", "USD"`} {
		require.ErrorContains(t, s.Check(with(t, members)), want)
	}
}
