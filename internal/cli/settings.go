package cli

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"github.com/caarlos0/env/v11"
	"github.com/spf13/cobra"

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

// SandboxPrefix is the prefix of the sandbox's settings. No other program reads
// them.
const SandboxPrefix = EnvPrefix + "SANDBOX_"

// CertifyPrefix is the prefix of the settings of certify. No other program reads them.
const CertifyPrefix = EnvPrefix + "CERTIFY_"

// Unknown is a variable of the environment that has the prefix of the settings
// and is not a setting: a misspelt name, for example. Unknown does not
// hold the value, which may be a secret.
type Unknown struct {
	Name string
	// Nearest is the setting that was probably meant; "" = none is similar.
	Nearest string
}

// String says what the variable does and what to do about it.
func (u Unknown) String() string {
	if u.Nearest != "" {
		return fmt.Sprintf("%s is not a setting, and has no effect; did you mean %s?", u.Name, u.Nearest)
	}
	return u.Name + " is not a setting, and has no effect"
}

// UnknownSettings lists the variables of the environment, by name, that have the
// prefix of the settings and are not among the known ones. It skips the sandbox's
// variables, because the sandbox itself refuses unknown ones, those of certify, those of the console and of
// the HTTP door unless some of them are known, and the variables that Kubernetes sets for a service whose
// name begins with orderpost.
func UnknownSettings(environ map[string]string, known []Setting) []Unknown {
	names := make(map[string]bool)
	for _, s := range known {
		names[s.Name] = true
	}
	others := []string{SandboxPrefix, CertifyPrefix}
	for _, prefix := range []string{EnvPrefix + "CONSOLE_", EnvPrefix + "GATEWAY_"} {
		if !slices.ContainsFunc(known, func(s Setting) bool { return strings.HasPrefix(s.Name, prefix) }) {
			others = append(others, prefix)
		}
	}
	var out []Unknown
	for name := range environ {
		anothers := slices.ContainsFunc(others, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if anothers || !strings.HasPrefix(name, EnvPrefix) || names[name] || serviceLink(name, environ) {
			continue
		}
		out = append(out, Unknown{Name: name, Nearest: nearest(name, names)})
	}
	slices.SortFunc(out, func(a, b Unknown) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// serviceLink reports whether Kubernetes set the variable: X_SERVICE_HOST and the
// others that every container of the service X's namespace gets.
func serviceLink(name string, environ map[string]string) bool {
	for i := range name {
		if _, link := environ[name[:i]+"_SERVICE_HOST"]; link &&
			(strings.HasPrefix(name[i:], "_SERVICE_") || strings.HasPrefix(name[i:], "_PORT")) {
			return true
		}
	}
	return false
}

// maxTypos is the largest number of letters by which a misspelt name may differ.
const maxTypos = 3

// nearest returns the most similar known name, or "" if none is similar.
func nearest(name string, known map[string]bool) (best string) {
	least := min(maxTypos, (len(name)-len(EnvPrefix))/3) + 1
	for k := range known {
		if d := levenshtein.ComputeDistance(name, k); d < least || d == least && best != "" && k < best {
			best, least = k, d
		}
	}
	return best
}

// WarnUnknown makes a command and its subcommands warn on stderr, before they run,
// about each of [UnknownSettings]. The commands named in except do not warn: they
// report the variables in another way, or run too often.
func WarnUnknown(root *cobra.Command, environ map[string]string, known []Setting, except ...string) {
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if slices.Contains(except, cmd.Name()) || forShell(cmd) {
			return
		}
		for _, u := range UnknownSettings(environ, known) {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", cmd.Root().Name(), u)
		}
	}
}

// forShell reports whether the command belongs to shell completion. Nobody reads
// its stderr.
func forShell(cmd *cobra.Command) bool {
	return cmd.Name() == cobra.ShellCompRequestCmd || cmd.HasParent() && cmd.Parent().Name() == "completion"
}
