package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// report is all that a run found.
type report struct {
	Date    string  `json:"date"`
	Machine string  `json:"machine"`
	Store   string  `json:"store"`
	Broker  string  `json:"broker"`
	Tables  []table `json:"tables"`
}

// table is one case as it is printed, and the figures behind it.
type table struct {
	Title    string     `json:"title"`
	Columns  []string   `json:"columns"`
	Rows     [][]string `json:"rows"`
	Outcomes []named    `json:"outcomes"`
}

type named struct {
	Name   string    `json:"name"`
	Rounds []outcome `json:"rounds"`
}

func (t *table) row(cells ...string) { t.Rows = append(t.Rows, cells) }

// compare is the table of a case in which contenders did the same. Ratios are
// to the bare net/http loop.
func compare(title string, trials []trial, outcomes [][]outcome) table {
	t := table{Title: title, Columns: []string{"contender", "orders/s", "of the bare net/http loop", "CPU µs/order", "of the bare net/http loop", "peak MB", "broker CPU µs/order", "API CPU µs/order"}}
	base := outcomes[slices.IndexFunc(trials, func(t trial) bool { return t.contender == bareNet })]
	rate, cpu := func(o outcome) float64 { return o.Rate }, func(o outcome) float64 { return o.CPU }
	for i, trial := range trials {
		of := outcomes[i]
		t.row(trial.contender, fmt.Sprintf("%.0f", each(of, rate)), fmt.Sprintf("%.2f", ratio(of, base, rate)),
			fmt.Sprintf("%.1f", each(of, cpu)), fmt.Sprintf("%.2f", ratio(of, base, cpu)),
			fmt.Sprintf("%.0f", each(of, func(o outcome) float64 { return o.Peak })),
			fmt.Sprintf("%.1f", each(of, func(o outcome) float64 { return o.BrokerCPU })),
			fmt.Sprintf("%.1f", each(of, func(o outcome) float64 { return o.SinkCPU })))
		t.Outcomes = append(t.Outcomes, named{trial.contender, of})
	}
	return t
}

// compareTransit is the table of the latency case. Ratios are to the first.
func compareTransit(title string, trials []trial, outcomes [][]outcome) table {
	t := table{Title: title, Columns: []string{"contender", "p50 ms", "of the usual worker", "p99 ms", "of the usual worker", "CPU µs/order"}}
	p50, p99 := func(o outcome) float64 { return quantile(o.Transit, 0.5) }, func(o outcome) float64 { return quantile(o.Transit, 0.99) }
	for i, trial := range trials {
		of := outcomes[i]
		t.row(trial.contender, fmt.Sprintf("%.2f", each(of, p50)), fmt.Sprintf("%.2f", ratio(of, outcomes[0], p50)),
			fmt.Sprintf("%.2f", each(of, p99)), fmt.Sprintf("%.2f", ratio(of, outcomes[0], p99)),
			fmt.Sprintf("%.1f", each(of, func(o outcome) float64 { return o.CPU })))
		t.Outcomes = append(t.Outcomes, named{trial.contender, of})
	}
	return t
}

// each is the median over the rounds.
func each(of []outcome, value func(outcome) float64) float64 {
	list := make([]float64, len(of))
	for i, o := range of {
		list[i] = value(o)
	}
	return median(list)
}

// ratio is the median of the rounds' ratios.
func ratio(of, to []outcome, value func(outcome) float64) float64 {
	list := make([]float64, len(of))
	for i := range of {
		list[i] = value(of[i]) / value(to[i])
	}
	return median(list)
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(list))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// quantile of a sorted list, by the nearest rank.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func least(list []int) int { return slices.Min(list) }
func most(list []int) int  { return slices.Max(list) }

func (r *report) print(out io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s.\nBroker of all contenders: %s, store in %s.\n", r.Date, r.Machine, r.Broker, r.Store)
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "\n**%s**\n\n| %s |\n|%s\n", t.Title, strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
		for _, row := range t.Rows {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
