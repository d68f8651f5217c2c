package schema

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"orderpost/internal/order"
)

// Code names the broken rule, beside those of order.Code.
const Code = "schema"

// Violation says where an order breaks the schema.
type Violation struct {
	// Path is the path in the order, such as items[0].price; "" = the order itself.
	Path string
	// Seen says what is wrong there.
	Seen string
	// Rule is the place of the broken rule in the schema, such as
	// /properties/amount/maximum.
	Rule string
	// More is how many other rules the order breaks.
	More int
}

// Error returns path, problem and rule in one line.
func (v *Violation) Error() string {
	text := v.Says()
	if v.Path != "" {
		text = v.Path + ": " + text
	}
	return text
}

// Says is Error without the path.
func (v *Violation) Says() string {
	text := v.Seen + " (order schema, " + v.Rule
	if v.More > 0 {
		text += "; and it breaks " + strconv.Itoa(v.More) + " more of its rules"
	}
	return text + ")"
}

var arrayIndex = regexp.MustCompile(`\[\d+\]`)

// Reason groups orders that break a rule in the same field: "invalid: schema, amount".
func (v *Violation) Reason() string {
	if v.Path == "" {
		return "invalid: " + Code
	}
	return "invalid: " + Code + ", " + arrayIndex.ReplaceAllString(v.Path, "[]")
}

// Check returns the first rule that an order breaks, in the order of the paths; nil =
// none.
func (s *Schema) Check(o *order.Order) *Violation {
	if s == nil {
		return nil
	}
	v := decode(o.Text())
	err := s.now().Validate(v)
	if err == nil {
		return nil
	}
	broken := err.(*jsonschema.ValidationError) // it returns no other
	all := violations(v, broken, nil)
	slices.SortStableFunc(all, func(a, b *Violation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Rule, b.Rule))
	})
	all[0].More = len(all) - 1
	return all[0]
}

// violations appends the broken rules. Alternatives of which none fits are one of them.
func violations(v any, e *jsonschema.ValidationError, to []*Violation) []*Violation {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Contains, *kind.MinContains, *kind.PropertyNames:
		return append(to, violation(v, e))
	}
	if len(e.Causes) == 0 {
		return append(to, violation(v, e))
	}
	for _, cause := range e.Causes {
		to = violations(v, cause, to)
	}
	return to
}

// decode reads a canonical body as the library has values. Numbers stay texts, and texts
// are parts of the body. A general decoder took as long as all rules of a common schema.
func decode(body string) any {
	d := decoder{body: body}
	return d.value()
}

// decoder reads canonical JSON, which has no blanks and no mistakes.
type decoder struct {
	body string
	at   int
}

func (d *decoder) value() any {
	switch d.body[d.at] {
	case '{':
		object := make(map[string]any, memberHint)
		for d.at++; d.body[d.at] != '}'; d.comma() {
			name := d.text()
			d.at++ // the colon
			object[name] = d.value()
		}
		d.at++
		return object
	case '[':
		list := []any{}
		for d.at++; d.body[d.at] != ']'; d.comma() {
			list = append(list, d.value())
		}
		d.at++
		return list
	case '"':
		return d.text()
	case 't':
		d.at += len("true")
		return true
	case 'f':
		d.at += len("false")
		return false
	case 'n':
		d.at += len("null")
		return nil
	default:
		begin := d.at
		for d.at < len(d.body) && strings.IndexByte(",]}", d.body[d.at]) < 0 {
			d.at++
		}
		return json.Number(d.body[begin:d.at])
	}
}

// memberHint is how many fields an object is expected to have.
const memberHint = 12

func (d *decoder) comma() {
	if d.body[d.at] == ',' {
		d.at++
	}
}

// text reads a string.
func (d *decoder) text() string {
	begin := d.at
	for d.at++; ; d.at++ {
		d.at += strings.IndexByte(d.body[d.at:], '"')
		slashes := 0
		for d.body[d.at-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			break
		}
	}
	d.at++
	raw := d.body[begin:d.at]
	if strings.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, raw) // order.Parse validated it
	return string(text)
}
