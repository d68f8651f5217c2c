package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/platform/duration"
	"orderpost/internal/queue"
)

// fleetCommand is a command with which a person controls all workers.
type fleetCommand struct {
	environ map[string]string
	stderr  io.Writer
	person  broker.Person
	last    time.Duration
	json    bool
}

// NewFleetCommands returns the commands hold, resume, limit and fleet.
func NewFleetCommands(environ map[string]string, stderr io.Writer) []*cobra.Command {
	c := &fleetCommand{environ: environ, stderr: stderr}
	hold := c.command("hold", "Stop all workers from sending, until resume or for a time", cobra.NoArgs, c.hold)
	hold.Long = "hold stops every worker of the fleet within a second: no new request goes to the API. Requests that are\n" +
		"there already are finished. A pull that is under way may still take orders: they wait at the gate, or go\n" +
		"back to the queue. The time of a hold counts neither as attempts nor as age. It survives restarts of\n" +
		"workers and broker. Workers count the time of a hold --for a time themselves, whatever clocks say: the first\n" +
		"that has run for so long ends it. If none does, because all restart, the hold lasts on: resume. A hold --for a\n" +
		"shorter time than the present one is refused: resume first."
	hold.Example = "  orderpost hold --for 30m --note 'maintenance of the API'"
	hold.Flags().Var((*duration.Value)(&c.last), "for", "how long; 0 = until resume")
	hold.Flags().StringVar(&c.person.Note, "reason", "", "another name of --note")
	_ = hold.Flags().MarkHidden("reason") // the flag exists
	resume := c.command("resume", "Let all workers go on after a hold", cobra.NoArgs, c.resume)
	resume.Long = "resume ends a hold. Workers whose gates the API's answers have shut also try again at once, because a\n" +
		"person has looked at the cause."
	resume.Example = "  orderpost resume"
	limit := c.command("limit [N/s|none|default]", "Show or set the rate limit that all workers share", cobra.MaximumNArgs(1), c.limit)
	limit.Long = "limit sets the requests per second of the whole fleet, which the workers share. Alone it shows them.\n" +
		"none: no limit. default: back to ORDERPOST_RATE_LIMIT (the lowest among the workers counts)."
	limit.ValidArgs = []cobra.Completion{"none", "default"}
	limit.Example = "  orderpost limit 50/s"
	lane := c.command("lane NAME WEIGHT|default", "Set the weight of a lane of the waiting room", cobra.ExactArgs(2), c.lane)
	lane.Long = "lane sets how many orders a lane sends for one of a lane with weight 1, while both have orders waiting.\n" +
		"Imports within a lane take equal turns. Every lane has weight 1 at first; an import takes the lane bulk, or\n" +
		"one that has a weight here. default: takes the weight away."
	lane.Example = "  orderpost lane night 1\n  orderpost lane urgent 10"
	show := c.command("fleet", "Show the running workers and what controls them", cobra.NoArgs, c.show)
	show.Long = "fleet lists the running workers: since when they run, how many orders they have in hand, how many requests\n" +
		"per second they sent over the last ten seconds, their share of the fleet's limit, the API's clock minus\n" +
		"theirs, and whether their gate is open. Below that: the version, how long the API takes for its latest\n" +
		"answers (p50, p99), what holds the worker's rate (the limit, the slots or the API), and why its gate is\n" +
		"closed. A worker that gives no sign of life is named, with what becomes of its orders. Then the doors: HTTP\n" +
		"doors with the orders per second that clients brought, watched folders with the rows per second that were\n" +
		"stored, and senders of webhooks with the events per second that the receiver took and how many outcomes it\n" +
		"does not have. Then the lanes of the waiting room: their weight, how many orders wait for their turn and for\n" +
		"how long, and how many for a later time."
	show.Example = "  orderpost fleet\n  orderpost fleet --json"
	cli.JSONFlag(show, &c.json, "fleet")
	for _, cmd := range []*cobra.Command{hold, resume, limit, lane} {
		cli.JSONFlag(cmd, &c.json, cmd.Name())
		c.person.Register(cmd, environ)
		broker.Patient(cmd, environ, broker.AgainWrite)
	}
	return []*cobra.Command{hold, resume, limit, lane, broker.Patient(show, environ, broker.AgainLook)}
}

