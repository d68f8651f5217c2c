// Package cli holds the common parts of the command-line programs.
//
//	main.go      a program from its arguments to its exit code
//	command.go   what commands have in common: wrong usage, completion, --json
//	settings.go  settings from the environment
//	streams.go   what is read and printed; logger.go what is logged
//	memory.go    how much garbage the heap may hold
//	version.go, addressspace.go  the version; a limit under which Go cannot run
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"orderpost/internal/status"
)

// RunFunc runs a program within any process and returns its exit code.
type RunFunc func(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int

// Main runs a program with this process's arguments, environment and streams. The
// first SIGINT, SIGTERM or SIGHUP ends its context, a second one kills the process. If
// the parent ignores SIGHUP, as nohup does, it stays ignored.
func Main(run RunFunc) {
	tuneMemory()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // signals then have their default effect again
	os.Exit(Guard(filepath.Base(os.Args[0]), run)(ctx, os.Args[1:], Environ(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
}

// ProcessName names this process for people: by its host, or else by the program, and its
// number.
func ProcessName(program string) string {
	host, err := os.Hostname()
	if err != nil {
		host = program
	}
	return host + "-" + strconv.Itoa(os.Getpid())
}

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

// The exit codes of the command-line programs.
const (
	// ExitDone: all done.
	ExitDone = 0
	// ExitFailed: the program failed.
	ExitFailed = 1
	// ExitUsage: wrong usage or configuration; nothing was done.
	ExitUsage = 2
	// ExitPartial: done, but not for all rows or orders.
	ExitPartial = 3
	// ExitUnreachable: the broker or the API is out of reach.
	ExitUnreachable = 4
	// ExitInterrupted: ended by a signal.
	ExitInterrupted = 130
)

// ExitError is an error with the program's exit code. Commands return it, and
// [ExitCode] reads it.
type ExitError struct {
	Code int
	// Err is shown to the user; nil = the program has printed everything already.
	Err error
}

// Error returns the text of Err.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode returns the exit code for an error: [ExitDone] for nil, the code of an
// [*ExitError] in its chain, otherwise [ExitFailed].
func ExitCode(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &exit):
		return exit.Code
	default:
		return ExitFailed
	}
}
