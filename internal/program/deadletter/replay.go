package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"orderpost/internal/books"
	"orderpost/internal/journal"
	"orderpost/internal/program"
	"orderpost/internal/program/broker"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// replaysAtOnce is the number of concurrent replays. Each waits for the broker's disk,
// which handles concurrent writes together.
const replaysAtOnce = 16

type replayCommand struct {
	*surroundings
	filter
	all, dryRun, resubmit, json bool
	rate                        float64
	limit                       int
	deadline                    string
	person                      broker.Person
}

func newReplayCommand(s *surroundings) *cobra.Command {
	c := &replayCommand{surroundings: s}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Put the orders of dead letters back into the queue",
		Long: "replay enqueues the orders again, unchanged and under their own order numbers. It removes each\n" +
			"letter once the order is in the queue. It may be interrupted and repeated: no order is lost or\n" +
			"doubled. Give a filter, or --all.\n\n" +
			"An order whose outcome is unknown may exist at the API. replay leaves it alone unless you give\n" +
			"--resubmit-unknown. Do that only if the API refuses or recognises a duplicate order_no, or after\n" +
			"its operator said that the order does not exist. Your permission is recorded with your name. An\n" +
			"accepted order is never replayed. The journal keeps who replayed what.\n\n" +
			"Exit code 3: some letters stayed; the summary says why.",
		Example: "  deadletter replay --outcome exhausted --since 2h --dry-run\n  deadletter replay --batch march --rate 20",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	c.register(cmd, s.environ)
	f.BoolVar(&c.all, "all", false, "every dead letter")
	f.BoolVar(&c.dryRun, "dry-run", false, "change nothing, say what would be done")
	f.Float64Var(&c.rate, "rate", 0, "orders per second at most; 0 = no limit")
	f.IntVar(&c.limit, "limit", 0, "orders at most; 0 = all that match")
	f.BoolVar(&c.resubmit, "resubmit-unknown", false, "also orders that may exist at the API; may create an order twice")
	f.StringVar(&c.deadline, "deadline", "", "RFC 3339 time that replaces the orders' own deadlines; none removes them")
	program.JSONFlag(cmd, &c.json, "replay")
	c.person.Register(cmd, s.environ)
	return cmd
}

// check reads the flags. Its error names every mistake.
func (c *replayCommand) check() (o settle.ReplayOptions, err error) {
	o = settle.ReplayOptions{ResubmitUnknown: c.resubmit}
	errs := []error{c.compile(time.Now())}
	if c.empty() != c.all {
		errs = append(errs, errors.New("give a filter, or --all for every dead letter"))
	}
	if c.rate < 0 || c.limit < 0 {
		errs = append(errs, errors.New("--rate and --limit: cannot be below 0"))
	}
	switch c.deadline {
	case "":
	case "none":
		o.Deadline = new(time.Time)
	default:
		at, err := time.Parse(time.RFC3339, c.deadline)
		if err != nil {
			errs = append(errs, fmt.Errorf("--deadline: %q is neither none nor a time such as 2026-01-31T18:00:00Z", c.deadline))
		}
		o.Deadline = &at
	}
	if c.resubmit && !c.dryRun {
		o.Person = c.person.Settle()
		errs = append(errs, c.person.Check())
	}
	return o, errors.Join(errs...)
}

func (c *replayCommand) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	o, err := c.check()
	if err != nil {
		return usage(err)
	}
	q, done, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	r := &replaying{q: q, o: o, left: c.limit, limited: c.limit > 0, pace: rate.NewLimiter(rate.Inf, 1), ends: make(map[settle.Replay]int)}
	if c.rate > 0 {
		r.pace.SetLimit(rate.Limit(c.rate))
	}
	last, err := books.LastLetter(ctx, q)
	if err != nil {
		return err
	}
	if c.dryRun {
		return c.visit(ctx, r, last, r.dryPage)
	}
	about := c.journaled(journal.About{Kind: journal.Replay, Details: c.details()}, last)
	return c.person.Act(cmd, q, about, nil, func(ctx context.Context) (map[string]int, error) {
		err := c.visit(ctx, r, last, r.page)
		return r.counts(), err
	})
}

// visit passes the selected letters to page, and prints the summary.
func (c *replayCommand) visit(ctx context.Context, r *replaying, last uint64, page func(context.Context, []*settle.Letter) error) error {
	bad, err := c.selectedTo(ctx, r.q, &c.filter, last, func(letters []*settle.Letter) error { return page(ctx, letters) })
	c.summary(r)
	if err == nil && r.stayed() > 0 {
		err = partial("%d dead letters stayed", r.stayed())
	}
	return errors.Join(err, unreadableError(bad))
}

