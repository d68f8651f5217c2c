package program

import (
	"errors"

	"github.com/spf13/cobra"
)

// Named refuses empty arguments, which a script passes whose variable is not set.
func Named(count cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := count(cmd, args); err != nil {
			return err
		}
		for _, arg := range args {
			if arg == "" {
				return &ExitError{Code: ExitUsage, Err: errors.New("a name is empty; " + cmd.UseLine() + " needs one")}
			}
		}
		return nil
	}
}
