package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
)

// SandboxPrefix begins the settings of the sandbox, which no other program reads.
const SandboxPrefix = EnvPrefix + "SANDBOX_"

// Unknown is a variable of the environment that begins like a setting and is
// none: a typing mistake, mostly. Its value may be a secret, and is not kept.
type Unknown struct {
	Name string
	// Nearest is the setting that was probably meant; "" where none is near.
	Nearest string
}

// retired are settings that earlier versions had, with what stands in their place.
var retired = map[string]string{
	EnvPrefix + "HTTP_CLIENT": "there is one HTTP client, for http and https, with and without a proxy",
}

// Retired says what has become of a setting that there was; "" of one that never was.
func (u Unknown) Retired() string { return retired[u.Name] }

// String says what the variable does, and which one may be meant.
func (u Unknown) String() string {
	if now := u.Retired(); now != "" {
		return u.Name + " has no effect any more: " + now + "; take it out"
	}
	if u.Nearest == "" {
		return u.Name + " is not a setting, and has no effect"
	}
	return fmt.Sprintf("%s is not a setting, and has no effect; did you mean %s?", u.Name, u.Nearest)
}

// UnknownSettings lists the variables of the environment that begin like ours
// and are read by none of the given configurations, by name. The sandbox's are
// its own affair, which refuses those that it does not know. Those that
// Kubernetes sets for a service called orderpost… are nobody's mistake.
func UnknownSettings(environ map[string]string, known ...[]Setting) []Unknown {
	names := make(map[string]bool)
	for _, list := range known {
		for _, s := range list {
			names[s.Name] = true
		}
	}
	var out []Unknown
	for name := range environ {
		if strings.HasPrefix(name, EnvPrefix) && !strings.HasPrefix(name, SandboxPrefix) && !names[name] && !serviceLink(name, environ) {
			u := Unknown{Name: name}
			if u.Retired() == "" {
				u.Nearest = nearest(name, names)
			}
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b Unknown) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// serviceLink recognises X_SERVICE_HOST and its company, which Kubernetes puts
// into every container beside the service X.
func serviceLink(name string, environ map[string]string) bool {
	for i := range name {
		if _, link := environ[name[:i]+"_SERVICE_HOST"]; link &&
			(strings.HasPrefix(name[i:], "_SERVICE_") || strings.HasPrefix(name[i:], "_PORT")) {
			return true
		}
	}
	return false
}

// most is how many letters a name may differ from what was meant, at most.
const most = 3

// nearest gives the known name that is most like this one, if any is like it.
func nearest(name string, known map[string]bool) (best string) {
	least := min(most, (len(name)-len(EnvPrefix))/3) + 1
	for k := range known {
		if d := levenshtein.ComputeDistance(name, k); d < least || d == least && best != "" && k < best {
			best, least = k, d
		}
	}
	return best
}

// WarnUnknown makes a command and its subcommands name, on stderr and before
// they begin, the variables that look like settings and are none. Subcommands
// that are named in except stay silent, and so does the command itself where
// it is: they tell it in another way, or run too often.
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

// forShell: the command completes what a person types, and nobody reads its
// stderr, or it prints the script that makes a shell ask it.
func forShell(cmd *cobra.Command) bool {
	return cmd.Name() == cobra.ShellCompRequestCmd || cmd.HasParent() && cmd.Parent().Name() == "completion"
}
