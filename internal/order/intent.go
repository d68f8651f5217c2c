package order

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The fields that orderpost knows (contract section 2.3).
const (
	FieldOrderNo   = "order_no"
	FieldTimestamp = "timestamp"
	FieldTimeout   = "timeout"
)

// MaxTimestamp is the largest valid timestamp in milliseconds since the Unix epoch:
// 2^53-1, JavaScript's largest safe integer (rule 8).
const MaxTimestamp = 1<<53 - 1

// stampRoom is the most bytes that a timestamp adds to a body: the member's name,
// a comma and the 20 characters of an int64.
const stampRoom = len(`,"timestamp":`) + 20

// ValidTimestamp reports whether ms can be signed: 0 < ms < 2^53.
func ValidTimestamp(ms int64) bool { return ms > 0 && ms <= MaxTimestamp }

// Order is a parsed intent in canonical form. It is immutable and safe for
// concurrent use. Keep it for all attempts of the order: adding a timestamp and
// building the string to sign only copy bytes.
type Order struct {
	// text holds the canonical body without timestamp, then the string to sign up
	// to the timestamp's value, then the rest of the string to sign. A single
	// string saves allocations.
	text      string
	bodyEnd   int // text[:bodyEnd] is the body
	signSplit int // text[bodyEnd:signSplit] precedes the timestamp, text[signSplit:] follows it
	// stampAt is the offset of the timestamp's member in the body.
	stampAt                 int
	commaBefore, commaAfter bool
	orderNo                 string // part of text
	timestamp               int64  // of the parsed body; 0 = none

	hashOnce sync.Once
	hash     string
}

// OrderNo returns the order number. It is empty for an order from [Canonicalize]
// whose order_no is absent or not a string.
func (o *Order) OrderNo() string { return o.orderNo }

// Timestamp returns the top-level timestamp of the parsed body in milliseconds. ok
// is false if the body had none that can be signed (rule 8). Signing replaces it.
func (o *Order) Timestamp() (ms int64, ok bool) { return o.timestamp, o.timestamp != 0 }

// Canonical returns a copy of the canonical body (rules 5 to 7) without its
// top-level timestamp. This form is published, stored and hashed.
func (o *Order) Canonical() []byte { return []byte(o.text[:o.bodyEnd]) }

// Text is Canonical without a copy.
func (o *Order) Text() string { return o.text[:o.bodyEnd] }

// BodyHash returns the SHA-256 of the canonical body without timestamp, in
// lower-case hex. Two intents for the same order have equal hashes.
func (o *Order) BodyHash() string {
	o.hashOnce.Do(func() {
		sum := sha256.Sum256([]byte(o.text[:o.bodyEnd]))
		o.hash = hex.EncodeToString(sum[:])
	})
	return o.hash
}

// AppendBody appends the bytes to send: the canonical body with the given
// timestamp in milliseconds. The timestamp takes the position of the parsed body's
// own, or the last position (docs/signing.md, contract section 5.2 step 1). The
// caller must ensure [ValidTimestamp].
func (o *Order) AppendBody(dst []byte, timestampMS int64) []byte {
	dst = slices.Grow(dst, o.bodyEnd+stampRoom)
	dst = append(dst, o.text[:o.stampAt]...)
	if o.commaBefore {
		dst = append(dst, ',')
	}
	dst = append(dst, `"timestamp":`...)
	dst = strconv.AppendInt(dst, timestampMS, 10)
	if o.commaAfter {
		dst = append(dst, ',')
	}
	return append(dst, o.text[o.stampAt:o.bodyEnd]...)
}

// AppendStringToSign appends the string to sign: name=value pairs, the timestamp
// included, joined by & and sorted by the UTF-16 code units of their names (signing
// rule 9, contract section 5.2 steps 2 and 3). The caller must ensure
// [ValidTimestamp].
func (o *Order) AppendStringToSign(dst []byte, timestampMS int64) []byte {
	dst = slices.Grow(dst, len(o.text)-o.bodyEnd+stampRoom)
	dst = append(dst, o.text[o.bodyEnd:o.signSplit]...)
	dst = strconv.AppendInt(dst, timestampMS, 10)
	return append(dst, o.text[o.signSplit:]...)
}

// Code names the rule that a body breaks. The set is closed. Its words are the same
// in errors, records, rejects files and documents.
type Code string

