package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"orderpost/internal/order"
	"orderpost/internal/platform/textfile"
)

// Type is the JSON type of a column's cells.
type Type string

// The types of columns.
const (
	TypeString Type = "string"
	TypeInt    Type = "int"
	TypeNumber Type = "number"
	TypeBool   Type = "bool"
	TypeJSON   Type = "json"
)

var types = []Type{TypeString, TypeInt, TypeNumber, TypeBool, TypeJSON}

// The values of Mapping.Empty.
const (
	EmptyString = "string"
	EmptyOmit   = "omit"
	EmptyNull   = "null"
)

// Mapping says how columns become fields. With the zero value, the header names the
// fields, timeout is a whole number, and all other fields are text.
type Mapping struct {
	// Types maps a field's name in JSON, after renaming, to its type.
	Types map[string]Type `json:"types,omitempty" yaml:"types,omitempty"`
	// Rename maps a header name to a field's name.
	Rename map[string]string `json:"rename,omitempty" yaml:"rename,omitempty"`
	// LeaveOut lists the headers of columns that are not sent. "" names those without a header.
	LeaveOut []string `json:"leave_out,omitempty" yaml:"leave_out,omitempty"`
	// Set adds constant fields to every order. name:type=value sets a type.
	Set map[string]string `json:"set,omitempty" yaml:"set,omitempty"`
	// Empty says what empty cells become: string (the default), omit or null.
	Empty string `json:"empty,omitempty" yaml:"empty,omitempty"`
	// OrderNoTemplate makes order numbers from {batch} and {row} for a file without
	// them.
	OrderNoTemplate string `json:"order_no_template,omitempty" yaml:"order_no_template,omitempty"`
	// Accept maps a field's name in JSON to the questions whose answer is yes: such
	// cells are right as they are.
	Accept map[string][]Code `json:"accept,omitempty" yaml:"accept,omitempty"`
	// Trailer describes the record that ends the file, and its control totals; nil = the file has none.
	Trailer *Trailer `json:"trailer,omitempty" yaml:"trailer,omitempty"`
}

// IsZero reports whether the mapping changes nothing.
func (m Mapping) IsZero() bool { return m.canonical() == nil }

// MappingKeys lists the keys of a mapping file.
func MappingKeys() (keys []string) {
	for field := range reflect.TypeFor[Mapping]().Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		keys = append(keys, key)
	}
	return keys
}

// forNDJSON reports whether the mapping has no options that only CSV supports.
func (m Mapping) forNDJSON() bool {
	for name := range m.Accept {
		if name != order.FieldOrderNo {
			return false
		}
	}
	m.Accept, m.Trailer = nil, nil
	return m.IsZero()
}

// ReadMapping reads a mapping file (YAML). Unknown keys are an error. A value without quotes is
// the text that the file has.
func ReadMapping(name string, r io.Reader) (Mapping, error) {
	var m Mapping
	text, err := io.ReadAll(r)
	if err != nil {
		return m, fmt.Errorf("%s: %w", name, err)
	}
	if err := textfile.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %s", name, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	return m, nil
}

// Write writes the mapping as a file for [ReadMapping] and enqueue --mapping. comment
// may have several lines.
func (m Mapping) Write(w io.Writer, comment string) error {
	var b strings.Builder
	for line := range strings.Lines(comment) {
		b.WriteString("# " + strings.TrimRight(line, "\r\n") + "\n")
	}
	if !m.IsZero() {
		text, err := yaml.Marshal(m)
		if err != nil {
			return err
		}
		b.Write(text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Validate returns all mistakes in the mapping, joined.
func (m Mapping) Validate() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(m.Types)) {
		if !slices.Contains(types, m.Types[name]) {
			errs = append(errs, fmt.Errorf("type of %s: %q is none of %s", clip(name), clip(string(m.Types[name])), typeList()))
		}
	}
	if t, ok := m.Types[order.FieldOrderNo]; ok && t != TypeString {
		errs = append(errs, fmt.Errorf("type of order_no: it is always text, not %s", t))
	}
	switch m.Empty {
	case "", EmptyString, EmptyOmit, EmptyNull:
	default:
		errs = append(errs, fmt.Errorf("empty cells: %q is none of omit, null, string", m.Empty))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Rename)) {
		if name == "" || m.Rename[name] == "" {
			errs = append(errs, fmt.Errorf("rename: %q to %q: both names must be there", clip(name), clip(m.Rename[name])))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Accept)) {
		for _, code := range m.Accept[name] {
			if !slices.Contains(Questions(), code) {
				errs = append(errs, fmt.Errorf("accept %s: %q is none of %s", clip(name), clip(string(code)), list(Questions())))
			}
		}
	}
	return errors.Join(append(errs, m.checkTemplate(), m.Trailer.validate())...)
}

