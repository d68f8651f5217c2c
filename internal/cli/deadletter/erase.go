package deadletter

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/settle"
)

const eraseLong = `erase removes from orders that have an outcome what the API answered, what people noted, and the dead letters with
their bodies. It keeps what prevents a second creation: the order number, the outcome, and a hash of the body. An order
that ended as unknown stays in doubt, and can be replayed no more.

It does not reach: a submission in the waiting room (orderpost enqueue cancel); the file that you imported, and an
uploaded one until you remove it in the console; the journal, which has order numbers and notes; webhooks and logs
that were sent; backups; and the blocks of the broker's store until it writes them again, or a backup is restored
into a new folder.

Exit code 3: some orders are in the queue, or no result tells of them, and they were left alone.`

// erased is what erase prints with --json.
type erased struct {
	Erased int               `json:"erased"`
	Left   map[string]string `json:"left"`
}

// NewEraseCommand returns the command erase.
func NewEraseCommand(environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	s := &surroundings{environ, stdin, stdout, stderr}
	var person broker.Person
	var asJSON, yes bool
	cmd := &cobra.Command{
		Use:     "erase ORDER_NO...",
		Short:   "Forget what was answered about orders, and their dead letters",
		Long:    eraseLong,
		Example: "  orderpost erase A-100 A-101 --note 'ticket 17'",
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, numbers []string) error {
		if !yes && !cli.IsTerminal(stdin) {
			return usage(errors.New("there is no terminal to ask on; give --yes"))
		}
		q, done, err := s.open(cmd.Context())
		defer done()
		if err != nil {
			return err
		}
		if !yes && !cli.SaysYes(stdin, stderr, fmt.Sprintf("Erase what is known of %d orders?", len(numbers))) {
			return partial("nothing was changed")
		}
		is := erased{Left: make(map[string]string)}
		for _, no := range numbers {
			about := journal.About{Kind: journal.Erase, OrderNo: no}
			err := person.On(cmd).Act(cmd.Context(), q, about, nil, func(ctx context.Context) (map[string]int, error) {
				if err := q.Operator.Erase(ctx, no, person.Settle()); err != nil {
					return nil, err
				}
				return map[string]int{"erased": 1}, nil
			})
			switch {
			case err == nil:
				is.Erased++
			case errors.Is(err, settle.ErrPending), errors.Is(err, settle.ErrNoResult):
				is.Left[no] = err.Error()
			default:
				return err
			}
		}
		if asJSON {
			err = cli.PrintJSON(stdout, is)
		} else {
			say(stdout, "%d erased", is.Erased)
			for _, no := range numbers {
				if why := is.Left[no]; why != "" {
					say(stdout, "left alone: %s", why)
				}
			}
		}
		if err == nil && len(is.Left) > 0 {
			err = partial("%d of %d orders were left alone", len(is.Left), len(numbers))
		}
		return err
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	person.Register(cmd, environ)
	cli.JSONFlag(cmd, &asJSON, "erase")
	return broker.Patient(cmd, environ, broker.AgainOrders)
}
