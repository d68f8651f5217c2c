package order

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Warning marks a value that another reading of the contract would sign differently
// (docs/signing.md). It does not stop the order.
type Warning struct {
	Code WarningCode `json:"code"`
	// Path is the path of the value or the name, as in [Error].
	Path string `json:"path"`
	// Message is one sentence for people.
	Message string `json:"message"`
}

// WarningCode names the kind of a warning. The set is closed.
type WarningCode string

// The kinds of warnings.
const (
	// WarnNull: a top-level null. Contract section 5.2 signs it as "null", but some
	// servers leave it out.
	WarnNull WarningCode = "null_field"
	// WarnName: a name outside lower snake case. Servers may sort it differently.
	WarnName WarningCode = "name_not_snake_case"
	// WarnUnsorted: the names of a nested object are not sorted.
	WarnUnsorted WarningCode = "nested_names_unsorted"
	// WarnExponent: a number with an exponent.
	WarnExponent WarningCode = "number_with_exponent"
)

// MaxWarnings is the most warnings for one order. An order of a mebibyte could have
// a hundred thousand.
const MaxWarnings = 32

// Warnings returns what another reading of the contract would sign differently, in
// the order of the canonical body, at most [MaxWarnings]. Each call walks the body
// again, so call it when enqueueing or explaining, not for each attempt.
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
	// last is the previous name of the object at each depth. told says that the
	// object was already reported as unsorted.
	last  []string
	told  [MaxDepth + 1]bool
	found []Warning
}

// next reads one token and reports whether there was one. The body is valid, so only
// its end stops the walk.
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
	before := w.last[depth]
	w.last[depth] = name
	if !isSnakeCase(name) {
		w.add(WarnName, w.path(), "the name is not in lower snake case; servers may sort it differently")
	}
	if depth > 1 && !first && !w.told[depth] && CompareUTF16(name, before) < 0 {
		w.told[depth] = true
		w.add(WarnUnsorted, w.pathTo(depth-1), fmt.Sprintf("the name %s comes after %s; a server that sorts nested names signs another text",
			strconv.Quote(Clip(name, maxSeen)), strconv.Quote(Clip(before, maxSeen))))
	}
}

func (w *warner) path() string { return w.pathTo(w.dec.StackDepth()) }

// pathTo returns the path of what was read last at a depth. The decoder's own pointer
// holds every name in full, which may be a mebibyte for each warning.
func (w *warner) pathTo(depth int) string {
	var b strings.Builder
	for level := 1; level <= depth && b.Len() <= maxPath; level++ {
		if kind, length := w.dec.StackIndex(level); kind == '[' {
			fmt.Fprintf(&b, "[%d]", length-1)
		} else {
			writeName(&b, w.last[level])
		}
	}
	return Clip(b.String(), maxPath)
}

func (w *warner) add(code WarningCode, path, message string) {
	if len(w.found) < MaxWarnings {
		w.found = append(w.found, Warning{Code: code, Path: path, Message: message})
	}
}

// String returns "path: message".
func (w Warning) String() string { return strings.TrimPrefix(w.Path+": "+w.Message, ": ") }
