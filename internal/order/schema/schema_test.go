package schema

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

func parsed(tb testing.TB, body string) *order.Order {
	tb.Helper()
	o, err := order.Parse([]byte(body))
	require.NoError(tb, err)
	return o
}

// with returns an order with these members beside the required ones.
func with(tb testing.TB, members string) *order.Order {
	return parsed(tb, `{"order_no":"A-1","timeout":30,`+members+`}`)
}

// TestWords: each rule names the place and the value in the order's words, and the place
// of the rule.
func TestWords(t *testing.T) {
	for _, c := range []struct{ schema, members, want string }{
		{`{"properties":{"amount":{"maximum":1000000}}}`, `"amount":1000000.01`, `amount: 1000000.01 is above the maximum, 1000000 (order schema, /properties/amount/maximum)`},
		{`{"properties":{"amount":{"minimum":0.1}}}`, `"amount":0.09`, `amount: 0.09 is below the minimum, 0.1 (order schema, /properties/amount/minimum)`},
		{`{"properties":{"amount":{"exclusiveMinimum":0}}}`, `"amount":0`, `amount: 0 is not above 0 (order schema, /properties/amount/exclusiveMinimum)`},
		{`{"properties":{"amount":{"exclusiveMaximum":5}}}`, `"amount":5`, `amount: 5 is not below 5 (order schema, /properties/amount/exclusiveMaximum)`},
		{`{"properties":{"amount":{"multipleOf":0.01}}}`, `"amount":4.015`, `amount: 4.015 is not a multiple of 0.01 (order schema, /properties/amount/multipleOf)`},
		{`{"properties":{"amount":{"type":"integer"}}}`, `"amount":1.5`, `amount: 1.5 is not a whole number (order schema, /properties/amount/type)`},
		{`{"properties":{"amount":{"type":["number","null"]}}}`, `"amount":"1"`, `amount: "1" is of the type string, not null or number (order schema, /properties/amount/type)`},
		{`{"properties":{"currency":{"enum":["EUR","USD"]}}}`, `"currency":"EURO"`, `currency: "EURO" is none of "EUR", "USD" (order schema, /properties/currency/enum)`},
		{`{"properties":{"currency":{"const":"EUR"}}}`, `"currency":"USD"`, `currency: "USD" is not "EUR" (order schema, /properties/currency/const)`},
		{`{"properties":{"day":{"format":"date"}}}`, `"day":"2026-02-30"`, `day: "2026-02-30" does not have the format date (order schema, /properties/day/format)`},
		{`{"properties":{"sku":{"pattern":"^[A-Z]{3}$"}}}`, `"sku":"ab"`, `sku: "ab" does not match the pattern ^[A-Z]{3}$ (order schema, /properties/sku/pattern)`},
		{`{"properties":{"sku":{"minLength":3}}}`, `"sku":"äb"`, `sku: "äb" has 2 characters, fewer than 3 (order schema, /properties/sku/minLength)`},
		{`{"properties":{"sku":{"maxLength":1}}}`, `"sku":"ab"`, `sku: "ab" has 2 characters, more than 1 (order schema, /properties/sku/maxLength)`},
		{`{"required":["amount"]}`, `"sku":"ab"`, `amount: is missing (order schema, /required)`},
		{`{"properties":{"order_no":true,"timeout":true},"additionalProperties":false}`, `"b":1,"a":2`, `a: is no field that the schema has (order schema, /additionalProperties)`},
		{`{"properties":{"a":false}}`, `"a":2`, `a: 2 is not allowed here (order schema, /properties/a)`},
		{`{"properties":{"items":{"items":{"required":["price"],"properties":{"price":{"minimum":1}}}}}}`, `"items":[{"price":1},{"price":0}]`,
			`items[1].price: 0 is below the minimum, 1 (order schema, /properties/items/items/properties/price/minimum)`},
		{`{"properties":{"items":{"minItems":1,"maxItems":2}}}`, `"items":[]`, `items: 0 entries, fewer than 1 (order schema, /properties/items/minItems)`},
		{`{"properties":{"items":{"maxItems":2}}}`, `"items":[1,2,3]`, `items: 3 entries, more than 2 (order schema, /properties/items/maxItems)`},
		{`{"properties":{"items":{"uniqueItems":true}}}`, `"items":[1,2,1.0]`, `items: items at 0 and 2 are equal (order schema, /properties/items/uniqueItems)`},
		{`{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `"c":1`, `fits none of the alternatives, of which there are 2 (order schema, /anyOf)`},
		{`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `"a":1,"b":1`, `fits several of the alternatives, of which exactly one must (order schema, /oneOf)`},
		{`{"properties":{"to":{"$ref":"#/$defs/address"}},"$defs":{"address":{"required":["street"]}}}`, `"to":{"x":null}`, `to.street: is missing (order schema, /$defs/address/required)`},
		{`{"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}}}`, `"c":1,"b":2,"a":3`,
			`a: 3 is of the type number, not string (order schema, /properties/a/type; and it breaks 2 more of its rules)`},
		{`{"properties":{"a.b":{"type":"string"}}}`, `"a.b":3`, `["a.b"]: 3 is of the type number, not string (order schema, /properties/a.b/type)`},
	} {
		s, err := Parse("s.json", []byte(c.schema))
		require.NoError(t, err, c.schema)
		for range 5 { // maps have no order, messages do
			bad := s.Check(with(t, c.members))
			require.NotNil(t, bad, c.schema)
			require.Equal(t, c.want, bad.Error())
		}
	}
}

