package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"orderpost/internal/order"
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
	row("  dead letters\t%d", s.DeadLetters)
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
	if s.Example != "" {
		say("A dead letter: %s: %s", s.ExampleNo, s.Example)
	}
	if s.DataDir != "" {
		say("The data is kept in %[1]s. To look at a dead letter:\n  ORDERPOST_DATA_DIR=%[1]s go run ./cmd/enqueue order %[2]s", s.DataDir, s.ExampleNo)
	} else {
		say("To look at dead letters, keep the data:\n  go run ./cmd/demo --data demo-data\n  ORDERPOST_DATA_DIR=demo-data go run ./cmd/enqueue order %s", s.ExampleNo)
	}
	say("To post to a real API:\n  ORDERPOST_API_URL=https://api.example.com ORDERPOST_API_KEY=… ORDERPOST_API_SECRET=… go run ./cmd/worker\n  go run ./cmd/enqueue orders.csv")
}
