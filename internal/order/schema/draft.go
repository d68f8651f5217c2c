package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"
	"unicode/utf8"

	"orderpost/internal/order"
)

// Draft makes a first schema from orders, for a person to edit. It asks for what all of
// them have: types, required fields, and values where only few occur often. Ranges are in
// comments, because those of tomorrow's orders are not known.
type Draft struct{ root sample }

const (
	// A text that has at most draftValues values, each on average in draftTimes orders, is
	// taken for a choice.
	draftValues = 8
	draftTimes  = 10
)

// sample is what was seen in one place of the orders.
type sample struct {
	seen    int
	types   map[string]bool
	members map[string]*sample
	entries *sample

	low, high         *big.Rat
	lowText, highText string
	values            map[string]bool // of texts; nil once there are too many
	many              bool
	shortest, longest int
	days, times       bool // all texts are dates, or times
}

// Orders returns the number of orders that were added.
func (d *Draft) Orders() int { return d.root.seen }

// Add adds an order.
func (d *Draft) Add(o *order.Order) { d.root.add(decode(o.Text())) }

func (s *sample) add(v any) {
	if s.seen++; s.types == nil {
		s.types, s.days, s.times = make(map[string]bool), true, true
	}
	switch v := v.(type) {
	case nil:
		s.types["null"] = true
	case bool:
		s.types["boolean"] = true
	case json.Number:
		s.addNumber(v)
	case string:
		s.addText(v)
	case []any:
		s.types["array"] = true
		if s.entries == nil {
			s.entries = new(sample)
		}
		for _, entry := range v {
			s.entries.add(entry)
		}
	case map[string]any:
		s.types["object"] = true
		if s.members == nil {
			s.members = make(map[string]*sample)
		}
		for name, member := range v {
			if s.members[name] == nil {
				s.members[name] = new(sample)
			}
			s.members[name].add(member)
		}
	}
}

func (s *sample) addNumber(n json.Number) {
	r, _ := new(big.Rat).SetString(n.String()) // canonical, so at most 1e308
	if r.IsInt() {
		s.types["integer"] = true
	} else {
		s.types["number"] = true
	}
	if s.low == nil || r.Cmp(s.low) < 0 {
		s.low, s.lowText = r, n.String()
	}
	if s.high == nil || r.Cmp(s.high) > 0 {
		s.high, s.highText = r, n.String()
	}
}

func (s *sample) addText(text string) {
	n := utf8.RuneCountInString(text)
	if !s.types["string"] {
		s.shortest = n
	}
	s.types["string"] = true
	s.shortest, s.longest = min(s.shortest, n), max(s.longest, n)
	_, err := time.Parse(time.DateOnly, text)
	s.days = s.days && err == nil
	_, err = time.Parse(time.RFC3339, text)
	s.times = s.times && err == nil
	if s.many {
		return
	}
	if s.values == nil {
		s.values = make(map[string]bool)
	}
	if s.values[text] = true; len(s.values) > draftValues {
		s.values, s.many = nil, true
	}
}

// rules is a schema as it is printed.
type rules struct {
	Schema     string   `json:"$schema,omitempty"`
	Title      string   `json:"title,omitempty"`
	Comment    string   `json:"$comment,omitempty"`
	Type       any      `json:"type,omitempty"`
	Enum       []string `json:"enum,omitempty"`
	Format     string   `json:"format,omitempty"`
	Required   []string `json:"required,omitempty"`
	Properties members  `json:"properties,omitempty"`
	Items      *rules   `json:"items,omitempty"`
}

// members keeps its order in JSON.
type members []struct {
	name string
	of   *rules
}

// MarshalJSON implements json.Marshaler.
func (m members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, one := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(one.of)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(text)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Text returns the schema, indented. It takes every order that was added.
func (d *Draft) Text() ([]byte, error) {
	r := d.root.rules("")
	r.Schema, r.Title = "https://json-schema.org/draft/2020-12/schema", "An order"
	orders := "1 order"
	if d.root.seen != 1 {
		orders = fmt.Sprintf("%d orders", d.root.seen)
	}
	r.Comment = fmt.Sprintf("Made by orderpost from %s, for you to edit. An order is checked without timestamp, which the worker sets. Fields that are not named are taken; \"additionalProperties\": false refuses them.", orders)
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// rules returns what holds for all values of a sample. name is its field at the top.
func (s *sample) rules(name string) *rules {
	r := &rules{}
	types := slices.Sorted(maps.Keys(s.types))
	if s.types["number"] {
		types = slices.DeleteFunc(types, func(t string) bool { return t == "integer" })
	}
	switch len(types) {
	case 0:
	case 1:
		r.Type = types[0]
	default:
		r.Type = types
	}
	switch {
	case s.low != nil && !s.types["string"]:
		r.Comment = "seen: " + s.lowText + " to " + s.highText
	case len(types) != 1 || !s.types["string"]:
	case s.days:
		r.Format = "date"
	case s.times:
		r.Format = "date-time"
	case name != order.FieldOrderNo && !s.many && len(s.values)*draftTimes <= s.seen:
		r.Enum = slices.Sorted(maps.Keys(s.values))
	default:
		r.Comment = fmt.Sprintf("seen: %d to %d characters", s.shortest, s.longest)
	}
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		member := s.members[name]
		if member.seen == s.seen {
			r.Required = append(r.Required, name)
		}
		r.Properties = append(r.Properties, struct {
			name string
			of   *rules
		}{name, member.rules(name)})
	}
	if s.entries != nil && s.entries.seen > 0 {
		r.Items = s.entries.rules("")
	}
	return r
}
