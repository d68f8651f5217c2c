package program

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// UsageErrors makes a command and its subcommands return ExitUsage for wrong usage,
// with an error that points to --help.
func UsageErrors(cmd *cobra.Command) {
	wrap := func(c *cobra.Command, err error) error {
		return &ExitError{Code: ExitUsage, Err: fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
	}
	cmd.SetFlagErrorFunc(wrap)
	if args := cmd.Args; args != nil {
		cmd.Args = func(c *cobra.Command, list []string) error {
			if err := args(c, list); err != nil {
				return wrap(c, err)
			}
			return nil
		}
	}
	before, beforeE := cmd.PreRun, cmd.PreRunE
	cmd.PreRunE = func(c *cobra.Command, list []string) error {
		if err := c.ValidateFlagGroups(); err != nil { // cobra's own check comes later, and its error has no hook
			return wrap(c, err)
		}
		switch {
		case beforeE != nil:
			return beforeE(c, list)
		case before != nil:
			before(c, list)
		}
		return nil
	}
	for _, sub := range cmd.Commands() {
		UsageErrors(sub)
	}
}

// printError prints the error to stderr, unless it has no text.
func printError(stderr io.Writer, name string, spell *speller, err error) {
	if err == nil {
		return
	}
	if exit, ok := err.(*ExitError); ok && exit.Err == nil {
		return
	}
	_, _ = fmt.Fprintf(stderr, "%s: %s\n", name, Printable(spell.text(err.Error())))
}
