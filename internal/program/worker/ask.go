package worker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/internal/program"
	"orderpost/internal/program/broker"
)

// decision asks a person whether a command may do what it is about to do.
type decision struct {
	person broker.Person
	yes    bool
	json   bool
}

func (d *decision) register(cmd *cobra.Command, environ map[string]string) {
	program.JSONFlag(cmd, &d.json, cmd.Name())
	d.person.Register(cmd, environ)
	cmd.Flags().BoolVar(&d.yes, "yes", false, "do not ask")
}

// check reports, before the command connects, whether the person can be asked.
func (d *decision) check(stdin io.Reader) error {
	if !d.yes && !program.IsTerminal(stdin) {
		return errors.New("there is no terminal to ask on; give --yes")
	}
	return nil
}

// made asks at the terminal, unless --yes was given. Any answer but yes means no.
func (d *decision) made(stdin io.Reader, out io.Writer, question string) bool {
	if d.yes {
		return true
	}
	_, _ = fmt.Fprintf(out, "%s Type yes: ", question)
	answer, _ := bufio.NewReader(stdin).ReadString('\n')
	return strings.TrimSpace(answer) == "yes"
}

// people returns where the command prints text. With --json, standard output holds
// only JSON.
func (d *decision) people(cmd *cobra.Command) io.Writer {
	if d.json {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}

// done prints the result: the object with --json, otherwise the text.
func (d *decision) done(cmd *cobra.Command, object any, format string, args ...any) error {
	if d.json {
		return program.PrintJSON(cmd.OutOrStdout(), object)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
	return err
}

// errNotMade means that the person said no.
var errNotMade = &program.ExitError{Code: program.ExitFailed, Err: errors.New("nothing was changed")}
