package sign_test

import (
	"strconv"
	"strings"

	"orderpost/internal/order"
)

// valueTraps spell a value that no body may contain, at any depth.
var valueTraps = []func(*generator) (string, order.Code){
	func(g *generator) (string, order.Code) {
		name := g.text(g.name())
		return "{" + name + ":1" + pick(g, "", `,"between":[]`) + "," + respellText(g, name) + ":2}", order.CodeDuplicateName
	},
	func(g *generator) (string, order.Code) {
		return "{" + g.text("__proto__") + ":" + g.value(5) + "}", order.CodeProtoKey
	},
	func(g *generator) (string, order.Code) {
		half := pick(g, `\ud800`, `\uDBFF`, `\udc00`, `\uDFFF`, `\ude00\ud83d`, `\ud83dx`, `\ud83d\n`, `\uD83D\u0041`)
		return `"` + pick(g, "", "a", "é", `\n`) + half + pick(g, "", " and more", "\U0001F600") + `"`, order.CodeLoneSurrogate
	},
	func(g *generator) (string, order.Code) { // odd numbers between 2^53 and 2^54 are no binary64
		return strconv.FormatInt(1<<53+1+2*g.Int64N(1<<52), 10), order.CodeNumberNotExact
	},
	func(g *generator) (string, order.Code) { // no binary64 is written with 18 digits
		sign, digits, exponent := decimalOf(g.float())
		digits += strings.Repeat("0", 17-len(digits)) + strconv.Itoa(1+g.IntN(9))
		return sign + digits[:1] + "." + digits[1:] + "e" + strconv.Itoa(min(exponent, 307)), order.CodeNumberNotExact
	},
	func(g *generator) (string, order.Code) {
		return "1e-" + strconv.Itoa(330+g.IntN(1_000_000)), order.CodeNumberNotExact
	},
	func(g *generator) (string, order.Code) {
		return pick(g, "", "-") + strconv.Itoa(1+g.IntN(9)) + ".5e" + strconv.Itoa(309+g.IntN(1_000_000)), order.CodeNumberOutOfRange
	},
	func(g *generator) (string, order.Code) {
		deep := order.MaxDepth + g.IntN(200)
		return strings.Repeat("[", deep) + strings.Repeat("]", deep), order.CodeTooDeep
	},
	func(g *generator) (string, order.Code) {
		return pick(g, "01", "+1", ".5", "5.", "0x10", "NaN", "Infinity", "-Infinity", "1_000", "10n", "1e", "1e+", "-", "--1", "undefined",
			"True", "nul", "'a'", `"a`+"\n"+`b"`, "\"a\x00b\"", `"\x41"`, `"\u12"`, `"\u{41}"`, `"\'"`, "[1,]", "[,1]", "[1 2]", `{"a":1,}`,
			`{a:1}`, `{"a"}`, `{"a":}`, `{1:2}`, "(1)", "1//c", "/**/1", "\u00a01", "\ufeff1", "[}", ","), order.CodeInvalidJSON
	},
	func(g *generator) (string, order.Code) {
		return `"` + pick(g, "\xff", "\xc0\xaf", "\xe4\xb8", "\xed\xa0\x80", "\xf4\x90\x80\x80", "é\x80") + `"`, order.CodeInvalidUTF8
	},
}

// bodyTraps spoil a body as a whole.
var bodyTraps = []func(g *generator, body string) (string, []order.Code){
	func(g *generator, body string) (string, []order.Code) {
		// The cut may go through a rune, or leave a number of another value.
		return body[:g.IntN(len(body))], []order.Code{order.CodeInvalidJSON, order.CodeInvalidUTF8, order.CodeNumberNotExact, order.CodeNumberOutOfRange}
	},
	func(g *generator, body string) (string, []order.Code) {
		return body + pick(g, "x", ",", "}", "{}", " 1", "//", "\x00", "\ufeff", "\u00a0", "\u2028"), []order.Code{order.CodeInvalidJSON}
	},
	func(g *generator, body string) (string, []order.Code) {
		return pick(g, "\ufeff", "\x00", "\v", "\f", "\u00a0", ",", "}", "x") + body, []order.Code{order.CodeInvalidJSON}
	},
	func(g *generator, body string) (string, []order.Code) {
		return pick(g, "["+body+"]", g.array(1), g.text(body), g.number(), "null", "true"), []order.Code{order.CodeNotObject}
	},
}

// wrap puts a value into an array or an object.
func (g *generator) wrap(value string) string {
	if g.IntN(2) == 0 {
		return "[" + pick(g, "", "0,", `{"a":[]},`) + value + "]"
	}
	return "{" + g.text(pick(g, "1", "n", "é", "constructor")) + ":" + value + "}"
}

// respellText spells the same string in another way where there is one.
func respellText(g *generator, spelled string) string {
	inner := strings.TrimSuffix(strings.TrimPrefix(spelled, `"`), `"`)
	if inner == "" || strings.ContainsRune(inner, '\\') {
		return spelled
	}
	escaped := []byte{'"'}
	for _, r := range inner {
		escaped = g.escape(escaped, r)
	}
	return string(append(escaped, '"'))
}
