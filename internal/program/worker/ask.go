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
	by  string
	yes bool
}

func (d *decision) register(cmd *cobra.Command, environ map[string]string) {
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

// errNotMade is returned where the person said no.
var errNotMade = &program.ExitError{Code: program.ExitFailed, Err: errors.New("nothing was changed")}
