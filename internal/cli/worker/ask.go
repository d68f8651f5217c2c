package worker

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
)

// decision asks a person whether a command may do what it is about to do.
type decision struct {
	person broker.Person
	yes    bool
	json   bool
}

func (d *decision) register(cmd *cobra.Command, environ map[string]string) {
	cli.JSONFlag(cmd, &d.json, cmd.Name())
	d.person.Register(cmd, environ)
	cmd.Flags().BoolVar(&d.yes, "yes", false, "do not ask")
}

// check reports, before the command connects, whether the person can be asked.
func (d *decision) check(stdin io.Reader) error {
	if !d.yes && !cli.IsTerminal(stdin) {
		return errors.New("there is no terminal to ask on; give --yes")
	}
	return nil
}

// made asks at the terminal, unless --yes was given.
func (d *decision) made(stdin io.Reader, out io.Writer, question string) bool {
	return d.yes || cli.SaysYes(stdin, out, question)
}

// people returns where the command prints text. With --json, standard output holds
// only JSON.
func (d *decision) people(cmd *cobra.Command) io.Writer {
	if d.json {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}

// tell prints what was done: the object with --json, otherwise the text.
func tell(cmd *cobra.Command, asJSON bool, object any, format string, args ...any) error {
	if asJSON {
		return cli.PrintJSON(cmd.OutOrStdout(), object)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
	return err
}

// errNotMade means that the person said no.
var errNotMade = &cli.ExitError{Code: cli.ExitFailed, Err: errors.New("nothing was changed")}