// The codes of refused bodies.
const (
	// CodeInvalidJSON: the body is not exactly one RFC 8259 value (docs/signing.md).
	CodeInvalidJSON Code = "invalid_json"
	// CodeInvalidUTF8: the body is not valid UTF-8 (rule 1).
	CodeInvalidUTF8 Code = "invalid_utf8"
	// CodeTooLarge: the body is longer than [MaxBody] (rule 1), or would be sent so.
	CodeTooLarge Code = "too_large"
	// CodeNotObject: the body is valid JSON but not an object (rule 2).
	CodeNotObject Code = "not_object"
	// CodeTooDeep: the body nests deeper than [MaxDepth] (rule 2).
	CodeTooDeep Code = "too_deep"
	// CodeDuplicateName: a name occurs twice in one object (rule 3).
	CodeDuplicateName Code = "duplicate_name"
	// CodeProtoKey: an object has the name __proto__ (rule 3).
	CodeProtoKey Code = "proto_key"
	// CodeLoneSurrogate: an escaped surrogate lacks its other half (rule 4).
	CodeLoneSurrogate Code = "lone_surrogate"
	// CodeNumberNotExact: JavaScript would print the number as another value (rule 5).
	CodeNumberNotExact Code = "number_not_exact"
	// CodeNumberOutOfRange: JavaScript would read the number as infinite (rule 5).
	CodeNumberOutOfRange Code = "number_out_of_range"
	// CodeMissingField: a required field is absent or null.
	CodeMissingField Code = "missing_field"
	// CodeBadOrderNo: order_no is not a string of 1 to [MaxOrderNo] bytes.
	CodeBadOrderNo Code = "bad_order_no"
	// CodeWrongType: a required field has a type that the contract excludes
	// (contract section 2.3: timeout is an integer).
	CodeWrongType Code = "wrong_type"
)

// refusals maps each code to a sentence, in which % stands for the value seen, and
// to advice for the sender.
var refusals = map[Code]struct{ sentence, advice string }{
	CodeInvalidJSON:      {"not valid JSON: %", "send one JSON object as RFC 8259 defines it"},
	CodeInvalidUTF8:      {"% is not valid UTF-8", "encode the body as UTF-8, without a byte order mark"},
	CodeTooLarge:         {"a body of % is too large", "send at most 1048576 bytes"},
	CodeNotObject:        {"the body is % instead of an object", "send one JSON object"},
	CodeTooDeep:          {"% is nested too deeply", "nest at most 64 levels, the body being the first"},
	CodeDuplicateName:    {"the name % occurs twice in one object", "send each name once"},
	CodeProtoKey:         {"the name % has a special meaning in JavaScript", "choose another name"},
	CodeLoneSurrogate:    {"% is one half of a surrogate pair", "send the whole character or leave it out"},
	CodeNumberNotExact:   {"% cannot be carried exactly as a number", "send it as a string"},
	CodeNumberOutOfRange: {"% is too large for a number", "send it as a string"},
	CodeMissingField:     {"% but required", "add the field"},
	CodeBadOrderNo:       {"% cannot be an order number", "send a string of 1 to 255 bytes"},
	CodeWrongType:        {"% is not an integer", "send an integer number without quotes"},
}

// Advice returns what the sender of such a body can do.
func (c Code) Advice() string { return refusals[c].advice }

// Error says why a body can never be sent. Every function of this package that
// parses a body returns only this type of error.
type Error struct {
	// Code is the broken rule.
	Code Code
	// Path is the path of the value, such as items[0].price; "" = the body itself.
	Path string
	// Seen is the value found there, shortened to a few dozen bytes.
	Seen string
	// Advice is what the sender can do.
	Advice string
}

// Error returns path, problem and advice in one line:
// "amount: 9007199254740993 cannot be carried exactly as a number; send it as a string".
func (e *Error) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(e.Path)
		b.WriteString(": ")
	}
	b.WriteString(strings.Replace(refusals[e.Code].sentence, "%", e.Seen, 1))
	if e.Advice != "" {
		b.WriteString("; ")
		b.WriteString(e.Advice)
	}
	return b.String()
}

// refuse returns an Error with the code's own advice.
func refuse(code Code, path, seen string) *Error {
	return &Error{Code: code, Path: path, Seen: seen, Advice: code.Advice()}
}

// maxSeen and maxPath bound the quotes in errors and warnings, in bytes.
const (
	maxSeen = 64
	maxPath = 200
)

