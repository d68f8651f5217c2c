package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"orderpost/internal/order"
)

var english = message.NewPrinter(language.English)

// violation puts one broken rule into words. v is the whole order.
func violation(v any, e *jsonschema.ValidationError) *Violation {
	steps := make([]any, 0, len(e.InstanceLocation)+1)
	for _, step := range e.InstanceLocation {
		switch in := v.(type) {
		case []any:
			i, _ := strconv.Atoi(step) // the library counted
			steps, v = append(steps, i), in[i]
		case map[string]any:
			steps, v = append(steps, step), in[step]
		}
	}
	seen, below := words(v, e)
	if below != "" {
		steps = append(steps, below)
	}
	rule := strings.TrimPrefix(e.SchemaURL, address+"#")
	for _, keyword := range e.ErrorKind.KeywordPath() {
		rule += "/" + keyword
	}
	return &Violation{Path: order.Path(steps...), Seen: seen, Rule: order.Clip(rule, 200)}
}

// words says what is wrong with a value. below is the name of the field in it that the
// rule is about, if the rule is about its presence.
func words(v any, e *jsonschema.ValidationError) (seen, below string) {
	is := show(v)
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		want := strings.Join(k.Want, " or ")
		if k.Got == "number" && want == "integer" {
			return is + " is not a whole number", ""
		}
		return is + " is of the type " + k.Got + ", not " + want, ""
	case *kind.Enum:
		list := make([]string, 0, len(k.Want))
		for _, want := range k.Want {
			list = append(list, show(want))
		}
		if len(list) > 10 {
			list = append(list[:10], fmt.Sprintf("or %d more", len(list)-10))
		}
		return is + " is none of " + strings.Join(list, ", "), ""
	case *kind.Const:
		return is + " is not " + show(k.Want), ""
	case *kind.Format:
		return is + " does not have the format " + k.Want, ""
	case *kind.Pattern:
		return is + " does not match the pattern " + order.Clip(k.Want, 100), ""
	case *kind.Minimum:
		return is + " is below the minimum, " + decimal(k.Want), ""
	case *kind.Maximum:
		return is + " is above the maximum, " + decimal(k.Want), ""
	case *kind.ExclusiveMinimum:
		return is + " is not above " + decimal(k.Want), ""
	case *kind.ExclusiveMaximum:
		return is + " is not below " + decimal(k.Want), ""
	case *kind.MultipleOf:
		return is + " is not a multiple of " + decimal(k.Want), ""
	case *kind.MinLength:
		return fmt.Sprintf("%s has %d characters, fewer than %d", is, k.Got, k.Want), ""
	case *kind.MaxLength:
		return fmt.Sprintf("%s has %d characters, more than %d", is, k.Got, k.Want), ""
	case *kind.MinItems:
		return fmt.Sprintf("%d entries, fewer than %d", k.Got, k.Want), ""
	case *kind.MaxItems:
		return fmt.Sprintf("%d entries, more than %d", k.Got, k.Want), ""
	case *kind.Required:
		return "is missing", k.Missing[0]
	case *kind.AdditionalProperties:
		return "is no field that the schema has", slices.Min(k.Properties)
	case *kind.FalseSchema:
		return is + " is not allowed here", ""
	case *kind.AnyOf:
		return "fits none of the alternatives" + closest(e), ""
	case *kind.OneOf:
		if k.Subschemas != nil {
			return "fits several of the alternatives, of which exactly one must", ""
		}
		return "fits none of the alternatives" + closest(e), ""
	default:
		return k.LocalizedString(english), ""
	}
}

// closest says how many alternatives there were.
func closest(e *jsonschema.ValidationError) string {
	if len(e.Causes) == 0 {
		return ""
	}
	return fmt.Sprintf(", of which there are %d", len(e.Causes))
}

// show quotes a value.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(order.Clip(v, 64))
	case json.Number:
		return order.Clip(v.String(), 64)
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case nil:
		return "null"
	default:
		return fmt.Sprint(v)
	}
}

// decimal writes a limit as exactly as it was given.
func decimal(r *big.Rat) string {
	digits, _ := r.FloatPrec() // a JSON number has an end
	return order.Clip(r.FloatString(digits), 64)
}
