package cli

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"orderpost/internal/platform/duration"
)

// EnvPrefix is the prefix of every setting's name.
const EnvPrefix = "ORDERPOST_"

// Environ returns the variables of os.Environ as a map.
func Environ(list []string) map[string]string { return env.ToMap(list) }

// ReadEnv fills the struct that dst points to from the environment. The
// error names the variable of every value that cannot be read, which then has its default, or
// that has something around it, which is then taken off: nothing else can be said of it.
func ReadEnv(dst any, environ map[string]string) error {
	settings, readable := Settings(dst), maps.Clone(environ)
	var errs []error
	for _, s := range settings {
		if bare, is := unwrapped(environ[s.Name]); is {
			errs = append(errs, fmt.Errorf("%s: has a blank, a line end or quotes around its value, as a file of settings with CRLF or quotes leaves them; remove them", s.Name))
			readable[s.Name] = bare
		}
	}
	read := func() error {
		err := env.ParseWithOptions(dst, env.Options{Environment: readable, Prefix: EnvPrefix,
			FuncMap: map[reflect.Type]env.ParserFunc{reflect.TypeFor[time.Duration](): func(text string) (any, error) { return duration.Parse(text) }}})
		keepEmpty(reflect.ValueOf(dst).Elem(), readable)
		return err
	}
	err := read()
	var all env.AggregateError
	if !errors.As(err, &all) {
		return errors.Join(append(errs, err)...)
	}
	for _, e := range all.Errors {
		name, err := nameVariable(e, settings, readable)
		errs = append(errs, err)
		delete(readable, name)
	}
	_ = read()
	return errors.Join(errs...)
}

// unwrapped returns a value without what stands around it by mistake: blanks, line ends, a
// pair of quotes. A folder's name with a line end is another folder, with empty books.
func unwrapped(value string) (bare string, is bool) {
	bare = strings.TrimSpace(value)
	if last := len(bare) - 1; last > 0 && bare[0] == bare[last] && (bare[0] == '"' || bare[0] == '\'') {
		bare = bare[1:last]
	}
	return bare, bare != value
}

// keepEmpty sets the text settings with the tag empty:"kept" to "" if their
// variable is set to "". The library treats an empty variable like an absent one
// and uses the default.
func keepEmpty(v reflect.Value, environ map[string]string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, tagged := f.Tag.Lookup("env")
		if !tagged && f.Type.Kind() == reflect.Struct {
			keepEmpty(v.Field(i), environ)
		}
		if value, set := environ[EnvPrefix+name]; set && value == "" && f.Tag.Get("empty") == "kept" {
			v.Field(i).SetString("")
		}
	}
}

// nameVariable returns the variable of an error, and the error with its name instead of the
// library's Go field.
func nameVariable(err error, settings []Setting, environ map[string]string) (string, error) {
	var bad env.ParseError
	if !errors.As(err, &bad) {
		return "", err
	}
	for _, s := range settings {
		switch {
		case s.field != bad.Name || s.kind != bad.Type:
		case wanted(bad.Type) == "":
			return s.Name, fmt.Errorf("%s: %w", s.Name, bad.Err)
		default:
			return s.Name, fmt.Errorf("%s: %q is not %s", s.Name, environ[s.Name], wanted(bad.Type))
		}
	}
	return "", err
}

// wanted says how a value of a type is written; "" = the type says it itself.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "" // duration.Parse says it
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64, t.Kind() == reflect.Int32:
		return "a whole number"
	case t.Kind() == reflect.Float64:
		return "a number"
	default:
		return ""
	}
}

// Setting is an environment variable that a program reads.
type Setting struct {
	// Name is the variable with its prefix.
	Name string
	// Default is "" if there is none.
	Default string
	// Description is one line of help.
	Description string

	field string
	kind  reflect.Type
}

// SettingsHelp describes the variables of a configuration struct for a command's help.
func SettingsHelp(cfg any) string {
	var b strings.Builder
	for _, s := range Settings(cfg) {
		fmt.Fprintf(&b, "  %s", s.Name)
		if s.Default != "" {
			fmt.Fprintf(&b, " (%s)", s.Default)
		}
		fmt.Fprintf(&b, "\n        %s\n", s.Description)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Settings lists the variables of a configuration struct in the order of its
// fields. The field's tag env holds the name. A test compares the table in docs/configuration.md with this list.
func Settings(cfg any) []Setting {
	t := reflect.TypeOf(cfg)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var out []Setting
	for i := range t.NumField() {
		f := t.Field(i)
		name, tagged := f.Tag.Lookup("env")
		switch {
		case tagged && name != "-":
			out = append(out, Setting{
				Name: EnvPrefix + strings.Split(name, ",")[0], Default: f.Tag.Get("envDefault"),
				Description: f.Tag.Get("desc"), field: f.Name, kind: f.Type,
			})
		case !tagged && f.Type.Kind() == reflect.Struct:
			out = append(out, Settings(reflect.New(f.Type).Interface())...)
		}
	}
	return out
}
