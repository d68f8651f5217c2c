package order_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

func requireRefused(t *testing.T, err error) *order.Error {
	t.Helper()
	var refused *order.Error
	require.ErrorAs(t, err, &refused)
	require.NotEmpty(t, refused.Advice)
	require.Equal(t, refused.Code.Advice(), refused.Advice)
	return refused
}

func TestParseChecksRequiredFields(t *testing.T) {
	long := strings.Repeat("é", 127) // 254 bytes
	for _, c := range []struct {
		name, body string
		code       order.Code
		message    string
	}{
		{"complete", `{"order_no":"A","timeout":0}`, "", ""},
		{"longest order number", `{"order_no":"` + long + `x","timeout":1}`, "", ""},
		{"negative timeout", `{"order_no":"A","timeout":-5}`, "", ""},
		{"integral timeout", `{"order_no":"A","timeout":3.60e1}`, "", ""},
		{"huge timeout", `{"order_no":"A","timeout":15e21}`, "", ""},
		{"bad timestamp is replaced", `{"order_no":"A","timeout":1,"timestamp":"x"}`, "", ""},
		{"nothing", `{}`, order.CodeMissingField, "order_no: absent but required; add the field"},
		{"no order number", `{"timeout":1}`, order.CodeMissingField, "order_no: absent but required; add the field"},
		{"order number below the top", `{"o":{"order_no":"A"},"timeout":1}`, order.CodeMissingField, "order_no: absent but required; add the field"},
		{"order number is a number", `{"order_no":12,"timeout":1}`, order.CodeBadOrderNo, "order_no: 12 cannot be an order number; send a string of 1 to 255 bytes"},
		{"order number is null", `{"order_no":null,"timeout":1}`, order.CodeBadOrderNo, "order_no: null cannot be an order number; send a string of 1 to 255 bytes"},
		{"order number is empty", `{"order_no":"","timeout":1}`, order.CodeBadOrderNo, "order_no: an empty string cannot be an order number; send a string of 1 to 255 bytes"},
		{"order number is too long", `{"order_no":"` + long + `xy","timeout":1}`, order.CodeBadOrderNo, "order_no: a string of 256 bytes cannot be an order number; send a string of 1 to 255 bytes"},
		{"no timeout", `{"order_no":"A"}`, order.CodeMissingField, "timeout: absent but required; add the field"},
		{"timeout is null", `{"order_no":"A","timeout":null}`, order.CodeMissingField, "timeout: null but required; add the field"},
		{"timeout is a string", `{"order_no":"A","timeout":"3600"}`, order.CodeWrongType, `timeout: "3600" is not an integer; send an integer number without quotes`},
		{"timeout is a fraction", `{"order_no":"A","timeout":1.5}`, order.CodeWrongType, "timeout: 1.5 is not an integer; send an integer number without quotes"},
		{"timeout is tiny", `{"order_no":"A","timeout":1e-7}`, order.CodeWrongType, "timeout: 1e-7 is not an integer; send an integer number without quotes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := order.Parse([]byte(c.body))
			if c.code == "" {
				require.NoError(t, err)
				require.NotEmpty(t, o.OrderNo())
				return
			}
			require.Nil(t, o)
			require.Equal(t, c.code, requireRefused(t, err).Code)
			require.EqualError(t, err, c.message)
		})
	}
}

func TestParseWithOtherFields(t *testing.T) {
	body := []byte(`{"order_no":"A","amount":"1","note":null}`)
	_, err := order.Parse(body)
	require.Equal(t, "timeout", requireRefused(t, err).Path, "the default")
	_, err = order.ParseWith(body, order.Options{Required: []string{}})
	require.NoError(t, err, "an empty list requires the order number alone")
	_, err = order.ParseWith(body, order.Options{Required: []string{"amount", "timestamp"}})
	require.NoError(t, err, "the signer adds the timestamp")
	_, err = order.ParseWith(body, order.Options{Required: []string{"note"}})
	require.Equal(t, order.CodeMissingField, requireRefused(t, err).Code)
	_, err = order.ParseWith([]byte(`{"amount":"1"}`), order.Options{Required: []string{"amount"}})
	require.Equal(t, "order_no", requireRefused(t, err).Path, "always required")
}