// TestNumbersAreExact: what binary64 would round decides nothing.
func TestNumbersAreExact(t *testing.T) {
	for _, c := range []struct {
		rule, number string
		fits         bool
	}{
		{`"multipleOf":0.01`, "4.35", true}, // 4.35/0.01 is 434.99999999999994 in binary64
		{`"multipleOf":0.01`, "1.1", true},
		{`"multipleOf":0.1`, "0.3", true},
		{`"multipleOf":0.01`, "0.001", false},
		{`"maximum":9007199254740993`, "9007199254740992", true},
		{`"exclusiveMaximum":9007199254740993`, "9007199254740992", true}, // both are one binary64
		{`"maximum":0.30000000000000001`, "0.3", true},
		{`"exclusiveMinimum":0.30000000000000001`, "0.3", false},
		{`"const":1`, "1.0", true},
		{`"enum":[100]`, "1e2", true},
		{`"type":"integer"`, "1e3", true},
		{`"maximum":1e400`, "1e308", true},
	} {
		s, err := Parse("s.json", []byte(`{"properties":{"n":{`+c.rule+`}}}`))
		require.NoError(t, err)
		bad := s.Check(with(t, `"n":`+c.number))
		require.Equal(t, c.fits, bad == nil, "%s of %s: %v", c.rule, c.number, bad)
	}
}

// FuzzDecode: a canonical body has the values that encoding/json finds in it.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{`{}`, `{"a":[],"b":{},"c":[[],{}],"d":null}`, `{"a":"\"","b\\":"\\\\","c":"\\\"","":"\u0001\n\tä\u00e4"}`,
		`{"n":[1e21,-0.5,1e-7,true,false,null,"x"],"o":{"p":{"q":[{"r":1}]}}}`, ` { "b" : 1.50 , "1" : [ 2 , { } ] } `} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := order.Canonicalize(body)
		if err != nil {
			return
		}
		want, err := jsonschema.UnmarshalJSON(strings.NewReader(o.Text()))
		require.NoError(t, err)
		require.Equal(t, want, decode(o.Text()))
	})
}

// TestDrafts: the drafts that a schema may name, and the newest where it names none.
func TestDrafts(t *testing.T) {
	for _, draft := range []string{"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-07/schema#",
		"https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema"} {
		s, err := Parse("s.json", []byte(`{"$schema":"`+draft+`","properties":{"day":{"type":"string","format":"date"}}}`))
		require.NoError(t, err)
		require.Nil(t, s.Check(with(t, `"day":"2026-02-28"`)))
		require.NotNil(t, s.Check(with(t, `"day":"2026-02-30"`)), draft) // a format is a rule in all of them
	}
	s, err := Parse("s.json", []byte(`{"properties":{"pair":{"prefixItems":[{"type":"string"}]}}}`)) // new in 2020-12
	require.NoError(t, err)
	require.NotNil(t, s.Check(with(t, `"pair":[1]`)))
}

