package orderpost

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/docs"
	"orderpost/internal/cli"
)

// newHelpCommand returns the command help. Beside the help of commands it prints the
// documents that the program carries, because a host with the package alone has no
// clone to read them in.
func newHelpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "help [COMMAND... | DOCUMENT [SECTION]]",
		Short: "Show the help of a command, or a document such as the runbook",
		Long: "help prints the help of a command. With the name of a document it prints that document, and with a section's\n" +
			"title or the beginning of it, only that section. The documents are " + strings.Join(docs.Names(), ", ") + ".\n" +
			"A name that is both, such as console, is the command; console.md is the document.",
		Example: "  orderpost help enqueue status\n  orderpost help runbook KeyDenied\n  orderpost help rules | less",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
			if len(args) == 1 {
				found = docs.Sections(args[0])
			} else if len(args) == 0 {
				found = docs.Names()
				for _, sub := range cmd.Root().Commands() {
					if sub.IsAvailableCommand() {
						found = append(found, sub.Name())
					}
				}
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			meant, rest, err := cmd.Root().Find(args)
			if err == nil && (meant != cmd.Root() && len(rest) == 0 || len(args) == 0) {
				meant.InitDefaultHelpFlag()
				return meant.Help()
			}
			text, err := docs.Text(args[0], strings.Join(args[1:], " "))
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("%w%s", err, cli.DidYouMean(cmd.Root(), args[0]))}
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	cli.NoJSON(cmd, "it prints texts for people")
	return cmd
}