func (c *fleetCommand) command(use, short string, args cobra.PositionalArgs, run func(*cobra.Command, *queue.Queue, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, list []string) error {
		if err := c.check(cmd.Name(), list); err != nil {
			return &cli.ExitError{Code: cli.ExitUsage, Err: err}
		}
		q, done, err := broker.Connect(cmd.Context(), c.environ, broker.Options{Name: "worker " + cmd.Name(), Incomplete: cmd.Name() == "fleet", Stderr: c.stderr})
		if err != nil {
			return err
		}
		defer done()
		return run(cmd, q, list)
	}}
}

// check finds wrong usage before the command connects.
func (c *fleetCommand) check(name string, args []string) error {
	if name == "limit" && len(args) > 0 {
		_, err := fleet.ReadLimit(args[0])
		return err
	}
	if name == "lane" {
		_, err := readWeight(args[1])
		return errors.Join(order.CheckLane(args[0]), err)
	}
	return nil
}

func (c *fleetCommand) hold(cmd *cobra.Command, q *queue.Queue, _ []string) error {
	control := fleet.New(q)
	h := fleet.Hold{Reason: c.person.Note, By: c.person.Actor().Name, Since: time.Now().UTC(), For: c.last}
	details := map[string]string{"lasts": h.Lasts()}
	safer := func(ctx context.Context) bool {
		now, err := control.Read(ctx)
		return err != nil || now.Prolongs(h)
	}
	about := journal.About{Kind: journal.Hold, Note: c.person.Note, Details: details}
	return c.person.On(cmd).Act(cmd.Context(), q, about, safer, func(ctx context.Context) (map[string]int, error) {
		if err := control.Prolong(ctx, h); err != nil {
			return nil, err
		}
		return nil, tell(cmd, c.json, heldFleet{h}, "The fleet is held %s.", h.Lasts())
	})
}

func (c *fleetCommand) resume(cmd *cobra.Command, q *queue.Queue, _ []string) error {
	by := c.person.Actor().Name
	return c.person.On(cmd).Act(cmd.Context(), q, journal.About{Kind: journal.Resume}, nil, func(ctx context.Context) (map[string]int, error) {
		if err := fleet.New(q).Resume(ctx, by); err != nil {
			return nil, err
		}
		return nil, tell(cmd, c.json, resumedFleet{true, by}, "The fleet goes on.")
	})
}

func (c *fleetCommand) limit(cmd *cobra.Command, q *queue.Queue, args []string) error {
	if len(args) == 0 {
		view, err := fleet.New(q).Look(cmd.Context())
		if err != nil {
			return err
		}
		text := describeLimit(view.Limit)
		if view.Limit != nil && view.Limit.By != "" {
			text += ", by " + cli.Printable(view.Limit.By)
		}
		for _, p := range view.Present() {
			if view.Limit == nil && p.Limit > 0 {
				text += "; " + cli.Printable(p.Worker) + ": " + fleet.RateText(p.Limit) + "/s"
			}
		}
		return tell(cmd, c.json, limitedFleet{view.Limit}, "The fleet's limit: %s.", text)
	}
	l, err := fleet.ReadLimit(args[0])
	if err != nil {
		return err
	}
	if l != nil {
		l.By, l.At = c.person.Actor().Name, time.Now().UTC()
	}
	control := fleet.New(q)
	safer := func(ctx context.Context) bool {
		now, err := control.Read(ctx)
		return err == nil && now.Lowers(l)
	}
	about := journal.About{Kind: journal.Limit, Details: map[string]string{"limit": args[0]}}
	return c.person.On(cmd).Act(cmd.Context(), q, about, safer, func(ctx context.Context) (map[string]int, error) {
		if err := control.SetLimit(ctx, l); err != nil {
			return nil, err
		}
		return nil, tell(cmd, c.json, limitedFleet{l}, "The fleet's limit: %s.", describeLimit(l))
	})
}

// readWeight reads a lane's weight; 0 = default.
func readWeight(text string) (int, error) {
	if text == "default" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > order.MaxWeight {
		return 0, fmt.Errorf("%q is no weight: give a whole number from 1 to %d, or default", text, order.MaxWeight)
	}
	return n, nil
}

