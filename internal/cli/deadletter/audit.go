package deadletter

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"orderpost/internal/approval"
	"orderpost/internal/audit"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/cli/lookup"
)

// NewAuditCommand returns the command audit, which balances the books.
func NewAuditCommand(environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	s := &surroundings{environ, stdin, stdout, stderr}
	var asJSON bool
	var o audit.Options
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Balance the books: is every order accounted for?",
		Long: "audit reads intents, results and dead letters and compares them, also while orders flow. It counts the\n" +
			"intents that were stored when it began, and reads again what has changed since. If too many orders\n" +
			"moved, it tries up to five times, and says so.\n\n" +
			"The first audit reads all results. Later ones go on from it: they read again where a result was\n" +
			"written or removed since, and say how many they read. Only --full finds a result that a disk damaged\n" +
			"in its place: run it every night. If the books do not balance, every audit reads all.\n\n" +
			"Exit code 3: the books do not balance, or audit could not find out.",
		Args:    cobra.NoArgs,
		Example: "  orderpost audit\n  orderpost audit --full --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, done, err := s.open(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			a, err := audit.Run(cmd.Context(), q, o)
			if err == nil {
				err = approval.Audit(cmd.Context(), q, a)
			}
			if err != nil {
				return err
			}
			if asJSON {
				err = cli.PrintJSON(s.stdout, struct {
					Balanced bool `json:"balanced"`
					*audit.AuditResult
				}{a.Balanced(), a})
			} else {
				printAudit(s, a)
			}
			switch {
			case a.Unsure():
				err = errors.Join(err, partial("whether the books balance is not known yet: %d orders went through several intents while they were read; audit again when less moves", a.Moving))
			case !a.Balanced():
				err = errors.Join(err, partial("the books do not balance"))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&o.Full, "full", false, "read all results, also those that an earlier audit read and that are the same since")
	cli.JSONFlag(cmd, &asJSON, "audit")
	return broker.Patient(cmd, environ, broker.AgainLook)
}

func printAudit(s *surroundings, a *audit.AuditResult) {
	list := func(sums []audit.Sum) {
		for _, sum := range sums {
			say(s.stdout, "%9d %s", sum.N, sum.Text)
		}
	}
	list(a.AccountOfIntents())
	if missing := a.Missing(); missing != 0 {
		say(s.stdout, "%9d are not accounted for: %s", missing, a.WhyMissing())
	}
	if a.Unacked > 0 {
		say(s.stdout, "%9d %s", a.Unacked, audit.Unacknowledged)
	}
	say(s.stdout, "\nOrders by their last word")
	list(a.AccountOfOrders())
	say(s.stdout, "")
	list(a.AccountOfLetters())
	if text := a.NotRead(); text != "" {
		say(s.stdout, "\n%s", text)
	}
	if a.OffenderCount > 0 {
		say(s.stdout, "\n%d contradictions", a.OffenderCount)
	}
	for _, o := range a.Offenders {
		say(s.stdout, "  %s: %s", lookup.Clip(o.OrderNo, 30), lookup.Plain(o.Problem))
	}
	switch {
	case a.Balanced():
		say(s.stdout, "\nThe books balance.")
	case a.Looks > 1:
		say(s.stdout, "\nOrders moved while the books were read; this is the last of %d looks.", a.Looks)
	}
}
