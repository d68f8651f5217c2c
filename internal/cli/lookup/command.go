package lookup

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
)

// NewCommand returns the command order. Under another name it is deadletter show.
func NewCommand(environ map[string]string, stdout, stderr io.Writer) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "order ORDER_NO",
		Short: "Show all that is known about one order",
		Long: "order shows the result, the dead letter with its attempts, what waits in the waiting room, and\n" +
			"what to do now. If no worker runs, it opens the store in the data folder.\n\nExit code 3: nothing is known about it.",
		Example: "  orderpost order A-100\n  orderpost order A-100 --json",
		Args:    cli.Named(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var cfg broker.Config
			if err := errors.Join(cli.ReadEnv(&cfg, environ), cfg.Queue.Validate()); err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			q, done, err := broker.Open(cmd.Context(), cfg, broker.Options{Name: cmd.Name(), StartStopped: true, Stderr: stderr})
			if err != nil {
				return err
			}
			defer done()
			return Show(cmd.Context(), q, args[0], asJSON, stdout)
		},
	}
	cmd.ValidArgsFunction = broker.CompleteLetter(environ)
	cli.JSONFlag(cmd, &asJSON, "order")
	return broker.Patient(cmd, environ, broker.AgainLook)
}
