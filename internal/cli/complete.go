package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// CompleteFiles lets a shell offer files for the flags that are named, or, without
// names, for the arguments of the command.
func CompleteFiles(cmd *cobra.Command, flags ...string) {
	files := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	for _, name := range flags {
		_ = cmd.RegisterFlagCompletionFunc(name, files) // the flag exists
	}
	if len(flags) == 0 {
		cmd.ValidArgsFunction = files
	}
}

// plainUsage takes the backticks out of the flags' descriptions. The help reads the
// name of a value from them; a shell that completes would show them.
func plainUsage(cmd *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	cmd.Flags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
	for _, sub := range cmd.Commands() {
		plainUsage(sub)
	}
}
