package console

import (
	"strings"
	"time"

	"orderpost/internal/deadletter"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

type overviewPage struct {
	*snapshot
	Gate    gateState
	Advice  string // about missing streams
	Chart   chart
	Totals  []outcomeCount
	Settled int
	Behind  bool
	// Letters are the dead letters by outcome.
	Letters  []outcomeCount
	Unknown  int
	Totaling deadletter.LetterTotals
	Awaiting awaiting
}

type outcomeCount struct {
	Outcome order.Outcome
	N       int
}

func showOverview(v *visit) error {
	now := time.Now().UTC()
	snap := v.s.watch.look(v.Context())
	minutes, behind := v.s.watch.minutes.last(now)
	p := overviewPage{snapshot: snap, Gate: gateOf(snap), Chart: newChart(minutes), Behind: behind}
	if len(snap.Missing) > 0 {
		p.Advice = queue.DescribeMissing(snap.Missing)
	}
	for _, o := range order.Outcomes() {
		n := 0
		for _, m := range minutes {
			n += m.Outcomes[o]
		}
		p.Totals = append(p.Totals, outcomeCount{o, n})
		p.Settled += n
	}
	p.Totaling = seeLetters(v).Totals()
	p.Unknown = p.Totaling.Outcomes[order.OutcomeUnknown]
	for _, o := range order.Outcomes() {
		if n := p.Totaling.Outcomes[o]; n > 0 {
			p.Letters = append(p.Letters, outcomeCount{o, n})
		}
	}
	p.Awaiting = awaitingOf(v, snap.Approvals)
	p.Gate.Steer = v.may(Operator)
	v.live = true
	return v.render("overview", "Overview", p)
}

// gateState says whether the fleet sends, and why not.
type gateState struct {
	// Word is open, held, closed or nobody.
	Word string
	// Tone is the word's colour: good, warn or bad.
	Tone string
	// Says is one sentence.
	Says string
	// Reasons are the workers' own words.
	Reasons []string
	// Steer: the person may hold, resume and limit.
	Steer bool
}

// gateOf reads the gate of the whole fleet.
func gateOf(s *snapshot) gateState {
	f := s.Fleet
	if h := f.Hold; h != nil {
		g := gateState{Word: "held", Tone: "warn", Says: "Held by " + somebody(h.By) + " since " + stamp(h.Since)}
		if h.For > 0 {
			g.Says += ", " + h.Lasts() + " of a worker's running time."
		} else {
			g.Says += ", until somebody resumes it."
		}
		if h.Reason != "" {
			g.Reasons = append(g.Reasons, h.Reason)
		}
		return g
	}
	if len(f.Unreadable) > 0 {
		return gateState{Word: "held", Tone: "bad", Says: "The workers hold, because the bucket has entries that this version cannot read: " +
			strings.Join(f.Unreadable, ", ") + ". Resume and set the limit again to replace them."}
	}
	if len(s.Workers) == 0 {
		return gateState{Word: "nobody", Tone: "bad", Says: "No worker is running, so no order is sent."}
	}
	open := 0
	for _, p := range s.Workers {
		if p.Open {
			open++
		}
	}
	reasons := fleet.Reasons(s.Workers) // an open worker has none
	switch {
	case open == len(s.Workers):
		return gateState{Word: "open", Tone: "good", Says: plural(open, "worker sends", "workers send") + " orders."}
	case open > 0:
		return gateState{Word: "closed", Tone: "warn", Says: plural(len(s.Workers)-open, "worker", "workers") + " of " + count(len(s.Workers)) + " cannot send now.", Reasons: reasons}
	default:
		return gateState{Word: "closed", Tone: "bad", Says: "No order is sent now.", Reasons: reasons}
	}
}

func somebody(name string) string {
	if name == "" {
		return "somebody"
	}
	return name
}

// The size of a chart in its own units. The style sheet scales it.
const (
	chartWidth  = 600
	chartHeight = 120
	chartStep   = chartWidth / hour
)

// chart is orders settled per minute as bars: accepted ones below, others above.
type chart struct {
	Bars []bar
	// Most is the highest bar's number, rounded up to a number for the axis.
	Most  int
	Begin time.Time
	End   time.Time
	Rows  []chartRow
}

type bar struct {
	X, Y, H       int
	OtherY, Other int
}

// chartRow is a row of the table behind the chart: ten minutes.
type chartRow struct {
	From, To                 time.Time
	Accepted, Others, Unsure int
}

func newChart(minutes [hour]minute) chart {
	c := chart{Begin: minutes[0].At, End: minutes[hour-1].At.Add(time.Minute)}
	for _, m := range minutes {
		c.Most = max(c.Most, m.Total())
	}
	c.Most = axis(c.Most)
	for i, m := range minutes {
		if i%10 == 0 {
			c.Rows = append(c.Rows, chartRow{From: m.At})
		}
		accepted := m.Outcomes[order.OutcomeAccepted]
		row := &c.Rows[len(c.Rows)-1]
		row.To = m.At.Add(time.Minute)
		row.Accepted += accepted
		row.Unsure += m.Outcomes[order.OutcomeUnknown]
		row.Others += m.Total() - accepted - m.Outcomes[order.OutcomeUnknown]
		if m.Total() == 0 {
			continue
		}
		good, other := scale(accepted, c.Most), scale(m.Total()-accepted, c.Most)
		c.Bars = append(c.Bars, bar{X: i * chartStep, Y: chartHeight - good, H: good, OtherY: chartHeight - good - other, Other: other})
	}
	return c
}

// scale returns the height of n. What is not nothing is seen.
func scale(n, most int) int {
	if n == 0 {
		return 0
	}
	return max(1, n*chartHeight/most)
}

// axis rounds up to 1, 2 or 5 times a power of ten.
func axis(n int) int {
	for unit := 1; ; unit *= 10 {
		for _, k := range []int{1, 2, 5} {
			if k*unit >= n {
				return k * unit
			}
		}
	}
}
