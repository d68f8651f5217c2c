package sign_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"orderpost/internal/order"
)

// generated is a body with what must become of it: traps is empty where it must
// be accepted, else it must be refused with one of these codes.
type generated struct {
	body      string
	timestamp int64
	traps     []order.Code
}

// generate makes the body number i of a seed. Bodies are made by construction:
// the generator knows what it spelled, and asks no parser.
func generate(seed, i uint64) generated {
	g := generatorOf(seed, i)
	made := generated{timestamp: 1 + g.Int64N(order.MaxTimestamp)}
	if g.IntN(10) > 0 {
		made.body = g.space() + g.object(1, "") + g.space()
		return made
	}
	trap := g.IntN(len(bodyTraps) + len(valueTraps))
	if trap < len(bodyTraps) {
		made.body, made.traps = bodyTraps[trap](g, g.object(1, ""))
		return made
	}
	bad, code := valueTraps[trap-len(bodyTraps)](g)
	for range g.IntN(4) {
		bad = g.wrap(bad)
	}
	made.body, made.traps = g.object(1, g.text("trapped")+":"+bad), []order.Code{code}
	return made
}

type generator struct{ *rand.Rand }

func generatorOf(seed, i uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, i))}
}

func pick[T any](g *generator, choices ...T) T { return choices[g.IntN(len(choices))] }

func (g *generator) space() string {
	return pick(g, "", "", "", "", "", "", " ", "\n", "\t\r\n ")
}

// value spells any JSON value. Containers get rarer with depth.
func (g *generator) value(depth int) string {
	switch n := g.IntN(10); {
	case n < 2 && depth < 6:
		return g.object(depth, "")
	case n < 3 && depth < 6:
		return g.array(depth)
	case n < 6:
		return g.number()
	case n < 7:
		return pick(g, "true", "false", "null")
	default:
		return g.text(g.content())
	}
}

// object spells an object with distinct names, and with one more member, given
// as it is, somewhere in it.
func (g *generator) object(depth int, extra string) string {
	names := map[string]bool{}
	var members []string
	for range g.IntN(7) {
		name := g.name()
		if names[name] {
			continue
		}
		names[name] = true
		members = append(members, g.text(name)+g.space()+":"+g.space()+g.value(depth+1))
	}
	if extra != "" {
		members = slices.Insert(members, g.IntN(len(members)+1), extra)
	}
	return "{" + g.join(members) + "}"
}

func (g *generator) array(depth int) string {
	items := make([]string, g.IntN(4))
	for i := range items {
		items[i] = g.value(depth + 1)
	}
	return "[" + g.join(items) + "]"
}

func (g *generator) join(parts []string) string {
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(g.space() + part + g.space())
	}
	return b.String()
}

// name draws names that JavaScript treats specially, names that sort
// differently by UTF-8 and UTF-16, and ordinary ones.
func (g *generator) name() string {
	switch g.IntN(5) {
	case 0:
		return strconv.Itoa(g.IntN(12))
	case 1:
		return pick(g, "4294967293", "4294967294", "4294967295", "4294967296", "9007199254740993",
			"00", "01", "-0", "-1", "1.0", "1e3", "+1", " 1", "0x1", "NaN", "Infinity")
	case 2:
		return pick(g, "", "toJSON", "toString", "valueOf", "constructor", "length", "hasOwnProperty", "prototype",
			"__proto", "__proto___", "__PROTO__", "timestamp", "timestam", "timestamp_", "timestamp\x00", "Timestamp", "timestampx")
	case 3:
		return g.content()
	default:
		return pick(g, "order_no", "order-no", "orderNo", "Order_No", "timeout", "amount", "items", "sku", "qty", "a", "B", "z", "_")
	}
}

