package order_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// seeds are bodies at the borders of the rules. The vectors of package sign
// are further ones.
var seeds = []string{
	``, `{}`, `[]`, `null`, `{"a":1}`, ` { "b" : [ 1 , {} ] , "a" : null } `,
	`{"order_no":"A-1","timeout":3600,"amount":"12.50","items":[{"sku":"a","qty":2}]}`,
	`{"timestamp":1,"9":2,"10":3,"x":{"z":1,"1":2,"0":3}}`, `{"z":1,"timestamp":{"a":[]},"a":2}`,
	`{"a":"\u0000\b\t\n\f\r\u001f\"\\\/\u007f\ud83d\ude00"}`, `{"a":"\ud800"}`, `{"\udc00\ud800":1}`,
	`{"a":1e400}`, `{"a":-0.0}`, `{"a":9007199254740993}`, `{"a":0.10e1}`, `{"a":1e-400}`,
	`{"a":1,"\u0061":2}`, `{"__proto__":1}`, `{"a":1}x`, `{"a":1,}`, `{"a":tru}`, "\ufeff{}", "{\"a\":\"\xff\"}",
	"{\"\U0001F600\":1,\"\ufb01\":2}", `{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`,
}

// FuzzCanonicalIsAFixedPoint: what the parser writes, it reads back as the same
// text; it agrees with encoding/json on what JSON is; it leaves its input alone.
func FuzzCanonicalIsAFixedPoint(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed), int64(1700000000000))
	}
	f.Fuzz(func(t *testing.T, body []byte, timestampMS int64) {
		before := bytes.Clone(body)
		o, err := order.Canonicalize(body)
		require.Equal(t, before, body)
		if err != nil {
			requireJustified(t, body, err)
			return
		}
		require.True(t, json.Valid(body) && utf8.Valid(body))
		again, err := order.Canonicalize(o.Canonical())
		require.NoError(t, err)
		require.Equal(t, string(o.Canonical()), string(again.Canonical()))
		require.LessOrEqual(t, len(o.Warnings()), order.MaxWarnings)
		if !order.ValidTimestamp(timestampMS) {
			return
		}
		stamped, err := order.Canonicalize(o.AppendBody(nil, timestampMS))
		require.NoError(t, err)
		got, _ := stamped.Timestamp()
		require.Equal(t, timestampMS, got)
		require.Equal(t, string(o.Canonical()), string(stamped.Canonical()))
		require.Equal(t, string(o.AppendBody(nil, 1)), string(stamped.AppendBody(nil, 1)))
		require.Equal(t, string(o.AppendStringToSign(nil, 1)), string(stamped.AppendStringToSign(nil, 1)))
	})
}

// requireJustified checks a refusal against what other code can tell about it.
func requireJustified(t *testing.T, body []byte, err error) {
	var refused *order.Error
	require.True(t, errors.As(err, &refused))
	require.Less(t, len(err.Error()), 1000)
	switch refused.Code {
	case order.CodeInvalidUTF8:
		require.False(t, utf8.Valid(body))
	case order.CodeInvalidJSON:
		require.False(t, json.Valid(body), "%v", err)
	case order.CodeTooLarge: // as it is or as JavaScript writes it, where 1e20 has 21 digits
		require.Greater(t, 6*len(body), order.MaxBody)
	case order.CodeNotObject:
		var object map[string]json.RawMessage
		require.True(t, json.Unmarshal(body, &object) != nil || object == nil)
	case order.CodeLoneSurrogate:
		require.Contains(t, string(body), `\u`)
	case order.CodeTooDeep:
		require.Greater(t, bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")), order.MaxDepth)
	case order.CodeDuplicateName, order.CodeProtoKey, order.CodeNumberNotExact, order.CodeNumberOutOfRange:
		require.NotEmpty(t, refused.Seen)
	default:
		t.Fatalf("Canonicalize must not give %s", refused.Code)
	}
}

// memoryLimit is what parsing one body may allocate in all, garbage included.
// The dearest known body, ninety thousand distinct names, takes 54 MiB.
const memoryLimit = 128 << 20

// requireBoundedMemory parses a body and measures what that allocated.
func requireBoundedMemory(t *testing.T, body []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o, err := order.Canonicalize(body)
	if err == nil {
		_ = o.Warnings()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(memoryLimit), "%.60q", body)
}

func TestMemoryIsBounded(t *testing.T) {
	repeat := func(head, unit, tail string) []byte {
		return []byte(head + strings.Repeat(unit, (order.MaxBody-len(head)-len(tail))/len(unit)) + tail)
	}
	var names strings.Builder // distinct and in falling order, so that all must be moved
	names.WriteString(`{"a":0`)
	for i := 99_999; i > 10_000; i-- {
		names.WriteString(`,"` + strconv.Itoa(i) + `":1`)
	}
	names.WriteString(`}`)
	nest := strings.Repeat(`{"b":0,"1":`, 60)
	for name, body := range map[string][]byte{
		"arrays":                               repeat("", "[", ""),
		"objects":                              repeat("", `{"a":`, ""),
		"closed arrays":                        []byte(strings.Repeat("[", order.MaxBody/2) + strings.Repeat("]", order.MaxBody/2)),
		"digits":                               repeat(`{"a":`, "7", "}"),
		"zeros":                                repeat(`{"a":0.`, "0", "1}"),
		"exponent":                             repeat(`{"a":1e`, "9", "}"),
		"escapes":                              repeat(`{"a":"`, `\u0001`, `"}`),
		"escaped name":                         repeat(`{"`, `\n`, `":1}`),
		"numbers":                              repeat(`{"a":[1`, ",1e5", "]}"),
		"empty objects":                        repeat(`{"a":[1`, ",{}", "]}"),
		"distinct names":                       []byte(names.String()),
		"deep and moving":                      []byte(nest + names.String() + strings.Repeat("}", 60)),
		"surrogate":                            repeat(`{"a":"`, "x", `\ud800"}`),
		"bad syntax":                           repeat(`{"a":"`, "x", `"?}`),
		"not UTF-8":                            repeat(`{"a":"`, "é", "\xff\"}"),
		"spaces":                               repeat("", " ", "{}"),
		"warnings below a long name":           repeat(`{"`, "x", `":[1e99`+strings.Repeat(",1e99", 40)+"]}"),
		"warnings below a name that is quoted": repeat(`{"`, "~", `":[1e99`+strings.Repeat(",1e99", 40)+"]}"),
		"numbers that grow":                    repeat(`{"a":[1`, ",1e20", "]}"),
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(body), order.MaxBody)
			requireBoundedMemory(t, body)
		})
	}
}

// FuzzMemoryIsBounded blows a fuzzed piece up to the size limit: the parser
// must not panic and not multiply its input in memory.
func FuzzMemoryIsBounded(f *testing.F) {
	f.Add(`{"a":`, "[", "]", `}`)
	f.Add(``, `{"a":`, `}`, ``)
	f.Add(`{"a":"`, `\u0000`, ``, `"}`)
	f.Add(`{"a":0`, `,"b":1`, ``, `}`)
	f.Add(`{"a":0.`, `0`, ``, `1e9999999}`)
	f.Fuzz(func(t *testing.T, head, opening, closing, tail string) {
		unit := len(opening) + len(closing)
		if unit == 0 || len(head)+len(tail)+unit > order.MaxBody {
			return
		}
		times := (order.MaxBody - len(head) - len(tail)) / unit
		body := head + strings.Repeat(opening, times) + strings.Repeat(closing, times) + tail
		requireBoundedMemory(t, []byte(body))
	})
}
