package order_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []string // code and path
	}{
		{"nothing", `{"order_no":"A","b":1,"a":{"x":[1.5,null],"y":{"a":null}},"timestamp":null}`, nil},
		{"null", `{"coupon":null}`, []string{"null_field coupon"}},
		{"names", `{"orderNo":1,"o":{"B":[{"c-d":1}]},"":2}`, []string{
			"name_not_snake_case orderNo", "name_not_snake_case o.B", "name_not_snake_case o.B[0].c-d", `name_not_snake_case [""]`}},
		{"order", `{"z":1,"a":{"b":1,"a":2,"z":3,"c":4},"l":[{"y":{"q":1},"x":2},{"a":1,"b":2}]}`, []string{
			"nested_names_unsorted a", "nested_names_unsorted l[0]"}},
		{"each object once", `{"l":[{"c":1,"b":2,"a":3},{"b":1,"a":2}]}`, []string{"nested_names_unsorted l[0]", "nested_names_unsorted l[1]"}},
		{"siblings do not compare", `{"l":[{"z":1},{"a":{"b":1}},{"a":1}]}`, nil},
		{"exponents", `{"a":1e21,"l":[0.0000001,1e3]}`, []string{"number_with_exponent a", "number_with_exponent l[0]"}},
		{"an e elsewhere", `{"e":"1e5","te":true}`, nil},
		{"indexes", `{"o":{"10":1,"9":2}}`, []string{"name_not_snake_case o.9", "name_not_snake_case o.10", "nested_names_unsorted o"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, w := range canonical(t, c.body).Warnings() {
				require.NotEmpty(t, w.Message)
				got = append(got, string(w.Code)+" "+w.Path)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestWarningsAreBounded(t *testing.T) {
	body := strings.Builder{}
	body.WriteString(`{"` + strings.Repeat("X", 10_000) + `":{"first":0`)
	for i := range 5000 {
		fmt.Fprintf(&body, `,"N%d%s":1e99`, i, strings.Repeat("n", 100))
	}
	body.WriteString("}}")
	warnings := canonical(t, body.String()).Warnings()
	require.Len(t, warnings, order.MaxWarnings)
	for _, w := range warnings {
		require.Less(t, len(w.String()), 500)
	}
}