// TestReferencesWithinTheFile may be by pointer, by anchor, and by an $id.
func TestReferencesWithinTheFile(t *testing.T) {
	for _, text := range []string{
		`{"properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`,
		`{"properties":{"a":{"$ref":"#s"}},"$defs":{"s":{"$anchor":"s","type":"string"}}}`,
		`{"$id":"https://shop.example/order.json","properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`,
		`{"$id":"https://shop.example/order.json","properties":{"a":{"$ref":"s.json"}},"$defs":{"s":{"$id":"s.json","type":"string"}}}`,
	} {
		s, err := Parse("s.json", []byte(text))
		require.NoError(t, err, text)
		require.Nil(t, s.Check(with(t, `"a":"x"`)))
		require.NotNil(t, s.Check(with(t, `"a":1`)))
	}
}

// TestMistakes: a schema that cannot be used says where, and what to do.
func TestMistakes(t *testing.T) {
	double := `{"$defs":{"d0":{"type":"string"}`
	for i := range 40 {
		double += fmt.Sprintf(`,"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, i, i)
	}
	double += `},"properties":{"a":{"$ref":"#/$defs/d40"}}}`
	chain := `{"$defs":{"d0":{"type":"string"}`
	for i := range 2000 {
		chain += fmt.Sprintf(`,"d%d":{"$ref":"#/$defs/d%d"}`, i+1, i)
	}
	chain += `},"properties":{"a":{"$ref":"#/$defs/d2000"}}}`
	for _, c := range []struct{ text, want string }{
		{``, `s.json: not valid JSON: the file is empty`},
		{"  \n", `s.json: not valid JSON: the file is empty`},
		{"{\n  \"type\": object}", `s.json:2:`},
		{`{"type":"object"`, `not valid JSON: unexpected EOF`},
		{`{"type":"object"} {}`, `invalid character after top-level value`},
		{`{"type":"object","type":"object"}`, `duplicate object member name`},
		{`[]`, `s.json: at /: not a valid schema`},
		{`{"type":"objekt"}`, `s.json: at /type: not a valid schema: `},
		{`{"properties":{"amount":{"maximum":"5"}}}`, `s.json: at /properties/amount/maximum: not a valid schema: got string, want number`},
		{`{"properties":{"amount":{"multipleOf":0}}}`, `s.json: at /properties/amount/multipleOf: `},
		{`{"properties":{"amount":{"maximum":1e999999999}}}`, `s.json:1:47: the exponent of 1e999999999 is beyond 400`},
		{`{"properties":{"a":{"$ref":"https://schemas.example/address.json"}}}`, `s.json: it refers to "https://schemas.example/address.json", which is not in the file: nothing is fetched; copy`},
		{`{"properties":{"a":{"$ref":"address.json"}}}`, `it refers to "address.json", which is not in the file`},
		{`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, `it refers to "file:///etc/passwd", which is not in the file`},
		{`{"properties":{"a":{"$ref":"#/$defs/none"}}}`, `s.json: json-pointer in "/$defs/none" not found`},
		{`{"$schema":"https://schemas.example/meta.json"}`, `it refers to "https://schemas.example/meta.json"`},
		{`{"$schema":"http://json-schema.org/draft-03/schema#"}`, `is no draft that is known; $schema names one of draft-04, `},
		{`{"properties":{"a":{"pattern":"(?=x)"}}}`, `no look-around`},
		{`{"properties":{"a":{"pattern":"(a"}}}`, `missing closing )`},
		{`{"patternProperties":{"(a+)\\1":{}}}`, `no look-around`},
		{`{"properties":{"a":{"pattern":"((a{30}){30}){30}"}}}`, `invalid repeat count`},
		{`{"properties":{"a":{"pattern":"` + strings.Repeat("(a|b|c){900}", 20) + `"}}}`, `steps for each character, the limit is 10000`},
		{`{"$ref":"#"}`, `s.json: at /: the schema contains itself`},
		{`{"properties":{"child":{"$ref":"#"}}}`, `the schema contains itself by its references; write out`},
		{`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, `contains itself`},
		{`{"$dynamicRef":"#x","$defs":{"x":{"$dynamicAnchor":"x"}}}`, `$dynamicRef and $recursiveRef are not taken; write $ref`},
		{`{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"a":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`, `are not taken`},
		{double, `make more than 100000 ways through the schema`},
		{chain, `a chain of references is longer than 1000 steps`},
		{strings.Repeat(`{"not":`, 500) + `{}` + strings.Repeat(`}`, 500), `nested deeper than 200 levels`},
		{`{"enum":[` + strings.Repeat(`"x",`, 300000) + `"y"]}`, `the file has 1200014 bytes, the limit is 1048576`},
		{`{"description":"` + strings.Repeat("x", 10<<20) + `"}`, `the file has 10485778 bytes, the limit is 1048576`},
		{`{"allOf":[` + strings.Repeat(`{},`, 20000) + `{}]}`, `more than 10000 objects`},
	} {
		began := time.Now()
		_, err := Parse("s.json", []byte(c.text))
		require.ErrorContains(t, err, c.want, "%.200s", c.text)
		require.True(t, strings.HasPrefix(err.Error(), "ORDERPOST_ORDER_SCHEMA: s.json:"), err.Error())
		require.Less(t, len(err.Error()), 500)
		require.Less(t, time.Since(began), 20*time.Second, "a guard against exponential work, %.80s", c.text)
	}
}

// TestLargeSchemasCompile: the limits are reached by what they allow.
func TestLargeSchemasCompile(t *testing.T) {
	var b strings.Builder
	for i := range 9_900 {
		fmt.Fprintf(&b, `"f%d":{"type":"string"},`, i)
	}
	s, err := Parse("s.json", []byte(`{"properties":{`+strings.TrimSuffix(b.String(), ",")+`}}`))
	require.NoError(t, err)
	require.NotNil(t, s.Check(with(t, `"f9899":1`)))
}

// TestReadAgain: a changed file is in force within seconds. One with a mistake changes
// nothing, and says so.
// TestByteOrderMark: editors on Windows write one.
func TestByteOrderMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "order.json")
	require.NoError(t, os.WriteFile(path, []byte("\ufeff{\"required\":[\"qty\"]}"), 0o600))
	s, err := Config{File: path}.Load(zerolog.Nop())
	require.NoError(t, err)
	require.NotNil(t, s.Check(with(t, `"a":"1"`)))
}

func TestReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "order.schema.json")
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		old := time.Now().Add(-time.Minute).Add(time.Duration(len(text)) * time.Second) // nobody writes it any more
		require.NoError(t, os.Chtimes(file, old, old))
	}
	write(`{"properties":{"a":{"type":"string"}}}`)
	var log strings.Builder
	s, err := Config{File: file}.Load(zerolog.New(&log))
	require.NoError(t, err)
	o := with(t, `"a":1`)
	look := func() *Violation {
		s.next.Store(0) // the next look is due
		return s.Check(o)
	}
	require.NotNil(t, look())
	pinned := s.Pinned()

	write(`{"properties":{"a":{"type":"number"}}}   `)
	require.Nil(t, look())
	require.NotNil(t, pinned.Check(o), "what is under way keeps its schema")
	require.Contains(t, log.String(), "order schema read again")

	write(`{"properties":{"a":{"type":"nmber"}}}`)
	require.Nil(t, look())
	require.Nil(t, look())
	require.Contains(t, s.Note(), "going on with the old order schema: ORDERPOST_ORDER_SCHEMA: "+file+": at /properties/a/type")
	require.Equal(t, 1, strings.Count(log.String(), "going on with the old one"))

	require.NoError(t, os.Remove(file))
	require.Nil(t, look())
	require.Contains(t, s.Note(), "no such file")

	write(`{"properties":{"a":{"type":"boolean"}}}`)
	require.NotNil(t, look())
	require.Empty(t, s.Note())

	none, err := Config{}.Load(zerolog.Nop())
	require.NoError(t, err)
	require.Nil(t, none.Check(o))
	require.Nil(t, none.Pinned())
	_, err = Config{File: filepath.Join(t.TempDir(), "none.json")}.Load(zerolog.Nop())
	require.ErrorContains(t, err, "ORDERPOST_ORDER_SCHEMA: open ")
}

// TestFields: the columns of a file that fits the schema, those that it requires first, without the timestamp.
func TestFields(t *testing.T) {
	s, err := Parse("s.json", []byte(`{"type":"object","required":["order_no","timeout"],"properties":{"amount":{"type":"number"},"timeout":{"type":"integer"},
		"order_no":{"type":"string"},"timestamp":{"type":"integer"},"customer":{"$ref":"#/$defs/customer"}},
		"$defs":{"customer":{"type":"object","required":["name"],"properties":{"zip":{"type":"string"},"name":{"type":"string"}}}}}`))
	require.NoError(t, err)
	require.Equal(t, []string{"order_no", "timeout", "amount", "customer.name", "customer.zip"}, s.Fields())
	require.Nil(t, (*Schema)(nil).Fields())
	s, err = Parse("s.json", []byte(`{"type":"object"}`))
	require.NoError(t, err)
	require.Empty(t, s.Fields())
}
