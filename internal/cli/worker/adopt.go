package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/fleet"
	"orderpost/internal/queue"
)

const adoptLong = `adopt assigns the orders of this broker to the API of these settings (ORDERPOST_API_URL and
ORDERPOST_ACCOUNT_LABEL). A worker refuses to start with another API while orders, results or dead letters
of the former one are stored.

It shows what is stored, asks, and records who decided. From then on workers post pending orders and replayed
dead letters to the new API. Orders with an outcome count as settled and are not posted again. A worker that
runs with the former API stops sending within a second and must be restarted.

To keep the two apart instead, give the new worker a data folder of its own (ORDERPOST_DATA_DIR) or, on a
shared NATS, other names (ORDERPOST_PREFIX).`

type adoptCommand struct {
	environ map[string]string
	stderr  io.Writer
	decision
}

func newAdoptCommand(environ map[string]string, stderr io.Writer) *cobra.Command {
	c := &adoptCommand{environ: environ, stderr: stderr}
	cmd := &cobra.Command{
		Use:     "adopt",
		Short:   "Assign the orders of this broker to the API of these settings",
		Long:    adoptLong,
		Example: "  orderpost worker adopt\n  ORDERPOST_API_URL=https://api.example.com orderpost worker adopt --yes --by anna",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.register(cmd, environ)
	return cmd
}

func (c *adoptCommand) run(cmd *cobra.Command) error {
	var cfg pool.Config
	if err := errors.Join(cli.ReadEnv(&cfg, c.environ), cfg.Submit.Validate(), cfg.Queue.Validate(), c.check(cmd.InOrStdin())); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	ctx, out := cmd.Context(), c.people(cmd)
	q, done, err := broker.Open(ctx, broker.Config{Queue: cfg.Queue, DataDir: cfg.DataDir}, broker.Options{Name: "worker adopt", StartStopped: true, Stderr: c.stderr})
	if err != nil {
		return err
	}
	defer done()
	control := fleet.New(q)
	have, err := control.Claimed(ctx)
	if errors.Is(err, fleet.ErrNoIdentity) {
		return tell(cmd, c.json, adoption{}, "These orders belong to no API yet: the first worker assigns them to its own. Nothing was changed.")
	}
	if err != nil {
		return err
	}
	want := cfg.Identity()
	if have.Identity == want.Normal() {
		return tell(cmd, c.json, adoption{API: &want}, "These orders belong to %s already. Nothing was changed.", have)
	}
	counts, err := q.Census.Count(ctx)
	if err != nil {
		return err
	}
	workers, err := control.Workers(ctx)
	if err != nil {
		return err
	}
	showAdoption(out, have, want, counts, workers)
	if !c.made(cmd.InOrStdin(), out, "Let the new API take over?") {
		return errNotMade
	}
	by, about := c.person.Actor().Name, journal.About{Kind: journal.Adopt,
		Details:  map[string]string{"from": have.String(), "to": want.String()},
		Expected: map[string]int{"pending": int(counts.Pending), "waiting": int(counts.Waiting), "results": int(counts.Results), "dead_letters": int(counts.Letters)}} //nolint:gosec // counts of messages
	return c.person.On(cmd).Act(cmd.Context(), q, about, nil, func(ctx context.Context) (map[string]int, error) {
		if err := control.TakeOver(ctx, have, fleet.Takeover{By: by, At: time.Now().UTC(), From: have.Identity, To: want, Counts: counts}); err != nil {
			return nil, err
		}
		return nil, tell(cmd, c.json, adoption{Changed: true, API: &want, Former: &have.Identity, By: by, Counts: &counts},
			"The orders of this broker belong to %s from now on; %s decided it.", want, by)
	})
}

// adoption is the JSON output of adopt.
type adoption struct {
	Changed bool            `json:"changed"`
	API     *fleet.Identity `json:"api"` // null = no worker has decided it yet
	Former  *fleet.Identity `json:"former,omitempty"`
	By      string          `json:"by,omitempty"`
	Counts  *queue.Counts   `json:"counts,omitempty"`
}

func showAdoption(out io.Writer, have *fleet.Claim, want fleet.Identity, counts queue.Counts, workers []fleet.Presence) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	since := ""
	if !have.At.IsZero() {
		since = fmt.Sprintf(", since %s by %s", have.At.Format(time.RFC3339), have.By)
	}
	say("The orders of this broker belong to  %s%s", have, since)
	say("These settings post to               %s", want)
	say("%9d pending orders: they will be posted to the new API, also those that the former one may have created", counts.Pending)
	if counts.Waiting > 0 {
		say("%9d orders in the waiting room: they will be posted to the new API", counts.Waiting)
	}
	say("%9d results and notes: what they settled is not posted again", counts.Results)
	say("%9d dead letters: a replay posts them to the new API", counts.Letters)
	for _, w := range workers {
		say("worker %s is running: if it posts to the former API, it stops sending and must be restarted", w.Worker)
	}
}
