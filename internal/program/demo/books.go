package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"orderpost/internal/importer"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// maxProblems bounds the list of what does not balance.
const maxProblems = 20

// summary is what the demo found, for people and for programs.
type summary struct {
	File     string         `json:"file"`
	DataDir  string         `json:"data_dir,omitempty"`
	Seconds  float64        `json:"seconds"`
	Intents  int            `json:"intents"`
	Outcomes map[string]int `json:"outcomes"`
	Attempts int            `json:"attempts"`
	Retries  map[string]int `json:"retries_by_cause"`
	// Latency from enqueue to settled, in milliseconds.
	P50 float64 `json:"enqueue_to_settled_p50_ms"`
	P99 float64 `json:"enqueue_to_settled_p99_ms"`

	DeadLetters uint64 `json:"dead_letters"`
	// Example is one of them.
	ExampleNo string `json:"dead_letter_example,omitempty"`
	Example   string `json:"dead_letter_reason,omitempty"`

	// What the sandbox's own ledger says.
	CreatedOnce  int `json:"created_once"`
	CreatedTwice int `json:"created_twice"`
	// Missing orders are recorded as accepted, and the sandbox has none.
	Missing int `json:"missing"`
	// Unrecorded orders were created, and are not recorded as accepted or unknown.
	Unrecorded int `json:"unrecorded"`

	Balanced bool     `json:"balanced"`
	Problems []string `json:"problems,omitempty"`
}

func (s *summary) problem(format string, args ...any) {
	s.Balanced = false
	if len(s.Problems) < maxProblems {
		s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
	}
}

// balance compares three books: the imported file, the results, and the
// sandbox's ledger.
func (st *stage) balance(ctx context.Context, imported *importer.Summary, took time.Duration) (*summary, error) {
	s := &summary{File: imported.File, Seconds: took.Seconds(), Intents: imported.Stored,
		Outcomes: make(map[string]int), Attempts: st.tally.attempts, Retries: st.tally.retries, Balanced: true}
	if st.keep {
		s.DataDir = st.o.dir
	}
	var latencies []float64
	recorded := make(map[string]order.Outcome, imported.Stored)
	err := st.queue.EachRecord(ctx, func(r *order.Record) error {
		s.Outcomes[r.Word]++
		recorded[r.OrderNo] = r.Outcome()
		latencies = append(latencies, float64(r.SettledAt.Sub(r.EnqueuedAt).Microseconds())/1000)
		s.compare(r, st.api.Created(r.OrderNo))
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.compareLedger(st, recorded)
	slices.Sort(latencies)
	s.P50, s.P99 = percentile(latencies, 50), percentile(latencies, 99)
	if len(recorded) != imported.Rows {
		s.problem("%d rows were imported, %d order numbers have a result", imported.Rows, len(recorded))
	}
	return s, st.audit(ctx, s)
}

// compare holds one result against the ledger.
func (s *summary) compare(r *order.Record, created int) {
	switch r.Outcome() {
	case order.OutcomeNone:
		s.problem("%s: not settled (%s)", r.OrderNo, r.Note)
	case order.OutcomeAccepted:
		if created == 0 {
			s.Missing++
			s.problem("%s: recorded as accepted, but never created", r.OrderNo)
		}
	case order.OutcomeUnknown: // nobody knows: either is right
	default:
		if created > 0 {
			s.Unrecorded++
			s.problem("%s: created, but recorded as %s", r.OrderNo, r.Word)
		}
	}
}

// compareLedger looks for orders that the sandbox created and nobody recorded.
func (s *summary) compareLedger(st *stage, recorded map[string]order.Outcome) {
	for orderNo, e := range st.api.Each {
		switch {
		case e.Created == 1:
			s.CreatedOnce++
		case e.Created > 1:
			s.CreatedTwice++
			s.problem("%s: created %d times", orderNo, e.Created)
		}
		if _, ok := recorded[orderNo]; !ok && e.Created > 0 {
			s.Unrecorded++
			s.problem("%s: created, but there is no result", orderNo)
		}
	}
}

// audit asks the queue whether its own streams balance.
func (st *stage) audit(ctx context.Context, s *summary) error {
	audit, err := st.queue.Audit(ctx)
	if err != nil {
		return err
	}
	s.DeadLetters = audit.Letters
	if !audit.Balanced() {
		s.problem("audit: %d intents were stored, %d are settled and %d pending; %d offenders",
			audit.Intents, audit.Settled, audit.Pending, audit.OffenderCount)
	}
	for _, o := range audit.Offenders {
		s.problem("audit: %s: %s", o.OrderNo, o.Problem)
	}
	return st.queue.EachLetter(ctx, func(l *queue.Letter) error {
		if s.Example == "" || l.Outcome == order.OutcomeUnknown {
			s.ExampleNo, s.Example = l.OrderNo, l.Outcome.String()+", "+l.Reason
		}
		return nil
	})
}

// percentile of sorted values; 0 where there are none.
func percentile(sorted []float64, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}
