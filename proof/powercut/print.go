package powercut

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

func (r *result) table(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "model\ton unsure\tstarted\toperations\tconfirmations\tstates\trecovered\tlost\t")
	for _, row := range r.Rows {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t\n", row.Model, row.Policy, row.Start, row.Operations, row.Confirmations, row.States, row.Recovered, row.Lost)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, row := range r.Rows {
		for _, reason := range slices.Sorted(maps.Keys(row.Reasons)) {
			_, _ = fmt.Fprintf(out, "%s, %s, %s: %d x %s\n", row.Model, row.Policy, row.Start, row.Reasons[reason], reason)
		}
	}
	for _, m := range r.Minimal {
		_, _ = fmt.Fprint(out, m)
	}
	_, err := fmt.Fprintf(out, "seed %d, %.0f s\n", r.Seed, r.Seconds)
	return err
}