func TestRefusalsSayWhereAndWhat(t *testing.T) {
	for _, c := range []struct{ name, body, path, message string }{
		{"number", `{"amount":9007199254740993}`, "amount", "amount: 9007199254740993 cannot be carried exactly as a number; send it as a string"},
		{"nested number", `{"items":[{"sku":"a"},{"sku":"b","price":[0,1e999]}]}`, "items[1].price[1]", "items[1].price[1]: 1e999 is too large for a number; send it as a string"},
		{"strange names", `{"a.b":{"":{"x y":1e999}}}`, `["a.b"][""]["x y"]`, ""},
		{"digits as a name", `{"0":{"1":[1e999]}}`, "0.1[0]", ""},
		{"after a closed array", `{"l":[1,2],"o":{"p":1e999}}`, "o.p", ""},
		{"duplicate", `{"o":{"k":1,"\u006b":2}}`, "o.k", `o.k: the name "k" occurs twice in one object; send each name once`},
		{"proto", `{"o":{"__proto__":1}}`, "o.__proto__", ""},
		{"surrogate", `{"memo":["a","x\ud83dy"]}`, "memo[1]", `memo[1]: \ud83d is one half of a surrogate pair; send the whole character or leave it out`},
		{"syntax", `{"a":True}`, "a", "a: not valid JSON: invalid character 'T' at start of value at byte 5; send one JSON object as RFC 8259 defines it"},
		{"cut off", `{"a":[1,2`, "a", "a: not valid JSON: unexpected EOF at byte 9; send one JSON object as RFC 8259 defines it"},
		{"cut off within a pair", `{"a":"\ud83d\ude`, "a", `a: not valid JSON: unexpected EOF at byte 6; send one JSON object as RFC 8259 defines it`},
		{"empty", " \n", "", "not valid JSON: the body is empty; send one JSON object as RFC 8259 defines it"},
		{"second value", `{"a":1} {"b":2}`, "", "not valid JSON: a second value ends at byte 9; send one JSON object as RFC 8259 defines it"},
		{"bytes", "{\"a\":\"\xff\"}", "", "0xFF at byte 6 is not valid UTF-8; encode the body as UTF-8, without a byte order mark"},
		{"array", `[{"a":1}]`, "", "the body is an array instead of an object; send one JSON object"},
		{"deep", `{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, "a" + strings.Repeat("[0]", 63), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := order.Canonicalize([]byte(c.body))
			require.Equal(t, c.path, requireRefused(t, err).Path, "%v", err)
			if c.message != "" {
				require.EqualError(t, err, c.message)
			}
		})
	}
}

func TestTooLarge(t *testing.T) {
	fill := func(size int) []byte {
		frame := `{"memo":""}`
		return []byte(`{"memo":"` + strings.Repeat("x", size-len(frame)) + `"}`)
	}
	_, err := order.Canonicalize(fill(order.MaxBody))
	require.NoError(t, err)
	_, err = order.Canonicalize(fill(order.MaxBody + 1))
	require.Equal(t, order.CodeTooLarge, requireRefused(t, err).Code)
	require.EqualError(t, err, "a body of 1048577 bytes is too large; send at most 1048576 bytes")

	_, err = order.Canonicalize([]byte(`{"a":[1` + strings.Repeat(",1e20", 100_000) + `]}`))
	require.EqualError(t, err, "a body of 2200009 bytes, as JavaScript writes it, is too large; send at most 1048576 bytes")
}

// What is quoted of a body must stay short, since errors are logged and filed.
func TestRefusalsAreBounded(t *testing.T) {
	huge := strings.Repeat("é7", order.MaxBody/4)
	for _, body := range []string{
		`{"` + huge + `":1e999}`,
		`{"a":` + strings.Repeat("7", order.MaxBody/2) + `}`,
		`{"` + huge + `":1,"` + huge + `":2}`,
		`{"` + huge + `":"\ud800"}`,
		`{"order_no":["` + huge + `"]}`,
		`{"order_no":"A","timeout":"` + huge + `"}`,
		`{"a":` + huge + `}`,
	} {
		_, err := order.Parse([]byte(body))
		require.Error(t, err)
		require.Less(t, len(err.Error()), 500, "%.80s", err)
	}
}

func TestParseLeavesTheBodyAlone(t *testing.T) {
	for _, text := range []string{`{"b":1.0,"1":{"z":1,"0":2},"order_no":"\u0041","timeout":1}`, `{"a":[1,}`} {
		body := []byte(text)
		o, err := order.Parse(body)
		require.Equal(t, text, string(body))
		if err != nil {
			continue
		}
		want := string(o.AppendStringToSign(o.Canonical(), 1))
		copy(body, bytes.Repeat([]byte{'#'}, len(body)))
		require.Equal(t, want, string(o.AppendStringToSign(o.Canonical(), 1)), "the order must not refer to the body")
		require.Equal(t, "A", o.OrderNo())
	}
}
