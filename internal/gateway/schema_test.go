package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order/schema"
	"orderpost/internal/queue"
)

// TestTheUsersSchema: one order, one of many lines, and a file that break it are answered
// with field and rule. Nothing of them is stored.
func TestTheUsersSchema(t *testing.T) {
	t.Parallel()
	schema, err := schema.Parse("s.json", []byte(`{"properties":{"qty":{"enum":["1"]},"price":{"maximum":1}}}`))
	require.NoError(t, err)
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Schema = schema })
	bad := strings.Replace(body("A-2"), `"qty":"1"`, `"qty":"x"`, 1)

	a := r.do("POST", "/v1/orders", bad)
	require.Equal(t, http.StatusUnprocessableEntity, a.status, a.text)
	p := a.problem(t)
	require.Equal(t, typePrefix+invalidOrder.name, p.Type)
	require.Equal(t, []string{"qty", `"x" is none of "1" (order schema, /properties/qty/enum)`, "correct the order"}, []string{p.Where, p.Seen, p.Do})

	a = r.do("POST", "/v1/orders", body("A-1")+"\n"+bad+"\n"+body("A-3")+"\n", "Content-Type", mediaLines)
	lines := toldLines(t, strings.NewReader(a.text))
	require.Equal(t, []int{http.StatusCreated, http.StatusUnprocessableEntity, http.StatusCreated}, []int{lines[0].Status, lines[1].Status, lines[2].Status})
	require.Contains(t, a.text, "order schema, /properties/qty/enum")

	i := r.becomes(r.bringFile("order_no,timeout,price\nF-1,30,1\nF-2,30,2\n", "?type=price=number&direct"), "refused")
	require.Equal(t, 1, i.Invalid)
	require.Equal(t, []any{3, 3, "price", "2", "schema"}, []any{i.Bad[0].Line, i.Bad[0].Column, i.Bad[0].Name, i.Bad[0].Value, i.Bad[0].Code})
	require.Contains(t, i.Bad[0].Detail, "2 is above the maximum, 1 (order schema, /properties/price/maximum)")

	i = r.becomes(r.bringFile("order_no,timeout,price\n"+strings.Repeat("F,30,7\n", 2000), "?type=price=number&direct"), "refused")
	require.Contains(t, i.Problem.Detail, "every row that was read (2000) breaks the same rule of the order schema, as in 2:3: price: 7 is above the maximum")
	require.EqualValues(t, 2, r.stored())
}
