package chaos

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/order"
	"orderpost/proof/oracle"
)

const judgeText = `judge reads a history that "chaos --history FILE" wrote, and judges it by the invariants of the simulation
(docs/reliability.md). It names each order that nothing explains, with the rule of docs/protocol.md that is
broken and the lines of the history.

Exit codes: 0 the history shows no defect; 1 it does, or it shows nothing; 2 wrong usage or no history.`

// newJudge returns the command that judges a history again.
func newJudge(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "judge FILE", Short: "Judge a history that --history wrote", Long: judgeText, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := judge(args[0])
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			if err := v.print(stdout); err != nil {
				return err
			}
			return v.err()
		},
	}
}

// verdict is the result of judging a history.
type verdict struct {
	file   string
	events int
	lines  [][]byte
	*oracle.Oracle
	byOrder map[string][]int // lines
}

// openHistory begins the history of the run, with --history.
func (r *rig) openHistory() (err error) {
	if r.o.history == "" {
		return nil
	}
	policy := order.Resubmit
	if r.o.policy == parkPolicy {
		policy = order.Park
	}
	r.history, err = newHistory(r.o.history, oracle.Settings{Policy: policy, AckWait: ackWait, Replicated: r.o.broker == clusterBroker, Command: r.o.command})
	r.intents.history = r.history
	return err
}

// workerLogs returns the processes whose logs tell of deliveries and requests.
func (r *rig) workerLogs() (all []*process) {
	for _, w := range r.workers {
		all = append(all, w.process)
	}
	return all
}

// found judges the run's history and prints the result. With a planted fault it
// returns an error if the history does not show it, otherwise if it shows a defect.
func (o *options) found(out io.Writer) error {
	if o.history == "" {
		return nil
	}
	v, err := judge(o.history)
	if err != nil {
		return err
	}
	if err := v.print(out); err != nil {
		return err
	}
	switch {
	case o.plant == "":
		return v.err()
	case len(v.Findings) == 0:
		return fmt.Errorf("the fault %s was planted, and the history does not show it", o.plant)
	default:
		_, err = fmt.Fprintf(out, "\nthe planted fault %s was found: %d findings\n", o.plant, len(v.Findings))
		return err
	}
}

// judge judges the history in a file.
func judge(path string) (*verdict, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	events, err := oracle.Read(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	v := &verdict{file: path, events: len(events), Oracle: oracle.Judge(events)}
	if len(v.Findings) == 0 {
		return v, nil
	}
	v.lines, v.byOrder = bytes.Split(text, []byte{'\n'}), make(map[string][]int)
	deliveries := make(map[string]string) // the order of each delivery
	for _, e := range events {
		if e.Kind == oracle.Delivered {
			deliveries[e.Reply] = e.OrderNo
		}
	}
	for _, e := range events {
		no := e.OrderNo
		if no == "" {
			no = deliveries[e.Reply]
		}
		v.byOrder[no] = append(v.byOrder[no], e.Line)
	}
	return v, nil
}

// err returns an error if the history shows a defect or nothing.
func (v *verdict) err() error {
	switch c := &v.Counts; {
	case len(v.Findings) > 0:
		return fmt.Errorf("%s: %d findings, the first: %s (%s)", v.file, len(v.Findings), v.Findings[0], v.Findings[0].Rule())
	case c.Deliveries == 0 || c.Posts == 0 || c.Records == 0 || c.Acknowledged == 0:
		return fmt.Errorf("%s: %d deliveries, %d requests, %d records, %d acknowledgements: this history shows nothing", v.file, c.Deliveries, c.Posts, c.Records, c.Acknowledged)
	default:
		return nil
	}
}

const (
	// maxPrinted is how many findings are printed in full, and maxAround how many lines
	// about the order beside those that the finding names.
	maxPrinted = 20
	maxAround  = 40
)

// print prints the counts and the findings, with the lines about their orders in the
// order of their times.
func (v *verdict) print(out io.Writer) error {
	c := &v.Counts
	_, err := fmt.Fprintf(out, "history %s: %d events; %d orders, %d deliveries, %d requests, %d records (%d overwritten unseen), %d acknowledgements\n"+
		"documented pauses %d, late hand-backs %d, late outcomes %d, overlaps after a start %d; outcomes",
		v.file, v.events, c.Orders, c.Deliveries, c.Posts, c.Records, c.Unseen, c.Acknowledged, c.Pauses, c.LateHandBacks, c.LateOutcomes, c.Overlaps)
	for _, o := range order.Outcomes() {
		if n := c.Outcomes[o]; n > 0 {
			_, _ = fmt.Fprintf(out, " %s:%d", o, n)
		}
	}
	_, _ = fmt.Fprintf(out, "\nbroken invariants: %d\n", len(v.Findings))
	for _, f := range v.Findings[:min(len(v.Findings), maxPrinted)] {
		_, _ = fmt.Fprintf(out, "\n%s: %s\n", f.Rule(), f)
		all := v.byOrder[f.OrderNo]
		for i, n := range all {
			if named := slices.Contains(f.Lines, n); named || i < maxAround {
				_, _ = fmt.Fprintf(out, "%s line %d: %s\n", map[bool]string{true: " *", false: "  "}[named], n, shortened(v.lines[n-1]))
			}
		}
	}
	return err
}

// shortened returns the beginning of a line.
func shortened(line []byte) []byte {
	const most = 600
	if len(line) <= most {
		return line
	}
	return append(slices.Clip(line[:most]), "…"...)
}
