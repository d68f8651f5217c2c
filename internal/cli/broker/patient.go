package broker

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/platform/duration"
	"orderpost/internal/queue"
)

// waitVariable is the setting that --broker-wait overrides.
const waitVariable = cli.EnvPrefix + "BROKER_WAIT"

// The effect of running a command again, by the kind of command.
const (
	// AgainLook: the command changes nothing.
	AgainLook = ""
	// AgainWrite: the command records a person's decision, which may be repeated.
	AgainWrite = "; it may have taken effect, and doing it twice does no harm"
	// AgainOrders: the command goes through many orders.
	AgainOrders = "; it goes on where it stopped, and neither loses nor doubles an order"
	// AgainOutput: the command writes to standard output.
	AgainOutput = "; what it wrote so far is not complete"
	// AgainFollow: the command only watches orders.
	AgainFollow = "; the orders go on without this program"
)

// Patient adds the flag --broker-wait to a command. If the broker stays out of reach,
// the command ends with ExitUnreachable and prints the command line to run again.
// again says what effect that has.
func Patient(cmd *cobra.Command, environ map[string]string, again string) *cobra.Command {
	cmd.Flags().Func("broker-wait", "wait for `duration` if the broker goes away, 0 = not at all (default $"+waitVariable+", 2m)",
		func(text string) error {
			if _, err := duration.Parse(text); err != nil {
				return err
			}
			environ[waitVariable] = text
			return nil
		})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if !errors.Is(err, queue.ErrUnreachable) {
			return err
		}
		again := again
		if _, nothing := errors.AsType[*unopened](err); nothing && again == AgainWrite {
			again = "; nothing was changed"
		}
		return &cli.ExitError{Code: cli.ExitUnreachable,
			Err: fmt.Errorf("%w\nRun it again when the broker is back%s:\n  %s", err, again, cli.CommandLine(cmd.Context()))}
	}
	return cmd
}
