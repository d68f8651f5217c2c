package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
)

// SandboxPrefix is the prefix of the sandbox's settings. No other program reads
// them.
const SandboxPrefix = EnvPrefix + "SANDBOX_"

// ConsolePrefix is the prefix of the console's settings. Programs without a console
// do not read them.
const ConsolePrefix = EnvPrefix + "CONSOLE_"

// Unknown is a variable of the environment that has the prefix of the settings
// and is not a setting: a misspelt name, or a name of an earlier version. Unknown
// does not hold the value, which may be a secret.
type Unknown struct {
	Name string
	// Nearest is the setting that was probably meant; "" = none is similar.
	Nearest string
	// Renamed is the present name of the setting that had this name; "" = none.
	Renamed string
	// Overridden says that the present name is set as well. The old one then has no
	// effect.
	Overridden bool
}

// retired maps the settings that no longer exist to what replaced them.
var retired = map[string]string{
	EnvPrefix + "HTTP_CLIENT": "there is one HTTP client, for http and https, with and without a proxy",
}

// Retired says what replaced a setting that no longer exists; "" if there never
// was one of this name.
func (u Unknown) Retired() string { return retired[u.Name] }

// String says what the variable does and what to do about it.
func (u Unknown) String() string {
	switch {
	case u.Retired() != "":
		return fmt.Sprintf("%s has no effect any more: %s; take it out", u.Name, u.Retired())
	case u.Overridden:
		return fmt.Sprintf("%s has no effect: its new name %s is set as well; take the old one out", u.Name, u.Renamed)
	case u.Renamed != "":
		return fmt.Sprintf("%s is now called %s; the old name still works", u.Name, u.Renamed)
	case u.Nearest != "":
		return fmt.Sprintf("%s is not a setting, and has no effect; did you mean %s?", u.Name, u.Nearest)
	default:
		return u.Name + " is not a setting, and has no effect"
	}
}

// UnknownSettings lists the variables of the environment, by name, that have the
// prefix of the settings and are not among the known ones. It skips the sandbox's
// variables, because the sandbox itself refuses unknown ones, the console's unless
// some of them are known, and the variables that Kubernetes sets for a service whose
// name begins with orderpost.
func UnknownSettings(environ map[string]string, known []Setting) []Unknown {
	names, renamed := make(map[string]bool), make(map[string]string)
	for _, s := range known {
		names[s.Name] = true
		renamed[s.OldName] = s.Name
	}
	console := slices.ContainsFunc(known, func(s Setting) bool { return strings.HasPrefix(s.Name, ConsolePrefix) })
	var out []Unknown
	for name, value := range environ {
		if strings.HasPrefix(name, ConsolePrefix) && !console {
			continue
		}
		if !strings.HasPrefix(name, EnvPrefix) || strings.HasPrefix(name, SandboxPrefix) || names[name] || serviceLink(name, environ) {
			continue
		}
		u := Unknown{Name: name, Renamed: renamed[name]}
		switch {
		case u.Renamed != "" && value == "": // as good as absent
			continue
		case u.Renamed != "":
			u.Overridden = environ[u.Renamed] != ""
		case u.Retired() == "":
			u.Nearest = nearest(name, names)
		}
		out = append(out, u)
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
