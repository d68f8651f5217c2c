package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/notify"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// surroundings holds what every command needs.
type surroundings struct {
	environ        map[string]string
	stdout, stderr io.Writer
}

// open connects to the streams. close is never nil.
func (s *surroundings) open(ctx context.Context) (*queue.Queue, func(), error) {
	return broker.Connect(ctx, s.environ, broker.Options{Name: "notify", StartStopped: true, Stderr: s.stderr})
}

// say prints a line. It ignores errors: Guard reports them.
func (s *surroundings) say(format string, args ...any) {
	_, _ = fmt.Fprintln(s.stdout, cli.Printable(fmt.Sprintf(format, args...)))
}

func newParkedCommand(s *surroundings) *cobra.Command {
	var inJSON bool
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "List the webhooks that the receiver refuses while it takes others",
		Long: "parked lists the events that the receiver refuses while it takes others, in the order of the results.\n" +
			"A parked one was refused for good (410, or the same 4xx for a day) and waits for `notify retry`. The others\n" +
			"are tried again at least once an hour. An event leaves the list when the receiver takes it, or when its\n" +
			"order has a later outcome. --json prints one object per line.",
		Example: "  orderpost notify parked",
		Args:    cobra.NoArgs,
	}
	cli.JSONFlag(cmd, &inJSON, "notify-parked")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q, done, err := s.open(cmd.Context())
		if err != nil {
			return err
		}
		defer done()
		all, err := notify.ReadAside(cmd.Context(), q)
		if err != nil {
			return err
		}
		if inJSON {
			out := json.NewEncoder(cli.ForTerminal(s.stdout))
			for _, a := range all {
				if err := out.Encode(a); err != nil {
					return err
				}
			}
			return nil
		}
		s.table(all)
		return nil
	}
	return cmd
}

const row = "%-24s  %-9s  %-16s  %5v  %-20s  %s"

func (s *surroundings) table(all []*notify.Aside) {
	if len(all) == 0 {
		s.say("The receiver refuses no event alone. Whether it takes events at all, orderpost fleet says.")
		return
	}
	s.say(row, "ORDER_NO", "OUTCOME", "STATE", "TRIES", "SINCE", "LAST ANSWER")
	for _, a := range all {
		state, answer := "parked", "no answer"
		if !a.Parked {
			state = "again in " + max(0, time.Until(a.NextAt)).Round(time.Second).String()
		}
		if a.Status > 0 {
			answer = "status " + strconv.Itoa(a.Status)
		}
		s.say(row, a.OrderNo, a.Outcome, state, a.Tries, a.FirstAt.Format(time.RFC3339), answer+" "+a.Answer)
	}
}

func newRetryCommand(s *surroundings) *cobra.Command {
	var all, inJSON bool
	var person broker.Person
	cmd := &cobra.Command{
		Use:   "retry ORDER_NO … | --all",
		Short: "Send parked webhooks again",
		Long: "retry makes the sender try events again that `notify parked` lists, within some seconds. Use it when the\n" +
			"receiver was repaired.\n\nExit code 3: some of the events are not, or no longer, in the list.",
		Example: "  orderpost notify retry A-100\n  orderpost notify retry --all --note 'the receiver was repaired'",
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) > 0) == all {
				return errors.New("give order numbers, or --all")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every event in the list")
	cli.JSONFlag(cmd, &inJSON, "notify-retry")
	person.Register(cmd, s.environ)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q, done, err := s.open(cmd.Context())
		if err != nil {
			return err
		}
		defer done()
		about := journal.About{Kind: journal.Tell}
		switch {
		case all:
			about.Details = map[string]string{"events": "all"}
		case len(args) == 1:
			about.OrderNo = args[0]
		default:
			about.Details = map[string]string{"orders": strings.Join(args, " ")}
		}
		return person.On(cmd).Act(cmd.Context(), q, about, nil, func(ctx context.Context) (map[string]int, error) {
			n, gone, err := retry(ctx, q, args, all)
			if err == nil && inJSON {
				err = cli.PrintJSON(s.stdout, map[string]int{"tried_again": n, "not_found": gone})
			} else if err == nil {
				s.say("Tried again within some seconds: %d.", n)
			}
			if err == nil && gone > 0 {
				err = &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("not in the list (any more): %d; orderpost notify parked shows it", gone)}
			}
			return map[string]int{"tried again": n}, err
		})
	}
	return cmd
}

// retry makes the events of these orders due. gone counts those that are not in the list.
func retry(ctx context.Context, q *queue.Queue, orderNos []string, all bool) (n, gone int, err error) {
	list, err := notify.ReadAside(ctx, q)
	if err != nil {
		return 0, 0, err
	}
	missing := make(map[string]bool, len(orderNos))
	for _, no := range orderNos {
		missing[no] = true
	}
	for _, a := range list {
		if _, wanted := missing[a.OrderNo]; !wanted && !all {
			continue
		}
		switch err := a.Retry(ctx, q); {
		case err == nil:
			n++
			delete(missing, a.OrderNo)
		case errors.Is(err, settle.ErrStale):
			missing[a.OrderNo] = true
		default:
			return n, 0, err
		}
	}
	return n, len(missing), nil
}

func newSecretCommand(stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "secret",
		Short:   "Print a new secret for webhooks",
		Long:    "secret prints a new random secret. The sender and the receiver need the same one. Keep it in a file that only\nthey can read (ORDERPOST_NOTIFY_SECRET_FILE).",
		Example: "  (umask 077; orderpost notify secret > secret)",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(stdout, notify.NewSecret())
			return err
		},
	}
	cli.NoJSON(cmd, "it prints one word")
	return cmd
}
