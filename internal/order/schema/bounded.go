package schema

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxWays is the largest number of ways through a schema. References and alternatives
	// can double them at each step.
	maxWays = 100_000
	// maxSteps is the longest way.
	maxSteps = 1000
)

// bounds counts the ways through a schema. A schema that contains itself has no end of
// them: by an order that is nested for the purpose, a client could keep a checker busy for
// years.
type bounds struct {
	open  map[*jsonschema.Schema]bool
	known map[*jsonschema.Schema]bound
}

// bound is the number of ways through a schema, and the steps of the longest.
type bound struct{ ways, steps int }

func newBounds() *bounds {
	return &bounds{make(map[*jsonschema.Schema]bool), make(map[*jsonschema.Schema]bound)}
}

func (b *bounds) check(s *jsonschema.Schema) error {
	_, err := b.of(s)
	return err
}

func (b *bounds) of(s *jsonschema.Schema) (bound, error) {
	if have, ok := b.known[s]; ok {
		return have, nil
	}
	at := cmp.Or(strings.TrimPrefix(s.Location, address+"#"), "/")
	if b.open[s] {
		return bound{}, fmt.Errorf("at %s: the schema contains itself by its references; write out as many levels as an order can have", at)
	}
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		return bound{}, fmt.Errorf("at %s: $dynamicRef and $recursiveRef are not taken; write $ref", at)
	}
	b.open[s] = true
	sum := bound{ways: 1}
	for _, part := range parts(s) {
		of, err := b.of(part)
		if err != nil {
			return bound{}, err
		}
		sum = bound{sum.ways + of.ways, max(sum.steps, of.steps)}
		if sum.ways > maxWays {
			return bound{}, fmt.Errorf("at %s: its references and alternatives make more than %d ways through the schema, and every order is checked by each", at, maxWays)
		}
	}
	if sum.steps++; sum.steps > maxSteps {
		return bound{}, errors.New("a chain of references is longer than " + fmt.Sprint(maxSteps) + " steps")
	}
	b.open[s], b.known[s] = false, sum
	return sum, nil
}

// parts lists the schemas that a schema applies to a value or to what is in it.
func parts(s *jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	add := func(list ...*jsonschema.Schema) {
		for _, one := range list {
			if one != nil {
				out = append(out, one)
			}
		}
	}
	any := func(v any) {
		switch v := v.(type) {
		case *jsonschema.Schema:
			add(v)
		case []*jsonschema.Schema:
			add(v...)
		}
	}
	add(s.Ref, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema)
	add(s.AllOf...)
	add(s.AnyOf...)
	add(s.OneOf...)
	add(s.PrefixItems...)
	any(s.AdditionalProperties)
	any(s.Items)
	any(s.AdditionalItems)
	for _, one := range s.Properties {
		add(one)
	}
	for _, one := range s.PatternProperties {
		add(one)
	}
	for _, one := range s.DependentSchemas {
		add(one)
	}
	for _, one := range s.Dependencies {
		any(one)
	}
	return out
}
