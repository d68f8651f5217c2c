package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// OnlyCommands refuses arguments of a command that only has subcommands. The error
// names the commands that may be meant.
func OnlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q%s", args[0], DidYouMean(cmd, args[0]))
}

// DidYouMean returns "; did you mean …?" with the commands whose name is like a word:
// the subcommands of cmd first, then those of the root, then commands of exactly this
// name elsewhere. It returns "" if there is none.
func DidYouMean(cmd *cobra.Command, word string) string {
	cmd.SuggestionsMinimumDistance, cmd.Root().SuggestionsMinimumDistance = 2, 2
	var meant []string
	for _, name := range cmd.SuggestionsFor(word) {
		meant = append(meant, cmd.CommandPath()+" "+name)
	}
	if len(meant) == 0 && cmd.HasParent() {
		for _, name := range cmd.Root().SuggestionsFor(word) {
			meant = append(meant, cmd.Root().Name()+" "+name)
		}
	}
	if len(meant) == 0 {
		meant = elsewhere(cmd.Root(), word)
	}
	if len(meant) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(meant, " or ") + "?"
}

// elsewhere returns the paths of the shown commands of this name, below any command.
func elsewhere(root *cobra.Command, name string) (paths []string) {
	for _, sub := range root.Commands() {
		if sub.Name() == name && !sub.Hidden {
			paths = append(paths, sub.CommandPath())
		}
		paths = slices.Concat(paths, elsewhere(sub, name))
	}
	return paths
}