func (m Mapping) checkTemplate() error {
	t := m.OrderNoTemplate
	rest := strings.NewReplacer("{batch}", "", "{row}", "").Replace(t)
	switch {
	case t == "":
		return nil
	case !strings.Contains(t, "{row}"):
		return fmt.Errorf("order_no template %q: without {row} every order has the same number", t)
	case strings.ContainsAny(rest, "{}"):
		return fmt.Errorf("order_no template %q: only {batch} and {row} can be filled in", t)
	}
	return nil
}

// Merge returns m overridden by over. The command line overrides a mapping file.
func (m Mapping) Merge(over Mapping) Mapping {
	out := m
	out.Types, out.Rename, out.Set = merged(m.Types, over.Types), merged(m.Rename, over.Rename), merged(m.Set, over.Set)
	out.Accept = merged(m.Accept, over.Accept)
	out.LeaveOut = slices.Concat(m.LeaveOut, over.LeaveOut)
	out.Empty, out.OrderNoTemplate, out.Trailer = cmp.Or(over.Empty, m.Empty), cmp.Or(over.OrderNoTemplate, m.OrderNoTemplate), cmp.Or(over.Trailer, m.Trailer)
	return out
}

func merged[V any](a, b map[string]V) map[string]V {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := make(map[string]V, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// flags returns the flags of enqueue for the mapping, without the answers to questions.
func (m Mapping) flags() string {
	var flags []string
	add := func(flag string, of map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			flags = append(flags, nameFlag(flag, name, of[name]))
		}
	}
	add("--rename", m.Rename)
	for _, name := range slices.Sorted(maps.Keys(m.Types)) {
		flags = append(flags, nameFlag("--type", name, string(m.Types[name])))
	}
	for _, name := range m.LeaveOut {
		flags = append(flags, "--leave-out "+shellWord(name))
	}
	add("--set", m.Set)
	if m.Empty != "" {
		flags = append(flags, "--empty "+m.Empty)
	}
	if m.Trailer != nil {
		flags = append(flags, "--trailer "+shellWord(m.Trailer.String()))
	}
	if len(flags) == 0 {
		return ""
	}
	return ": " + strings.Join(flags, " ")
}

// canonical returns the mapping's part of the fingerprint; nil = it changes nothing.
func (m Mapping) canonical() []byte {
	if m.Empty == EmptyString {
		m.Empty = ""
	}
	data, _ := json.Marshal(m) // maps are sorted; nothing in it can fail
	if string(data) == "{}" {
		return nil
	}
	return data
}

func typeList() string { return list(types) }

func list[T ~string](words []T) string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return strings.Join(names, ", ")
}

// splitType parses name:type. The type is empty if there is no colon. The part after
// a colon must be a known type. Otherwise a misspelt type would silently become a
// part of the name.
func splitType(text string) (name string, t Type, err error) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return text, "", nil
	}
	name, t = text[:at], Type(text[at+1:])
	if !slices.Contains(types, t) {
		return "", "", fmt.Errorf("%q: %q is none of the types %s", clip(text), clip(string(t)), typeList())
	}
	return name, t, nil
}

func put[V any](m *map[string]V, name string, value V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[name] = value
}
