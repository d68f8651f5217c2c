package importer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestControlTotals: a file with other totals than those that were expected is refused, with all of them in one sentence.
// They are about what would be sent, added up exactly.
func TestControlTotals(t *testing.T) {
	const file = "order_no,timeout,amount,count:int\nA-1,30,0.10,1\nA-2,30,0.20,2\nA-2,30,5,7\n"
	check := func(skip bool, options ...string) error {
		t.Helper()
		c := Choices{}
		for i := 0; i < len(options); i += 2 {
			require.NoError(t, c.Set(options[i], options[i+1]))
		}
		o := c.Options()
		o.File, o.SkipInvalid = "orders.csv", skip
		f, err := Open(strings.NewReader(file), o)
		require.NoError(t, err)
		_, err = f.Check(t.Context())
		return err
	}
	require.NoError(t, check(true, "expect-rows", "2", "expect-sum", "amount=0.3", "expect-sum", "count=3", "expect-sum", "timeout=60"))
	err := check(true, "expect-rows", "3", "expect-sum", "amount=0.31", "expect-sum", "price=1", "expect-sum", "count=3.0")
	var wrong *WrongTotals
	require.ErrorAs(t, err, &wrong)
	require.EqualError(t, err, "orders.csv: orders to send: 2, and 3 were expected; the sum of amount is 0.3, and 0.31 was expected; no order has a number as its price, whose sum was expected to be 1 (--expect-rows, --expect-sum); nothing was stored")
	require.Equal(t, "orders.csv: orders to send: 2, and 0 were expected", Plain(check(true, "expect-rows", "0")))
	var bad *BadRows
	require.ErrorAs(t, check(false, "expect-rows", "2"), &bad, "a bad row comes first")

	for option, want := range map[string]string{"expect-rows=-1": `"-1" is not a number of orders`, "expect-sum=amount": `"amount" is not NAME=NUMBER`, "expect-sum=amount=1,5": `"1,5" is not a number such as 1234.56`} {
		name, value, _ := strings.Cut(option, "=")
		require.ErrorContains(t, (&Choices{}).Set(name, value), want)
	}
	c := Choices{}
	require.NoError(t, c.Set("expect-sum", "a=1"))
	require.ErrorContains(t, c.Set("expect-sum", "a=2"), "a has two sums")
}
