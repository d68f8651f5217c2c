package demo

import (
	"context"
	"slices"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/cli/reconcile"
	"orderpost/internal/deadletter"
	"orderpost/internal/files/importer"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// summary is the demo's result and its JSON output.
type summary struct {
	File     string         `json:"file"`
	DataDir  string         `json:"data_dir,omitempty"`
	Seconds  float64        `json:"seconds"`
	Intents  int            `json:"intents"`
	Attempts int            `json:"attempts"`
	Retries  map[string]int `json:"retries_by_cause"`
	// Latency from enqueue to settled, in milliseconds.
	P50 float64 `json:"enqueue_to_settled_p50_ms"`
	P99 float64 `json:"enqueue_to_settled_p99_ms"`
	// ExampleNo is one of the dead letters.
	ExampleNo string `json:"dead_letter_example,omitempty"`
	Example   string `json:"dead_letter_reason,omitempty"`
	*reconcile.Books

	command string // how the demo was started
}

// balance compares three books: the imported file, the results, and the
// sandbox's ledger.
func (st *stage) balance(ctx context.Context, imported *importer.Summary, took time.Duration) (*summary, error) {
	s := &summary{File: imported.File, Seconds: took.Seconds(), Intents: imported.Stored,
		command: cli.CommandLine(ctx), Attempts: st.tally.attempts, Retries: st.tally.retries}
	if st.keep {
		s.DataDir = st.o.dir
	}
	var latencies []float64
	var err error
	s.Books, err = reconcile.Balance(ctx, st.queue, st.api, imported.Rows, func(r *order.Record) {
		latencies = append(latencies, float64(r.SettledAt.Sub(r.EnqueuedAt).Microseconds())/1000)
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(latencies)
	s.P50, s.P99 = percentile(latencies, 50), percentile(latencies, 99)
	return s, deadletter.EachLetter(ctx, st.queue, func(l *settle.Letter) error {
		if s.Example == "" || l.Outcome == order.OutcomeUnknown {
			s.ExampleNo, s.Example = l.OrderNo, l.Outcome.String()+", "+l.Reason
		}
		return nil
	})
}

// percentile returns a percentile of sorted values; 0 = there are none.
func percentile(sorted []float64, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}
