package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

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

// The annotations of commands about their JSON output.
const (
	// SchemasOf names the schemas that a command's --json follows, separated by spaces.
	SchemasOf = "json-schemas"
	// WhyNoJSON says why a command has no --json.
	WhyNoJSON = "no-json"
)

// JSONFlag adds the flag --json to a command. schemas names the JSON Schemas in
// docs/schema of its output.
func JSONFlag(cmd *cobra.Command, to *bool, schemas ...string) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON instead of text (schema "+strings.Join(schemas, ", ")+")")
	annotate(cmd, SchemasOf, strings.Join(schemas, " "))
}

// NoJSON notes why a command has no flag --json.
func NoJSON(cmd *cobra.Command, why string) { annotate(cmd, WhyNoJSON, why) }

func annotate(cmd *cobra.Command, name, value string) {
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[name] = value
}

// PrintJSON prints one object on one line.
func PrintJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// PrintReport prints one object over several indented lines, for people.
func PrintReport(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