// syntax converts a tokenizer's error to an [*Error] with code, path and position.
// It returns nil for nil.
func (p *parser) syntax(err error) error {
	if err == nil {
		return nil
	}
	if err == io.EOF {
		return refuse(CodeInvalidJSON, "", "the body is empty")
	}
	var syntactic *jsontext.SyntacticError
	if !errors.As(err, &syntactic) {
		return refuse(CodeInvalidJSON, p.path(), Clip(err.Error(), maxSeen))
	}
	path := pathOfPointer(&p.dec, syntactic.JSONPointer)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		name := syntactic.JSONPointer.LastToken()
		return refuse(CodeDuplicateName, path, strconv.Quote(Clip(name, maxSeen)))
	}
	if escape, ok := loneSurrogate(p.body, syntactic.ByteOffset); ok && syntactic.Err != io.ErrUnexpectedEOF {
		return refuse(CodeLoneSurrogate, path, escape)
	}
	seen := fmt.Sprintf("%v at byte %d", syntactic.Err, syntactic.ByteOffset)
	return refuse(CodeInvalidJSON, path, Clip(seen, 2*maxSeen))
}

// trailing returns the error for data after the body's value. err is the result of
// reading that data.
func (p *parser) trailing(err error) error {
	if err != nil {
		return p.syntax(err)
	}
	return refuse(CodeInvalidJSON, "", fmt.Sprintf("a second value ends at byte %d", p.dec.InputOffset()))
}

// loneSurrogate reports whether the tokenizer stopped at a \u escape that is half
// of a surrogate pair. The tokenizer has no error value for that.
func loneSurrogate(body []byte, offset int64) (escape string, ok bool) {
	const length = len(`\ud800`)
	if offset < 0 || int64(len(body)) < offset+int64(length) {
		return "", false
	}
	escape = string(body[offset : offset+int64(length)])
	if !strings.HasPrefix(escape, `\u`) {
		return "", false
	}
	unit, err := strconv.ParseUint(escape[2:], 16, 16)
	return escape, err == nil && unit >= 0xD800 && unit <= 0xDFFF
}

// path returns the path of the value or name read last.
func (p *parser) path() string { return pathOfPointer(&p.dec, p.dec.StackPointer()) }

// pathOfPointer formats a JSON pointer as in code, such as items[0].price. The
// decoder knows which levels are arrays.
func pathOfPointer(dec *jsontext.Decoder, pointer jsontext.Pointer) string {
	var b strings.Builder
	level := 0
	for token := range pointer.Tokens() {
		level++
		if level <= dec.StackDepth() {
			if kind, _ := dec.StackIndex(level); kind == '[' {
				b.WriteString("[" + token + "]")
				continue
			}
		}
		writeName(&b, token)
	}
	return Clip(b.String(), maxPath)
}

// pathOfName returns the path of a top-level field.
func pathOfName(name string) string {
	var b strings.Builder
	writeName(&b, name)
	return Clip(b.String(), maxPath)
}

// writeName appends .name, or ["name"] if a dot would be ambiguous.
func writeName(b *strings.Builder, name string) {
	name = name[:min(len(name), maxPath+utf8.UTFMax)] // the rest would be clipped
	if name == "" || strings.ContainsFunc(name, isPathBreaking) {
		b.WriteString("[" + strconv.Quote(Clip(name, maxPath)) + "]")
		return
	}
	if b.Len() > 0 {
		b.WriteByte('.')
	}
	b.WriteString(name)
}

func isPathBreaking(r rune) bool {
	return r == '.' || r == '[' || r == ']' || r == '"' || r == ':' || r == '\\' || !strconv.IsPrint(r) || r == ' '
}

// quoteSeen quotes a string, to tell "3600" from 3600.
func quoteSeen(kind byte, text []byte) string {
	if kind == '"' {
		return strconv.Quote(Clip(string(text), maxSeen))
	}
	return string(text)
}

// kindWord names a token kind for people.
func kindWord(kind byte) string {
	switch kind {
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	case 'n':
		return "null"
	default:
		return "true or false"
	}
}

// Path returns the path of steps through a body as in code, such as items[0].price. A step
// is the name of a member, or the index of an entry as an int.
func Path(steps ...any) string {
	var b strings.Builder
	for _, step := range steps {
		if i, ok := step.(int); ok {
			b.WriteString("[" + strconv.Itoa(i) + "]")
			continue
		}
		writeName(&b, step.(string))
	}
	return Clip(b.String(), maxPath)
}
