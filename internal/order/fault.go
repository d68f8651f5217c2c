package order

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

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
