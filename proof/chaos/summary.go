package chaos

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/cli/balance"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
)

// summary is the result of a run and its JSON output.
type summary struct {
	Command  string  `json:"command"`
	Broker   string  `json:"broker"`
	Policy   string  `json:"policy"`
	Scenario string  `json:"scenario,omitempty"`
	Seed     uint64  `json:"seed"`
	Workers  int     `json:"workers"`
	Seconds  float64 `json:"seconds"`

	// Confirmed counts intents that the broker confirmed to a producer.
	Confirmed int `json:"confirmed"`
	// Corrections counts the later submissions of orders that were confirmed.
	Corrections int `json:"corrections"`
	// Lost counts those without an outcome, accepted ones that do not exist, and orders of which a
	// correction has no outcome.
	Lost int `json:"lost"`
	// Unknown counts valid orders that ended as unknown although the API was asked about them.
	Unknown int `json:"unknown"`
	// Doubled counts orders that were created more than once.
	Doubled int `json:"doubled"`
	// Unexplained counts results of intents that nobody published, and results with an
	// outcome that their intent cannot have.
	Unexplained int   `json:"unexplained"`
	Requests    int64 `json:"requests"`
	// Untold counts outcomes that the receiver of webhooks does not know as they are at the end.
	Untold int `json:"untold"`
	// Doors counts what came and went through the doors; nil = the run had none.
	Doors *doorTally `json:"doors,omitempty"`
	// Rot counts damaged blocks, with --bit-rot.
	Rot *rotTally `json:"bit_rot,omitempty"`
	// Approvals counts what two people decided; nil = the run had none.
	Approvals *approvalTally `json:"approvals,omitempty"`
	// StoredTimes says how often stored times went back, with --clocks.
	StoredTimes []*storedTimes `json:"stored_times,omitempty"`
	// Revived counts processes that ended by themselves (no broker at start, a refused
	// key) and were restarted.
	Revived int64         `json:"revived"`
	Faults  []*faultTally `json:"faults"`
	// Commands lists how the programs for people ended.
	Commands        []*commandTally `json:"commands,omitempty"`
	CommandProblems []string        `json:"command_problems,omitempty"`
	*balance.Books

	mu      sync.Mutex
	windows []*window
	lookups bool // the API was asked about orders in doubt
}

// faultTally is one line of the table of faults.
type faultTally struct {
	Fault    string `json:"fault"`
	Injected int    `json:"injected"`
	// Missed counts injections without effect.
	Missed int `json:"missed,omitempty"`
	// InFlight is the number of orders that workers had in hand, over all injections.
	InFlight int64 `json:"in_flight"`
	// Lost and Doubled count orders that were in flight while such a fault stood. One
	// order counts for each fault.
	Lost    int `json:"lost"`
	Doubled int `json:"doubled"`
}

// doorTally counts what came and went through the doors.
type doorTally struct {
	// Posted counts the orders that were brought over HTTP, Events the webhooks that the
	// receiver took.
	Posted int `json:"posted"`
	Events int `json:"events"`
}

// window is the time for which a fault stood.
type window struct {
	Fault    string
	From, To time.Time
	InFlight int64
	Missed   bool
}

func (r *rig) newSummary() *summary {
	s := &summary{Command: r.o.command, Broker: r.o.broker, Policy: r.o.policy, Scenario: r.o.scenario, Seed: r.o.seed, Workers: r.o.workers, lookups: r.o.lookup}
	for _, f := range r.o.chosen {
		s.Faults = append(s.Faults, &faultTally{Fault: f.name})
	}
	return s
}

func (s *summary) begin(fault string, inFlight int64) *window {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &window{Fault: fault, From: time.Now(), InFlight: inFlight}
	s.windows = append(s.windows, w)
	return w
}

func (s *summary) end(w *window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.To = time.Now()
}

func (s *summary) miss(w *window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Missed = true
}

// tally returns the line of a fault, which it adds if there is none.
func (s *summary) tally(fault string) *faultTally {
	i := slices.IndexFunc(s.Faults, func(t *faultTally) bool { return t.Fault == fault })
	if i < 0 {
		s.Faults = append(s.Faults, &faultTally{Fault: fault})
		i = len(s.Faults) - 1
	}
	return s.Faults[i]
}

