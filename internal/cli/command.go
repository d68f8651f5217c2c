package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
		if err := checkEmpty(c); err != nil {
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

// notEmpty is the annotation of flags that are refused with an empty value.
const notEmpty = "orderpost_not_empty"

// NotEmpty makes an empty value of these flags, which exist, wrong usage. A script gives one where
// its variable is not set, and the command would do more than was meant, or do it at once.
func NotEmpty(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.Flags().SetAnnotation(name, notEmpty, nil); err != nil {
			panic(err)
		}
	}
}

// checkEmpty names every flag of NotEmpty that was given without a value.
func checkEmpty(cmd *cobra.Command) error {
	var errs []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, not := f.Annotations[notEmpty]; not && (f.Value.String() == "" || f.Value.String() == "[]") {
			errs = append(errs, fmt.Errorf("--%s is empty: give a value, or leave the flag out", f.Name))
		}
	})
	return errors.Join(errs...)
}

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
