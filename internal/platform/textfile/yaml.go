package textfile

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Document returns the YAML document in a file; nil = there is none. Further documents are an
// error: nobody would read them.
func Document(text []byte) (doc ast.Node, err error) {
	text = Decode(text)
	if i := invalid(text); i >= 0 {
		return nil, &PlaceError{1 + bytes.Count(text[:i], []byte{'\n'}), 1, fmt.Sprintf("byte 0x%02X is not UTF-8; save the file as UTF-8", text[i])}
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Docs {
		if d.Body == nil || d.Body.Type() == ast.CommentType {
			continue
		}
		if doc != nil {
			return nil, at(d.Body, "a second YAML document begins here; write one, without ---")
		}
		doc = d.Body
	}
	return doc, nil
}

// invalid returns the index of the first byte that is not UTF-8, or -1.
func invalid(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// Unmarshal reads a file in YAML into the struct that to points to. Unknown keys are an error.
// Where the struct has text, a value without quotes is the text that the file has: 01067 and 1.10
// lose nothing.
func Unmarshal(text []byte, to any) error {
	doc, err := Document(text)
	if doc == nil || err != nil {
		return err
	}
	return UnmarshalNode(doc, to)
}

// UnmarshalNode is [Unmarshal] for a part of a document.
func UnmarshalNode(node ast.Node, to any) error {
	l := literal{anchors: make(map[string]ast.Node)}
	node, err := l.convert(node, reflect.TypeOf(to), false)
	if err != nil {
		return err
	}
	return yaml.NodeToValue(node, to, yaml.Strict())
}

// literal replaces the values of a document that become text by what the file has in their place.
// YAML reads a value without quotes as a number, a truth value or nothing where it can.
type literal struct {
	anchors map[string]ast.Node
}

// convert returns a node for a type. fixed says that the node is the value of a struct's field.
func (l *literal) convert(n ast.Node, t reflect.Type, fixed bool) (ast.Node, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		l.anchors[n.Name.GetToken().Value] = n.Value
		value, err := l.convert(n.Value, t, fixed)
		n.Value = value
		return n, err
	case *ast.AliasNode:
		if at, ok := l.anchors[n.Value.GetToken().Value]; ok && t.Kind() == reflect.String {
			return l.convert(at, t, fixed)
		}
		return n, nil
	case *ast.TagNode:
		if t.Kind() == reflect.String {
			if n.Start.Value != string(token.StringTag) {
				return nil, at(n, "the tag "+n.Start.Value+" is not read here; leave it out")
			}
			return l.convert(n.Value, t, fixed)
		}
		return n, nil
	case *ast.MappingNode:
		for _, v := range n.Values {
			if err := l.entry(v, t); err != nil {
				return nil, err
			}
		}
		return n, nil
	case *ast.MappingValueNode:
		return n, l.entry(n, t)
	case *ast.SequenceNode:
		if t.Kind() != reflect.Slice {
			return n, nil
		}
		for i, v := range n.Values {
			value, err := l.convert(v, t.Elem(), false)
			if err != nil {
				return nil, err
			}
			n.Values[i] = value
		}
		return n, nil
	case ast.ScalarNode:
		if t.Kind() == reflect.String {
			return text(n, fixed)
		}
	}
	return n, nil
}

// entry converts a key with its value.
func (l *literal) entry(v *ast.MappingValueNode, t reflect.Type) (err error) {
	of, fixed := t, false
	switch key, isScalar := v.Key.(ast.ScalarNode); {
	case v.Key.IsMergeKey():
	case t.Kind() == reflect.Struct:
		field, known := fieldOf(t, v.Key.GetToken().Value)
		if !known {
			return nil // the decoder says so
		}
		of, fixed = field.Type, true
	case t.Kind() == reflect.Map:
		if of = t.Elem(); isScalar && t.Key().Kind() == reflect.String {
			v.Key = ast.String(key.GetToken())
		}
	default:
		return nil
	}
	v.Value, err = l.convert(v.Value, of, fixed)
	return err
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for field := range t.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get(yaml.StructTagName), ","); name == key {
			return field, true
		}
	}
	return reflect.StructField{}, false
}

// text returns the node of a text. Where the words are not those of one setting, the word null is
// what programs write for nothing.
func text(n ast.ScalarNode, fixed bool) (ast.Node, error) {
	switch n := n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return n, nil
	case *ast.NullNode:
		if word := n.Token.Value; fixed && strings.EqualFold(word, "null") {
			return ast.String(n.Token), nil
		} else if fixed && n.Token.Type == token.ImplicitNullType {
			return n, nil // the same as if the line were not there
		}
		return nil, at(n, `a text is missing here: write "" for an empty one, or put the word into quotes ("null")`)
	}
	return ast.String(n.GetToken()), nil
}

// at is an error of a place in a file, in the form of the parser's.
func at(n ast.Node, what string) error {
	line, column := 0, 0
	if t := n.GetToken(); t != nil && t.Position != nil {
		line, column = t.Position.Line, t.Position.Column
	}
	return &PlaceError{line, column, what}
}

// PlaceError is an error of a place in a file.
type PlaceError struct {
	Line, Column int
	What         string
}

// Error begins with the place, as the errors of the YAML parser do.
func (e *PlaceError) Error() string { return fmt.Sprintf("[%d:%d] %s", e.Line, e.Column, e.What) }
