package cli

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

// GatewayPrefix is the prefix of the HTTP door's settings. Programs without such a door
// do not read them.
const GatewayPrefix = EnvPrefix + "GATEWAY_"

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
// variables, because the sandbox itself refuses unknown ones, those of the console and of
// the HTTP door unless some of them are known, and the variables that Kubernetes sets for a service whose
// name begins with orderpost.
func UnknownSettings(environ map[string]string, known []Setting) []Unknown {
	names := make(map[string]bool)
	for _, s := range known {
		names[s.Name] = true
	}
	reads := func(prefix string) bool {
		return slices.ContainsFunc(known, func(s Setting) bool { return strings.HasPrefix(s.Name, prefix) })
	}
	console, gateway := reads(ConsolePrefix), reads(GatewayPrefix)
	var out []Unknown
	for name := range environ {
		if strings.HasPrefix(name, ConsolePrefix) && !console || strings.HasPrefix(name, GatewayPrefix) && !gateway {
			continue
		}
		if !strings.HasPrefix(name, EnvPrefix) || strings.HasPrefix(name, SandboxPrefix) || names[name] || serviceLink(name, environ) {
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
