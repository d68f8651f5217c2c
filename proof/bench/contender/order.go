package contender

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// OrderBytes is the size of each order's body without its timestamp.
const OrderBytes = 300

// The key pair of the bench.
const (
	APIKey    = "bench-key-0123456789"
	APISecret = "bench-secret"
)

// sentField holds the time at which an order was published, in nanoseconds
// since 1970, so that the API knows how long it was on its way.
const sentField = `"sent":"`

// OrderNo names the i-th order.
func OrderNo(i int) string { return fmt.Sprintf("B-%09d", i) }

// Order is the body of the i-th order: text, whole numbers and nested values,
// OrderBytes long.
func Order(i int, sent time.Time) []byte {
	body := make([]byte, 0, OrderBytes)
	body = fmt.Appendf(body, `{"order_no":%q,"timeout":60,"type":"limit","side":"buy","symbol":"ABC-USD","amount":"%d.50","price":"99.95",`+
		`"customer":{"id":"C-%06d","country":"DE"},"items":[{"sku":"A-1","qty":2},{"sku":"B-2","qty":1}],%s`,
		OrderNo(i), 1000+i%1000, i%1_000_000, sentField)
	body = strconv.AppendInt(body, sent.UnixNano(), 10)
	body = append(body, `","note":"`...)
	const end = `"}`
	body = append(body, strings.Repeat("x", OrderBytes-len(end)-len(body))...)
	return append(body, end...)
}
