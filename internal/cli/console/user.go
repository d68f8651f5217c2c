package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"orderpost/internal/cli"
	"orderpost/internal/console"
)

// newUserCommand makes a line of the file of users.
func newUserCommand(stdin io.Reader, stderr io.Writer) *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "user NAME",
		Short: "Make a line of the file of users (ORDERPOST_CONSOLE_USERS)",
		Long: "user asks for a password and prints a line with the name, the role and the password's bcrypt hash. Without\n" +
			"a terminal it reads the password from the first line of standard input.\n\n" +
			"Roles: viewer sees everything but the bodies of orders. importer also sees bodies, uploads files and\n" +
			"cancels imports. operator also controls the fleet and settles dead letters. operator+resubmit-unknown may\n" +
			"also send orders again that may exist at the API. With +approve at the end, as in importer+approve, they may\n" +
			"approve and refuse what needs a second person: imports, and acts such as a higher limit.\n\n" +
			"The console reads the file again when it changes. For somebody whom the proxy names, write the word proxy\n" +
			"in place of the hash.",
		Example: "  orderpost console user anna --role operator >> users",
		Args:    cli.Named(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := readPassword(stdin, stderr)
			if err != nil {
				return err
			}
			line, err := console.UserLine(args[0], role, password)
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	}
	cli.NoJSON(cmd, "it prints a line of a file")
	cmd.Flags().StringVar(&role, "role", "viewer", "viewer, importer, operator or operator+resubmit-unknown; with +approve: may approve imports and acts")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions( // the flag exists
		[]cobra.Completion{"viewer", "importer", "operator", "operator+resubmit-unknown", "importer+approve", "operator+approve", "operator+resubmit-unknown+approve"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// readPassword asks twice at a terminal, and reads one line otherwise.
func readPassword(stdin io.Reader, stderr io.Writer) (string, error) {
	if !cli.IsTerminal(stdin) {
		line, err := bufio.NewReader(stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	ask := func(prompt string) (string, error) {
		_, _ = fmt.Fprint(stderr, prompt)
		text, err := term.ReadPassword(int(os.Stdin.Fd()))
		_, _ = fmt.Fprintln(stderr)
		return string(text), err
	}
	first, err := ask("Password: ")
	if err != nil {
		return "", err
	}
	second, err := ask("Once more: ")
	if err == nil && first != second {
		err = &cli.ExitError{Code: cli.ExitUsage, Err: errors.New("the two passwords differ")}
	}
	return first, err
}
