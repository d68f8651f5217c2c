package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/internal/status"
)

// Execute runs a program's command with its arguments and streams, prints its error to
// stderr, and returns the exit code. If the command failed and ctx has ended, the exit
// code is ExitInterrupted.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	UsageErrors(root)
	root.SilenceErrors, root.SilenceUsage, root.Version = true, true, Version()
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp) // a shell offers files only where CompleteFiles says so
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		plainUsage(root)
	} else if says := addressAdvice(addressLimit()); says != "" {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", root.Name(), says)
	}
	root.SetArgs(append([]string{}, args...)) // for nil cobra would take the arguments of the process
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.WithValue(ctx, lineKey{}, commandLine(root.Name(), args)))
	if err != nil && ctx.Err() != nil {
		err = &ExitError{Code: ExitInterrupted, Err: interrupted(err)}
	}
	printError(stderr, root.Name(), err)
	return ExitCode(err)
}

// printError prints the error to stderr, unless it has no text.
func printError(stderr io.Writer, name string, err error) {
	if err == nil {
		return
	}
	if exit, ok := err.(*ExitError); ok && exit.Err == nil {
		return
	}
	_, _ = fmt.Fprintf(stderr, "%s: %s\n", name, Printable(err.Error()))
}

type lineKey struct{}

// CommandLine returns the command line of the program, quoted for a shell. ctx is the
// context of its command.
func CommandLine(ctx context.Context) string {
	line, _ := ctx.Value(lineKey{}).(string)
	return line
}

// plainWord matches the words that need no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

func commandLine(name string, args []string) string {
	words := []string{name}
	for _, word := range args {
		if !plainWord.MatchString(word) {
			word = status.ShellWord(word)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// interrupted replaces "context canceled" by "interrupted". It keeps what err says
// about the interrupted step.
func interrupted(err error) error {
	what := strings.TrimSuffix(err.Error(), ": "+context.Canceled.Error())
	switch {
	case !errors.Is(err, context.Canceled):
		return err
	case what == context.Canceled.Error():
		return errors.New("interrupted")
	default:
		return fmt.Errorf("interrupted: %s", what)
	}
}