// details are the parameters that the journal keeps.
func (c *replayCommand) details() map[string]string {
	out := make(map[string]string)
	if c.resubmit {
		out["resubmit-unknown"] = "true"
	}
	if c.deadline != "" {
		out["deadline"] = c.deadline
	}
	if c.limit > 0 {
		out["limit"] = strconv.Itoa(c.limit)
	}
	if c.rate > 0 {
		out["rate"] = strconv.FormatFloat(c.rate, 'g', -1, 64)
	}
	return out
}

// replaying is the state of one run of replay.
type replaying struct {
	q       *queue.Queue
	o       settle.ReplayOptions
	pace    *rate.Limiter
	left    int
	limited bool

	mu     sync.Mutex
	ends   map[settle.Replay]int
	failed []string // the first few errors
	errs   int
}

// page replays the letters of a page, some concurrently. It returns errEnough at the
// limit, and another error if the broker stays out of reach or ctx ends.
func (r *replaying) page(ctx context.Context, letters []*settle.Letter) error {
	var all errgroup.Group
	all.SetLimit(replaysAtOnce)
	var end error
	for _, l := range letters {
		if r.limited && r.left == 0 {
			end = errEnough
			break
		}
		if end = r.pace.Wait(ctx); end != nil {
			break
		}
		r.left--
		all.Go(func() error {
			how, err := r.q.Replay(ctx, l, r.o)
			r.note(l, how, err)
			if errors.Is(err, queue.ErrUnreachable) { // the queue has waited long enough
				return err
			}
			return nil
		})
	}
	return errors.Join(all.Wait(), end, ctx.Err())
}

// dryPage counts what page would do.
func (r *replaying) dryPage(ctx context.Context, letters []*settle.Letter) error {
	if r.limited {
		letters = letters[:min(len(letters), r.left)]
	}
	ends, err := books.DryRunReplay(ctx, r.q, letters, r.o)
	if err != nil {
		return err
	}
	for i, how := range ends {
		if how == settle.ReplayNone {
			r.note(letters[i], how, settle.ErrUnreadable)
			continue
		}
		r.ends[how]++
	}
	if r.left -= len(letters); r.limited && r.left == 0 {
		return errEnough
	}
	return nil
}

const maxErrors = 20

func (r *replaying) note(l *settle.Letter, how settle.Replay, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.ends[how]++
		return
	}
	if r.errs++; len(r.failed) < maxErrors {
		r.failed = append(r.failed, fmt.Sprintf("order %q: %v", l.OrderNo, err))
	}
}

// stayed returns the number of letters that stayed.
func (r *replaying) stayed() int {
	n := r.errs
	for how, count := range r.ends {
		if how != settle.Replayed && how != settle.ReplayedBefore && how != settle.ReplayGone {
			n += count
		}
	}
	return n
}

// counts returns the number of letters by what became of them.
func (r *replaying) counts() map[string]int {
	counts := map[string]int{"failed": r.errs}
	for _, how := range settle.Replays() {
		counts[how.String()] = r.ends[how]
	}
	return counts
}

// explained returns the text for an end of a replay.
func explained(how settle.Replay, dry bool) string {
	switch how {
	case settle.Replayed:
		if dry {
			return "would be replayed"
		}
		return "replayed"
	case settle.ReplayedBefore:
		return "replayed by an earlier run, which was cut off"
	case settle.ReplayGone:
		return "gone or replaced meanwhile"
	case settle.ReplayPending:
		return "stay: another intent for the order_no is in the queue"
	case settle.ReplayAccepted:
		return "stay: the order was accepted"
	case settle.ReplayInDoubt:
		return "stay: the order may exist (see --resubmit-unknown)"
	case settle.ReplayLate:
		return "stay: the deadline has passed (see --deadline)"
	default:
		return "stay: the subject is not the order_no's; export, correct and enqueue"
	}
}

func (c *replayCommand) summary(r *replaying) {
	if c.json {
		_ = json.NewEncoder(c.stdout).Encode(map[string]any{"dry_run": c.dryRun, "letters": r.counts(), "errors": r.failed})
		return
	}
	total := 0
	for _, how := range settle.Replays() {
		if n := r.ends[how]; n > 0 {
			total += n
			say(c.stdout, "%9d %s", n, explained(how, c.dryRun))
		}
	}
	if r.errs > 0 {
		say(c.stdout, "%9d stay: the broker did not confirm; run the same command again", r.errs)
	}
	if total+r.errs == 0 {
		say(c.stdout, "No dead letters match.")
	}
	for _, line := range r.failed {
		say(c.stderr, "%s", line)
	}
}
