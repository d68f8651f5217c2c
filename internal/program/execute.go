package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// Execute runs a program's command with its arguments and streams, says on
// stderr why it failed, and returns the exit code: ExitInterrupted where ctx
// ended meanwhile and the program did not finish.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	UsageErrors(root)
	spell := newSpeller(root)
	spell.commands(root)
	root.SilenceErrors, root.SilenceUsage, root.Version = true, true, Version()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	start := context.WithValue(ctx, lineKey{}, commandLine(root.Name(), args))
	err := root.ExecuteContext(context.WithValue(start, spellerKey{}, spell))
	if err != nil && ctx.Err() != nil {
		err = &ExitError{Code: ExitInterrupted, Err: interrupted(err)}
	}
	printError(stderr, root.Name(), spell, err)
	return ExitCode(err)
}

type lineKey struct{}

// CommandLine is how a person started the program whose command has this
// context, for a shell.
func CommandLine(ctx context.Context) string {
	line, _ := ctx.Value(lineKey{}).(string)
	return line
}

// plainWord is what a shell takes as it stands.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

func commandLine(name string, args []string) string {
	words := []string{name}
	for _, word := range args {
		if !plainWord.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// interrupted says it in the user's words; what was interrupted stays in it,
// where err knows more than that.
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