// compare balances the books of a quiet queue: every confirmed intent must have one
// outcome, every outcome must fit the ledger, and there must be nothing else.
func (s *summary) compare(ctx context.Context, q *queue.Queue, r *rig) (err error) {
	in, api := r.intents, r.api
	confirmed := in.all()
	s.Confirmed, s.Requests = len(confirmed), api.Ledger().Requests
	for _, w := range s.windows {
		t := s.tally(w.Fault)
		if w.Missed {
			t.Missed++
			continue
		}
		t.Injected++
		t.InFlight += w.InFlight
	}
	settled := make(map[string]*order.Record, len(confirmed))
	s.Books, err = balance.Balance(ctx, q, api, balance.AnyNumber, func(r *order.Record) { settled[r.OrderNo] = r })
	if err != nil {
		return err
	}
	s.judge(confirmed, settled, in.mayExist, api.Each)
	if d := r.doors; d != nil {
		s.Untold, s.Doors = d.receiver.judge(settled, s.Problem), d.receiver.tally()
	}
	if r.people != nil {
		s.Approvals, err = r.people.judge(ctx, q, settled, in, api, s.Problem)
	}
	return err
}

// judge compares the confirmed intents with the outcomes and the ledger.
func (s *summary) judge(confirmed map[string]confirmation, settled map[string]*order.Record, mayExist func(string) bool,
	ledger func(func(string, sandbox.Entry) bool)) {
	created := make(map[string]int, len(confirmed))
	for no, e := range ledger {
		created[no] = e.Created
		if e.Created > 1 {
			s.Doubled++
			s.blame(confirmed[no].At, e.LastAt, func(t *faultTally) { t.Doubled++ })
		}
		if e.Created > 0 && !mayExist(no) {
			s.Unexplained++
			s.Problem("%s: created, but nobody published it", no)
		}
	}
	for no, c := range confirmed {
		r := settled[no]
		s.Corrections += c.Corrections
		switch {
		case r == nil, r.Outcome() == order.OutcomeNone:
			s.lose(c, r, "%s: confirmed at %s, and has no outcome", no, c.At.UTC().Format(time.RFC3339Nano))
		case r.Outcome() == order.OutcomeAccepted && created[no] == 0:
			s.lose(c, r, "%s: accepted, and does not exist", no)
		case s.lookups && r.Outcome() == order.OutcomeUnknown && r.By == "" && c.Must == order.OutcomeNone:
			s.Unknown++
			s.Problem("%s: ended as unknown (%s)", no, r.DoubtReason)
		case c.Corrections > 0 && r.Settled <= c.Corrections:
			s.lose(c, nil, "%s: %d submissions were confirmed, and %d have an outcome (%s, intent %s)", no, 1+c.Corrections, r.Settled, r.Word, r.IntentID)
		case c.Must != order.OutcomeNone && r.Outcome() != c.Must && !inDoubtUnsent(r):
			s.Unexplained++
			s.Problem("%s: ended as %s instead of %s (%s)", no, r.Word, c.Must, r.Reason)
		}
	}
	for no, r := range settled {
		if !mayExist(no) {
			s.Unexplained++
			s.Problem("%q: has the outcome %s (%s), but nobody published it", no, r.Word, r.Reason)
		}
	}
}

// inDoubtUnsent reports whether an order that was never sent may rightly be in doubt: a
// delivery was lost with its worker, or the delivery count with the broker. The next
// owner cannot know that the former one, perhaps of another version, sent nothing.
func inDoubtUnsent(r *order.Record) bool {
	return r.Outcome() == order.OutcomeUnknown && r.Attempts == 0 && r.Unsure
}

// maxNamed is the largest number of lost orders that are named.
const maxNamed = 20

func (s *summary) lose(c confirmation, r *order.Record, format string, args ...any) {
	s.Lost++
	s.Balanced = false
	if s.Lost <= maxNamed { // first, or the audit's offenders would leave them no place
		s.Problems = slices.Insert(s.Problems, 0, fmt.Sprintf(format, args...))
	}
	until := time.Now()
	if r != nil && r.Outcome() != order.OutcomeNone {
		until = r.SettledAt
	}
	s.blame(c.At, until, func(t *faultTally) { t.Lost++ })
}