// content draws the text of a string: runes at every border that a rule knows.
func (g *generator) content() string {
	var b strings.Builder
	for range g.IntN(9) {
		switch g.IntN(4) {
		case 0:
			b.WriteRune(rune(g.IntN(0x80)))
		case 1:
			b.WriteString(pick(g, "<", ">", "&", "'", `"`, `\`, "/", "=", "&b=2", "%20", "+", "\u2028", "\u2029", "\x7f", "\u0080",
				"\u00a0", "\u00ad", "\u200b", "\u202e", "\ufeff", "\ufffd", "\ufffe", "\uffff", "e\u0301", "\u00e9"))
		case 2:
			b.WriteRune(pick(g, '\uD7FF', '\uE000', '\uFB01', '\uF8FF', '\U00010000', '\U0001F600', '\U0001F511', '\U0010FFFF'))
		default:
			b.WriteRune(rune(0xA0 + g.IntN(0xD800-0xA0)))
		}
	}
	return b.String()
}

// text spells a string, with each character raw or escaped in one of the ways
// that JSON has.
func (g *generator) text(s string) string {
	raw := g.IntN(3) > 0
	b := []byte{'"'}
	for _, r := range s {
		short := strings.IndexRune("\"\\/\b\f\n\r\t", r)
		switch {
		case short >= 0 && (r != '/' || !raw) && g.IntN(3) > 0:
			b = append(b, '\\', `"\/bfnrt`[short])
		case r < ' ' || r == '"' || r == '\\' || !raw && g.IntN(2) == 0:
			b = g.escape(b, r)
		default:
			b = append(b, string(r)...)
		}
	}
	return string(append(b, '"'))
}

// escape appends \uXXXX, as a surrogate pair where the rune needs one, in upper
// or lower case digits.
func (g *generator) escape(b []byte, r rune) []byte {
	format := pick(g, `\u%04x`, `\u%04X`)
	if r < 0x10000 {
		return fmt.Appendf(b, format, r)
	}
	r -= 0x10000
	return fmt.Appendf(b, format+format, 0xD800+r>>10, 0xDC00+r&0x3FF)
}

// number spells a number that binary64 carries exactly, in one of the ways that
// JSON has.
func (g *generator) number() string {
	switch g.IntN(6) {
	case 0:
		return strconv.Itoa(g.IntN(100000) - 1000)
	case 1:
		return fmt.Sprintf("%d.%02d", g.IntN(100000), g.IntN(100))
	case 2:
		return pick(g, "0", "-0", "0.0", "-0.000", "0e5", "-0E-7", "0e99999", "1e20", "1e21", "1E+22", "1e23", "1e-6", "1e-7", "0.000001",
			"9007199254740992", "-9007199254740992", "9007199254740994", "1.7976931348623157e308", "5e-324", "2.2250738585072014e-308")
	default:
		return g.respell(g.float())
	}
}

// float draws a finite float that is not zero: of any magnitude, or an ordinary one.
func (g *generator) float() float64 {
	for {
		f := pick(g, math.Float64frombits(g.Uint64()), g.NormFloat64()*1e6, float64(g.Int64N(1<<60)), math.Round(g.Float64()*1e6)/1e3)
		if f != 0 && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f
		}
	}
}

// respell writes a float's shortest decimal with the point elsewhere, with
// superfluous zeros, and with an exponent that makes up for it.
func (g *generator) respell(f float64) string {
	sign, digits, exponent := decimalOf(f)
	digits += strings.Repeat("0", g.IntN(3)*g.IntN(4))
	point := 1 + g.IntN(len(digits)) // digits in front of the point
	exponent -= point - 1
	if g.IntN(4) == 0 { // 0.000ddd
		zeros := g.IntN(8)
		digits, exponent, point = "0"+strings.Repeat("0", zeros)+digits, exponent+point+zeros, 1
	}
	text := sign + digits[:point]
	if point < len(digits) {
		text += "." + digits[point:]
	}
	switch {
	case exponent == 0 && g.IntN(2) == 0:
		return text
	case exponent < 0:
		return fmt.Sprintf("%s%s%0*d", text, pick(g, "e-", "E-"), 1+g.IntN(4), -exponent)
	default:
		return fmt.Sprintf("%s%s%0*d", text, pick(g, "e", "E", "e+", "E+"), 1+g.IntN(4), exponent)
	}
}

// decimalOf gives the shortest decimal of a float: d.ddd × 10^exponent, with
// the digits' point left out.
func decimalOf(f float64) (sign, digits string, exponent int) {
	text := strconv.FormatFloat(f, 'e', -1, 64)
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	mantissa, power, _ := strings.Cut(text, "e")
	exponent, _ = strconv.Atoi(power)
	return sign, strings.Replace(mantissa, ".", "", 1), exponent
}
