package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"orderpost/internal/cli"
)

// report is all that a run found.
type report struct {
	Date    string  `json:"date"`
	Machine string  `json:"machine"`
	Store   string  `json:"store"`
	Broker  string  `json:"broker"`
	HTTPS   bool    `json:"https"`
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

// compare is the table of a case in which contenders did the same. Ratios are to the
// usual worker.
func compare(title string, trials []trial, outcomes [][]outcome) table {
	rate, sum := func(o outcome) float64 { return o.Rate }, outcome.sum
	t := table{Title: title, Columns: []string{"contender", "orders/s", "of the usual", "worker CPU µs/order", "brokers", "sum", "of the usual", "peak MB", "API CPU µs/order"}}
	base := slices.IndexFunc(trials, func(t trial) bool { return t.contender == usual })
	held := func(i int, value func(outcome) float64) string {
		if base < 0 {
			return "–"
		}
		return number("%.2f", ratio(outcomes[i], outcomes[base], value))
	}
	for i, trial := range trials {
		of := outcomes[i]
		name := trial.contender
		t.Outcomes = append(t.Outcomes, named{name, of})
		if len(measured(of)) == 0 {
			t.row(name, failure(of))
			continue
		}
		t.row(name+remark(of), number("%.0f", each(of, rate)), held(i, rate), number("%.1f", each(of, func(o outcome) float64 { return o.CPU })),
			number("%.1f", each(of, func(o outcome) float64 { return o.BrokerCPU })), number("%.1f", each(of, sum)), held(i, sum),
			number("%.0f", each(of, func(o outcome) float64 { return o.Peak })), number("%.1f", each(of, func(o outcome) float64 { return o.SinkCPU })))
	}
	return t
}

// compareTransit is the table of the latency case. Ratios are to the first.
func compareTransit(title string, trials []trial, outcomes [][]outcome) table {
	t := table{Title: title, Columns: []string{"contender", "p50 ms", "of the first", "p99 ms", "of the first", "worker CPU µs/order", "brokers"}}
	p50, p99 := func(o outcome) float64 { return quantile(o.Transit, 0.5) }, func(o outcome) float64 { return quantile(o.Transit, 0.99) }
	for i, trial := range trials {
		of := outcomes[i]
		t.Outcomes = append(t.Outcomes, named{trial.contender, of})
		if len(measured(of)) == 0 {
			t.row(trial.contender, failure(of))
			continue
		}
		t.row(trial.contender+remark(of), number("%.2f", each(of, p50)), number("%.2f", ratio(of, outcomes[0], p50)),
			number("%.2f", each(of, p99)), number("%.2f", ratio(of, outcomes[0], p99)),
			number("%.1f", each(of, func(o outcome) float64 { return o.CPU })), number("%.1f", each(of, func(o outcome) float64 { return o.BrokerCPU })))
	}
	return t
}

// measured are the outcomes of the trials that did not fail.
func measured(of []outcome) []outcome {
	return slices.DeleteFunc(slices.Clone(of), func(o outcome) bool { return o.Failed != "" })
}

// failure is the cell of a row without figures.
func failure(of []outcome) string {
	for _, o := range of {
		if o.Failed != "" {
			return o.Failed
		}
	}
	return "not tried"
}

// remark says of a row with figures that some of its trials failed.
func remark(of []outcome) string {
	if failed := len(of) - len(measured(of)); failed > 0 {
		return fmt.Sprintf(" (%d of %d %s)", failed, len(of), failure(of))
	}
	return ""
}

// number is a figure, or a dash where there is none.
func number(format string, value float64) string {
	if math.IsNaN(value) {
		return "–"
	}
	return fmt.Sprintf(format, value)
}

// each is the median over the rounds.
func each(of []outcome, value func(outcome) float64) float64 {
	return median(values(of, value))
}

func values(of []outcome, value func(outcome) float64) (list []float64) {
	for _, o := range measured(of) {
		list = append(list, value(o))
	}
	return list
}

// ratio is the median of the ratios of the rounds in which neither failed.
func ratio(of, to []outcome, value func(outcome) float64) float64 {
	var list []float64
	for i := range min(len(of), len(to)) {
		if of[i].Failed == "" && to[i].Failed == "" {
			list = append(list, value(of[i])/value(to[i]))
		}
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

func least(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return slices.Min(list)
}

func most(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return slices.Max(list)
}

// quantile of a sorted list, by the nearest rank.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func (r *report) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return cli.PrintReport(out, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s.\nBrokers of the cases in memory: %s, store in %s.\n", r.Date, r.Machine, r.Broker, r.Store)
	if r.HTTPS {
		b.WriteString("Orders were posted over TLS.\n")
	}
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "\n**%s**\n\n| %s |\n|%s\n", t.Title, strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
		for _, row := range t.Rows {
			row = append(slices.Clone(row), make([]string, max(0, len(t.Columns)-len(row)))...)
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
