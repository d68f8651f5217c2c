package order

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Warning is something that is signed and sent as it is, but that another
// reading of the contract would sign differently (signing rule 12).
type Warning struct {
	Code WarningCode `json:"code"`
	// Path leads to the value or the name, as in [Error].
	Path string `json:"path"`
	// Message is one sentence for people.
	Message string `json:"message"`
}

// WarningCode names the kind of a warning. The set is closed.
type WarningCode string

// The kinds of warnings.
const (
	// WarnNull: a top-level null, which contract section 5.2 signs as "null",
	// and which others leave out.
	WarnNull WarningCode = "null_field"
	// WarnName: a name outside lower snake case, which alphabets sort differently.
	WarnName WarningCode = "name_not_snake_case"
	// WarnUnsorted: an object below the top whose names are not sorted.
	WarnUnsorted WarningCode = "nested_names_unsorted"
	// WarnExponent: a number that is written with an exponent.
	WarnExponent WarningCode = "number_with_exponent"
)

// MaxWarnings bounds the warnings of one order; an order of a mebibyte could
// earn a hundred thousand, and nobody would read on.
const MaxWarnings = 32

// Warnings lists what another reading of the contract would sign differently,
// at most [MaxWarnings], in the order of the canonical body. It never stops an
// order. Each call walks the body again: warnings are for whoever enqueues and
// explains, not for the path of an attempt.
func (o *Order) Warnings() []Warning {
	w := warner{
		dec:  jsontext.NewDecoder(bytes.NewBuffer(o.Canonical()), jsontext.AllowDuplicateNames(true)),
		last: make([]string, MaxDepth+1),
	}
	for len(w.found) < MaxWarnings && w.next() {
	}
	return w.found
}

// warner walks a canonical body.
type warner struct {
	dec *jsontext.Decoder
	// last is the name read last in the object at each depth; told, that the
	// object was reported as unsorted.
	last  []string
	told  [MaxDepth + 1]bool
	found []Warning
}

// next reads one token. It says whether there was one; the body was validated
// when it was parsed, so that nothing but its end stops the walk.
func (w *warner) next() bool {
	depth := w.dec.StackDepth()
	container, length := w.dec.StackIndex(depth)
	switch kind := w.dec.PeekKind(); kind {
	case '{', '[', '}', ']':
		_, err := w.dec.ReadToken()
		if kind == '{' {
			w.told[depth+1] = false
		}
		return err == nil
	default:
		raw, err := w.dec.ReadValue()
		if err != nil {
			return false
		}
		switch {
		case container == '{' && length%2 == 0:
			w.name(raw, depth, length == 0)
		case kind == 'n' && depth == 1:
			w.add(WarnNull, w.path(), "null is signed as the text null; some servers leave such a field out of the signature")
		case kind == '0' && bytes.IndexByte(raw, 'e') >= 0:
			w.add(WarnExponent, w.path(), Clip(string(raw), maxSeen)+" is written with an exponent; send it as a string")
		}
		return true
	}
}

func (w *warner) name(raw []byte, depth int, first bool) {
	text, _ := jsontext.AppendUnquote(nil, raw) // validated by the parser
	name := string(text)
	if !isSnakeCase(name) {
		w.add(WarnName, w.path(), "the name is not in lower snake case; servers may sort it differently")
	}
	if depth > 1 && !first && !w.told[depth] && CompareUTF16(name, w.last[depth]) < 0 {
		w.told[depth] = true
		w.add(WarnUnsorted, w.parentPath(), fmt.Sprintf("the name %s comes after %s; a server that sorts nested names signs another text",
			strconv.Quote(Clip(name, maxSeen)), strconv.Quote(Clip(w.last[depth], maxSeen))))
	}
	w.last[depth] = name
}

func (w *warner) path() string { return pathOfPointer(w.dec, w.dec.StackPointer()) }

func (w *warner) parentPath() string {
	return pathOfPointer(w.dec, w.dec.StackPointer().Parent())
}

func (w *warner) add(code WarningCode, path, message string) {
	if len(w.found) < MaxWarnings {
		w.found = append(w.found, Warning{Code: code, Path: path, Message: message})
	}
}

// String gives "path: message".
func (w Warning) String() string { return strings.TrimPrefix(w.Path+": "+w.Message, ": ") }
