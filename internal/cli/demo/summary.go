package demo

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/cli/balance"
	"orderpost/internal/deadletter"
	"orderpost/internal/files/importer"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// print writes the summary as text.
func (s *summary) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	row("%s: %d orders in %.1f s", s.File, s.Intents, s.Seconds)
	row("\noutcome\torders\tmeaning")
	for _, o := range order.Outcomes() {
		if n := s.Outcomes[o.String()]; n > 0 {
			row("%s\t%d\t%s", o, n, o.Meaning())
		}
	}
	if n := s.Outcomes[order.Retrying]; n > 0 {
		row("%s\t%d\tnot settled", order.Retrying, n)
	}
	row("\ndead letters\t%d\torders that need a person", s.DeadLetters)
	row("\nattempts\t%d", s.Attempts)
	for _, cause := range slices.SortedFunc(maps.Keys(s.Retries), func(a, b string) int {
		if d := s.Retries[b] - s.Retries[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	}) {
		row("  %s\t%d", cause, s.Retries[cause])
	}
	row("\nenqueue to settled\tp50 %.0f ms\tp99 %.0f ms", s.P50, s.P99)
	row("\nthe sandbox's ledger\t")
	row("  created once\t%d", s.CreatedOnce)
	row("  created twice\t%d", s.CreatedTwice)
	row("  missing\t%d", s.Missing)
	row("  created, not recorded\t%d", s.Unrecorded)
	_ = w.Flush()
	s.printVerdict(out)
}

func (s *summary) printVerdict(out io.Writer) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	say("")
	if s.Balanced {
		say("The books balance: every intent has exactly one outcome, and every order that exists is recorded.")
	} else {
		say("THE BOOKS DO NOT BALANCE:")
		for _, p := range s.Problems {
			say("  %s", p)
		}
	}
	say("")
	if s.ExampleNo != "" {
		s.printLetter(say)
	}
	if s.File == DefaultFile {
		say("Your own orders, against the same sandbox:\n  go run ./cmd/demo FILE.csv")
	}
	say("To post to a real API:\n  ORDERPOST_API_URL=https://api.example.com ORDERPOST_API_KEY=… ORDERPOST_API_SECRET=… go run ./cmd/orderpost worker\n  go run ./cmd/orderpost enqueue orders.csv")
}

// printLetter names one dead letter and the command that shows it, which needs data
// that outlive the demo.
func (s *summary) printLetter(say func(format string, args ...any)) {
	say("A dead letter: %s: %s", s.ExampleNo, s.Example)
	dir := s.DataDir
	if dir != "" {
		say("The data is kept in %s. To look at the letter:", dir)
	} else {
		dir = "demo-data"
		say("To look at it, keep the data:\n  go run ./cmd/%s --data %s", s.command, dir)
	}
	say("  ORDERPOST_DATA_DIR=%s go run ./cmd/orderpost order %s", dir, s.ExampleNo)
}

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
	*balance.Books

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
	s.Books, err = balance.Balance(ctx, st.queue, st.api, imported.Rows, func(r *order.Record) {
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
