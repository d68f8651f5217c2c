package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/program"
	"orderpost/internal/queue"
)

// waitVariable is the setting that --broker-wait takes the place of.
const waitVariable = program.EnvPrefix + "BROKER_WAIT"

// Again are the words that say, for commands of one kind, what comes of running
// them again.
const (
	// AgainLook: the command changes nothing.
	AgainLook = ""
	// AgainWrite: a person's word, which may be said twice.
	AgainWrite = "; it may have taken effect, and doing it twice does no harm"
	// AgainOrders: the command goes through many orders.
	AgainOrders = "; it goes on where it stopped, and neither loses nor doubles an order"
	// AgainOutput: the command writes to standard output.
	AgainOutput = "; what it wrote so far is not complete"
	// AgainFollow: the command watches orders that need nothing of it.
	AgainFollow = "; the orders go on without this program"
)

// Patient gives a command the flag --broker-wait. Where the broker stays out of
// reach, the command ends with exit code 4, and says how to go on: by the same
// command line, of which again says what comes of it.
func Patient(cmd *cobra.Command, environ map[string]string, again string) *cobra.Command {
	cmd.Flags().Func("broker-wait", "wait for `duration` where the broker goes away meanwhile, 0 = not at all (default $"+waitVariable+", 2m)",
		func(text string) error {
			if _, err := time.ParseDuration(text); err != nil {
				return errors.New("give a duration such as 30s or 10m")
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
		return &program.ExitError{Code: program.ExitUnreachable,
			Err: fmt.Errorf("%w\nRun it again when the broker is back%s:\n  %s", err, again, program.CommandLine(cmd.Context()))}
	}
	return cmd
}