// blame counts a problem for every kind of fault that stood while the order was in
// flight.
func (s *summary) blame(from, until time.Time, count func(*faultTally)) {
	stood := make(map[string]bool)
	for _, w := range s.windows {
		if !w.Missed && !w.From.After(until) && (w.To.IsZero() || !w.To.Before(from)) {
			stood[w.Fault] = true
		}
	}
	for fault := range stood {
		count(s.tally(fault))
	}
}

// injected returns the number of faults with an effect.
func (s *summary) injected() (n int) {
	for _, f := range s.Faults {
		n += f.Injected
	}
	return n
}

// printCommands prints how the programs for people ended.
func (s *summary) printCommands(out io.Writer) error {
	if len(s.Commands) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "command\truns\twaited\texit codes\tunexpected\t")
	for _, c := range s.Commands {
		var codes []string
		for _, code := range slices.Sorted(maps.Keys(c.Codes)) {
			codes = append(codes, fmt.Sprintf("%d: %d", code, c.Codes[code]))
		}
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t\n", c.Command, c.Runs, c.Waited, strings.Join(codes, ", "), c.Unexpected)
	}
	for _, p := range s.CommandProblems {
		_, _ = fmt.Fprintln(t, "  "+strings.ReplaceAll(p, "\n", "\n    "))
	}
	return t.Flush()
}

// print prints the summary as text or JSON.
func (s *summary) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return cli.PrintReport(out, s)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(s.Faults) > 0 {
		_, _ = fmt.Fprintln(t, "fault\tinjected\tin flight\tlost\tdoubled\t")
	}
	for _, f := range s.Faults {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t\n", f.Fault, f.Injected, f.InFlight, f.Lost, f.Doubled)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := s.printCommands(out); err != nil {
		return err
	}
	if s.Books == nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "%s broker, %s, %d workers, seed %d: %d faults in %.0f s (%d processes had ended by themselves)\n"+
		"intents confirmed %d, corrections %d, lost %d, doubled %d, unexplained %d\n"+
		"outcomes %v\nrequests to the API %d, orders created %d, created twice %d\n"+
		"recorded as accepted but missing %d, created but not recorded %d, dead letters %d\nbalanced: %v\n",
		s.Broker, s.Policy, s.Workers, s.Seed, s.injected(), s.Seconds, s.Revived, s.Confirmed, s.Corrections, s.Lost, s.Doubled, s.Unexplained,
		s.Outcomes, s.Requests, s.CreatedOnce+s.CreatedTwice, s.CreatedTwice, s.Missing, s.Unrecorded, s.DeadLetters, s.Balanced)
	if d := s.Doors; d != nil {
		_, _ = fmt.Fprintf(out, "orders over HTTP %d, webhooks taken %d, not told as they ended %d\n", d.Posted, d.Events, s.Untold)
	}
	if t := s.Rot; t != nil {
		_, _ = fmt.Fprintf(out, "damaged blocks: nothing lacked after %d; of the others, the fleet noticed %d (%d messages, after at most %.0f s), nobody noticed %d, %d were of intents\n",
			t.Whole, t.Noticed, t.Lacked, t.Slowest, t.Unnoticed, t.Silent)
	}
	if a := s.Approvals; a != nil {
		_, _ = fmt.Fprintf(out, "uploads approved %d, refused %d, waiting %d; decisions answered %d, cut off %d; orders created of what two people agreed to %d; contradictions %d\n",
			a.Approved, a.Refused, a.Waiting, a.Answered, a.CutOff, a.Covered, a.Wrong)
	}
	for _, t := range s.StoredTimes {
		_, _ = fmt.Fprintf(out, "stored times of %s that went back: %d, by at most %s\n", t.Stream, t.Back, t.Most)
	}
	for _, p := range s.Problems {
		_, _ = fmt.Fprintln(out, "  "+p)
	}
	return err
}
