package console

import (
	"time"

	"orderpost/internal/order"
)

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
	Class         string
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
