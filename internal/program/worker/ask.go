package worker

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/internal/program"
)

// decision is a person's yes to what a command is about to do.
type decision struct {
	by   string
	yes  bool
	json bool
}

func (d *decision) register(cmd *cobra.Command, environ map[string]string) {
	program.JSONFlag(cmd, &d.json, cmd.Name())
	cmd.Flags().StringVar(&d.by, "by", userName(environ), "your name, for the record")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "do not ask")
}

// userName is who is logged in; "" where nobody knows.
func userName(environ map[string]string) string {
	return cmp.Or(environ["USER"], environ["LOGNAME"], environ["USERNAME"])
}

// check finds out before anything is connected whether there can be a yes.
func (d *decision) check(stdin io.Reader) error {
	var errs []error
	if strings.TrimSpace(d.by) == "" {
		errs = append(errs, errors.New("--by: your name is needed for the record"))
	}
	if !d.yes && !program.IsTerminal(stdin) {
		errs = append(errs, errors.New("there is no terminal to ask on; give --yes"))
	}
	return errors.Join(errs...)
}

// made asks at the terminal. Anything but yes is no.
func (d *decision) made(stdin io.Reader, out io.Writer, question string) bool {
	if d.yes {
		return true
	}
	_, _ = fmt.Fprintf(out, "%s Type yes: ", question)
	answer, _ := bufio.NewReader(stdin).ReadString('\n')
	return strings.TrimSpace(answer) == "yes"
}

// people is where the command talks to people: with --json standard output is
// for programs alone.
func (d *decision) people(cmd *cobra.Command) io.Writer {
	if d.json {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}

// done says what became of it: the object for programs, the text for people.
func (d *decision) done(cmd *cobra.Command, object any, format string, args ...any) error {
	if d.json {
		return program.PrintJSON(cmd.OutOrStdout(), object)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
	return err
}

// errNotMade is returned where the person said no.
var errNotMade = &program.ExitError{Code: program.ExitFailed, Err: errors.New("nothing was changed")}