func (c *fleetCommand) lane(cmd *cobra.Command, q *queue.Queue, args []string) error {
	weight, err := readWeight(args[1])
	if err != nil {
		return err
	}
	about := journal.About{Kind: journal.Lane, Details: map[string]string{"lane": args[0], "weight": args[1]}}
	return c.person.On(cmd).Act(cmd.Context(), q, about, nil, func(ctx context.Context) (map[string]int, error) {
		if err := fleet.New(q).SetLane(ctx, args[0], weight, c.person.Actor().Name); err != nil {
			return nil, err
		}
		return nil, tell(cmd, c.json, weighedLane{args[0], weight}, "Lane %s: weight %s.", args[0], args[1])
	})
}

// weighedLane is the JSON output of lane.
type weighedLane struct {
	Lane   string `json:"lane"`
	Weight int    `json:"weight,omitempty"` // absent = none of its own
}

// The JSON output of hold, resume and limit, in the words of fleet.
type (
	heldFleet struct {
		Hold fleet.Hold `json:"hold"`
	}
	resumedFleet struct {
		Resumed bool   `json:"resumed"`
		By      string `json:"by,omitempty"`
	}
	limitedFleet struct {
		Limit *fleet.Limit `json:"limit"` // null = the workers' settings decide
	}
)

func describeLimit(l *fleet.Limit) string {
	switch {
	case l == nil:
		return "by the workers' settings (ORDERPOST_RATE_LIMIT)"
	case l.PerSecond == 0:
		return "none"
	default:
		return fleet.RateText(l.PerSecond) + "/s"
	}
}

func (c *fleetCommand) show(cmd *cobra.Command, q *queue.Queue, _ []string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	parts, err := q.Topology.Inspect(ctx)
	if err != nil {
		return err
	}
	missing := names(parts, queue.PartState.Missing)
	f := &fleet.View{}
	if !slices.ContainsFunc(parts, func(s queue.PartState) bool { return s.Part == queue.PartFleet && s.Missing() }) {
		if f, err = fleet.New(q).Look(ctx); err != nil {
			return err
		}
	}
	room, feeder, err := readWaitingRoom(ctx, q, f, missing)
	if err != nil {
		return err
	}
	told := f.Tell(time.Now(), ackWait(ctx, q))
	f.Members = f.Present()
	slices.SortStableFunc(f.Members, func(a, b fleet.Presence) int { return cmp.Compare(a.Worker, b.Worker) })
	if c.json {
		err = cli.PrintJSON(out, map[string]any{"hold": f.Hold, "limit": f.Limit, "unreadable": f.Unreadable, "workers": f.Members, "api": f.Identity, "missing": missing, "lanes": room.Lanes, "feeder": feeder.Process, "feeder_problem": feeder.Problem, "paused": room.Held,
			"nothing_sent": told.NothingSent, "absent": told.Absent, "pace": told.Pace, "doors": f.Doors()})
	} else {
		printFleet(out, f, told, missing)
		printWaitingRoom(out, room, feeder, time.Now())
	}
	if len(missing) > 0 && err == nil {
		err = errors.New(missingAdvice(parts))
	}
	return err
}

// ackWait returns how long a silent worker keeps its orders; 0 if that is not known.
func ackWait(ctx context.Context, q *queue.Queue) time.Duration {
	d, err := q.Census.Deliveries(ctx)
	if err != nil {
		return 0 // the consumer is missing, which the command says
	}
	return d.AckWait
}

// names returns the names of the parts for which so returns true.
func names(parts []queue.PartState, so func(queue.PartState) bool) []string {
	var out []string
	for _, p := range parts {
		if so(p) {
			out = append(out, p.Name)
		}
	}
	return out
}

// missingAdvice says what to do about missing parts.
func missingAdvice(parts []queue.PartState) string {
	lost := names(parts, func(p queue.PartState) bool { return p.Missing() && p.Precious() })
	switch {
	case len(lost) == len(names(parts, queue.PartState.Precious)):
		return "this broker has no streams: no worker has worked with it yet, or it has lost them. Start a worker, which creates them, or see OrderpostStreamsMissing in docs/runbook.md"
	case len(lost) > 0:
		return queue.DescribeMissing(lost) + ". " + queue.MissingAdvice
	default:
		return queue.DescribeMissing(names(parts, queue.PartState.Missing)) + "; a worker creates it again, within a minute if one is running"
	}
}
