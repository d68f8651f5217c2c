package deadletter

import (
	"github.com/spf13/cobra"

	"orderpost/internal/program"
	"orderpost/internal/program/broker"
	"orderpost/internal/program/lookup"
)

func newShowCommand(s *surroundings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show ORDER_NO",
		Short:   "Show one order: its attempts, what they mean, and what to do next",
		Long:    "show prints the result, the dead letter, each attempt of the last submission, and what to do now.\n\nExit code 3: nothing is known about it.",
		Example: "  orderpost deadletter show A-100",
		Args:    program.Named(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, done, err := s.open(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			return lookup.Show(cmd.Context(), q, args[0], asJSON, s.stdout)
		},
	}
	cmd.ValidArgsFunction = broker.CompleteLetter(s.environ)
	program.JSONFlag(cmd, &asJSON, "order")
	return cmd
}
