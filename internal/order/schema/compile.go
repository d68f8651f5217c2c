package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Limits of a schema. Every order is checked against all of it.
const (
	maxFile     = 1 << 20 // bytes
	maxNesting  = 200     // levels of objects and arrays
	maxObjects  = 10_000
	maxExponent = 400    // of a number; an order's numbers end at 1e308
	maxPattern  = 10_000 // instructions of one compiled pattern
)

// address stands for the file in the library. A relative reference is resolved against it
// and then refused.
const address = "order-schema:///file"

// compile compiles the content of a file. Its errors name the file and a place in it.
func compile(file string, text []byte) (*jsonschema.Schema, error) {
	if err := scan(text); err != nil {
		return nil, fmt.Errorf("%s%w", file, err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseRegexpEngine(compilePattern)
	c.UseLoader(remote{})
	if err := c.AddResource(address, doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s, err := c.Compile(address)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", file, mistake(err))
	}
	if err := newBounds().check(s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// scan checks size, syntax, nesting and numbers before anything works on them. Its errors
// begin with ":line:column: " or ": ".
func scan(text []byte) error {
	if len(text) > maxFile {
		return fmt.Errorf(": the file has %d bytes, the limit is %d; every order is checked against all of it", len(text), maxFile)
	}
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	objects := 0
	for {
		token, err := dec.ReadToken()
		at := int(dec.InputOffset())
		var syntactic *jsontext.SyntacticError
		switch {
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(text)) > 0:
			return nil
		case errors.As(err, &syntactic):
			return fmt.Errorf("%s: not valid JSON: %w", position(text, int(syntactic.ByteOffset)), syntactic.Err)
		case err != nil:
			return fmt.Errorf(": not valid JSON: the file is empty")
		case dec.StackDepth() > maxNesting:
			return fmt.Errorf("%s: nested deeper than %d levels", position(text, at), maxNesting)
		case token.Kind() == '0' && !modest(token.String()):
			return fmt.Errorf("%s: the exponent of %.40s is beyond %d", position(text, at), token.String(), maxExponent)
		case token.Kind() == '{':
			if objects++; objects > maxObjects {
				return fmt.Errorf("%s: more than %d objects; every order is checked against all of them", position(text, at), maxObjects)
			}
		}
	}
}

// modest reports whether a number's exponent is small enough to compute with.
func modest(number string) bool {
	_, exponent, has := strings.Cut(strings.ToLower(number), "e")
	if !has {
		return true
	}
	n, err := strconv.Atoi(exponent)
	return err == nil && n >= -maxExponent && n <= maxExponent
}

// position returns ":line:column" of an offset.
func position(text []byte, offset int) string {
	before := text[:min(offset, len(text))]
	return fmt.Sprintf(":%d:%d", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'))
}

// remote refuses every reference that leaves the file.
type remote struct{}

// Load implements jsonschema.URLLoader.
func (remote) Load(string) (any, error) { return nil, errors.New("not in the file") }

// compilePattern compiles a regular expression, which Go matches in linear time.
func compilePattern(text string) (jsonschema.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("%w (patterns are RE2: no look-around, no back references)", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if n := len(program.Inst); n > maxPattern {
		return nil, fmt.Errorf("the pattern takes %d steps for each character, the limit is %d; shorten its repetitions", n, maxPattern)
	}
	return regexp.Compile(text)
}

// mistake puts an error of the compiler into words. The library's own begin with the
// address.
func mistake(err error) string {
	var load *jsonschema.LoadURLError
	var invalid *jsonschema.SchemaValidationError
	var found *jsonschema.ValidationError
	switch {
	case errors.As(err, &load) && strings.HasPrefix(load.URL, "http://json-schema.org/"), errors.As(err, &load) && strings.HasPrefix(load.URL, "https://json-schema.org/"):
		return fmt.Sprintf("%q is no draft that is known; $schema names one of draft-04, draft-06, draft-07, 2019-09 and 2020-12", load.URL)
	case errors.As(err, &load):
		return fmt.Sprintf("it refers to %q, which is not in the file: nothing is fetched; copy what is needed into the file, below $defs, and refer to it as #/$defs/NAME",
			strings.TrimPrefix(load.URL, strings.TrimSuffix(address, "file")))
	case errors.As(err, &invalid) && errors.As(invalid.Err, &found):
		leaf := deepest(found)
		at := "/" + strings.Join(leaf.InstanceLocation, "/")
		if format, is := leaf.ErrorKind.(*kind.Format); is && format.Want == "regex" {
			return fmt.Sprintf("at %s: the pattern %.80q is not valid: %v", at, fmt.Sprint(format.Got), format.Err)
		}
		return fmt.Sprintf("at %s: not a valid schema: %s", at, leaf.ErrorKind.LocalizedString(english))
	default:
		return strings.NewReplacer(address+"#", "", address, "the file").Replace(err.Error())
	}
}

// deepest returns the first error without causes that lies deepest in the document.
func deepest(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	best := e
	for _, cause := range e.Causes {
		if leaf := deepest(cause); best == e || len(leaf.InstanceLocation) > len(best.InstanceLocation) {
			best = leaf
		}
	}
	return best
}
