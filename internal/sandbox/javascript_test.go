package sandbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dop251/goja"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// engine is the contract's section 5.2 in JavaScript, word by word.
type engine struct {
	parse func(body string) (goja.Value, error)
}

func newEngine(t require.TestingT) *engine {
	vm := goja.New()
	v, err := vm.RunString(`(body) => {
		const order = JSON.parse(body);
		const text = v => typeof v === "object" ? JSON.stringify(v) : String(v);
		const signed = Object.keys(order).sort().map(k => k + "=" + text(order[k])).join("&");
		return [JSON.stringify(order), signed];
	}`)
	require.NoError(t, err)
	call, ok := goja.AssertFunction(v)
	require.True(t, ok)
	return &engine{func(body string) (goja.Value, error) { return call(goja.Undefined(), vm.ToValue(body)) }}
}

// agrees checks that a body that the reader takes reads the same in JavaScript,
// and that one that it does not take is either not JSON there too or one that
// readers disagree about.
func (e *engine) agrees(t require.TestingT, d *document, body string) {
	readErr := d.read([]byte(body))
	if !utf8.ValidString(body) {
		require.Error(t, readErr)
		return
	}
	got, err := e.parse(body)
	if readErr != nil {
		if err == nil && strings.HasPrefix(strings.TrimLeft(body, " \t\r\n"), "{") {
			require.Regexp(t, "twice|__proto__|surrogate|out of range|too deep", readErr.Error(), body)
		}
		return
	}
	require.NoError(t, err, body)
	want := got.Export().([]any)
	if !json.Valid([]byte(want[0].(string))) {
		return // goja misprints some subnormal numbers (TestGojaMisprintsSubnormalNumbers in internal/sign)
	}
	require.Equal(t, want[0], string(d.out), body)
	require.Equal(t, want[1], string(d.stringToSign()), body)
}

// The parts of JSON that readers and signers get wrong.
var (
	oddTexts = []string{
		"", "a", "b", "aa", "Z", "order_no", "0", "1", "01", "10", "9", "-1", "1.5", "4294967294", "4294967295", "4294967296",
		"é", "\u2028", "\uffff", "\U0001f511", "\ue000", "\U00010000", "<&>", "a=b&c", "/", "__proto__", "toString",
		`\n`, `\"`, `\\`, `\/`, `\b\f\t\r`, `\u0000`, `\u001f`, `\u007f`, `\u00e9`, `\u00E9`, `\ud83d\udd11`, `\ud83d`, `\udd11\ud83d`,
		`\u005f`, `\u0030`, `\x`, `\u12`, "\x7f",
	}
	oddNumbers = []string{
		"0", "-0", "0.0", "-0.0", "1", "-1", "10", "1.0", "1e2", "1E+2", "1e-2", "0.1", "0.30000000000000004", "1e21", "1e20", "123456789012345",
		"-123456789012345", "1234567890123456", "9007199254740993", "12345678901234567", "123456789012345678", "1e-6", "1e-7", "0.00000123", "5e-324",
		"1e-400", "1.7976931348623157e308", "1e309", "-1e309", "100000000000000000000", "1000000000000000000000", "01", "1.", ".5", "+1", "1e", "-",
		"0x1", "2.5e-8", "1.5e300", "4.35", "1e23", "1e100",
	}
	someText   = rapid.SampledFrom(oddTexts)
	someNumber = rapid.SampledFrom(oddNumbers)
	someBlank  = rapid.SampledFrom([]string{" ", "\n", "\t \r", "\u00a0", "\x00"})
)

// TestOddPiecesAgreeWithJavaScript tries each number, and each pair of names
// and texts.
func TestOddPiecesAgreeWithJavaScript(t *testing.T) {
	e, d := newEngine(t), new(document)
	for _, n := range oddNumbers {
		e.agrees(t, d, fmt.Sprintf(`{"v":%s,"n":[%s,{"x":%s}]}`, n, n, n))
	}
	for _, a := range oddTexts {
		for _, b := range oddTexts {
			e.agrees(t, d, fmt.Sprintf(`{"%s":"%s","%s":{"%s":0,"%s":["%s"]}}`, a, b, b, b, a, a))
		}
	}
}

func someValue(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := 6
		if depth == 0 {
			kinds = 4
		}
		blank := func() string {
			if rapid.IntRange(0, 9).Draw(t, "blank?") > 0 {
				return ""
			}
			return someBlank.Draw(t, "blank")
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return someNumber.Draw(t, "number")
		case 1, 2:
			return `"` + someText.Draw(t, "text") + someText.Draw(t, "text") + `"`
		case 3:
			return rapid.SampledFrom([]string{"true", "false", "null", "nul", ""}).Draw(t, "word")
		case 4:
			items := rapid.SliceOfN(someValue(depth-1), 0, 3).Draw(t, "items")
			return "[" + blank() + strings.Join(items, blank()+",") + "]"
		default:
			return someObject(depth-1).Draw(t, "object")
		}
	})
}

func someObject(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		members := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf(`"%s":%s`, someText.Draw(t, "name"), someValue(depth).Draw(t, "value"))
		}), 0, 5).Draw(t, "members")
		return "{" + strings.Join(members, ",") + "}"
	})
}

func TestReaderAgreesWithJavaScript(t *testing.T) {
	e, d := newEngine(t), new(document)
	rapid.Check(t, func(t *rapid.T) {
		e.agrees(t, d, someObject(3).Draw(t, "body"))
	})
}

// FuzzReader looks for bodies that panic, or that JavaScript reads otherwise.
func FuzzReader(f *testing.F) {
	for _, v := range readVectors(f)[:60] {
		f.Add(v.SentBody)
	}
	for _, s := range []string{"", "{", "[]", `{"a":1}{`, `{"a":1,"a":2}`, `{"1":1,"0":{"b":1,"2":3}}`, "\ufeff{}", `{"\ud83d\udd11":"\ud83d"}`, "{\"\xff\":1}", `{"":2.2250138785072010e-308}`} {
		f.Add(s)
	}
	e := newEngine(f)
	d := new(document)
	f.Fuzz(func(t *testing.T, body string) {
		e.agrees(t, d, body)
		if d.read([]byte(body)) != nil {
			return
		}
		canonical, signed := string(d.out), string(d.stringToSign())
		require.NoError(t, d.read([]byte(canonical)))
		require.Equal(t, canonical, string(d.out), "a fixed point")
		require.Equal(t, signed, string(d.stringToSign()))
	})
}
