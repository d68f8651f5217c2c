package program

import "github.com/spf13/cobra"

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
