package chaos

import (
	"math"
	"slices"
)

// point is one value of a measure. Hours count from the beginning of its series.
type point struct{ Hours, Value float64 }

// trend is the slope of a measure over several series, each of which has its own level:
// the pieces of a soak, in each of which the processes start anew.
type trend struct {
	// PerHour is the median of the slopes between any two points of the same series
	// (Theil and Sen), and Low and High enclose it with 95% confidence (the seasonal
	// Kendall test, whose seasons are the series). A few wild values move none of
	// them.
	PerHour float64 `json:"per_hour"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Points  int     `json:"points"`
	// Level is the median of all values, Hours the time that the series cover.
	Level float64 `json:"level"`
	Hours float64 `json:"hours"`
}

// minPoints is the least number of points that a trend is drawn from.
const minPoints = 8

// trendOf returns the trend. ok is false if there are too few points.
func trendOf(all [][]point) (t trend, ok bool) {
	var slopes, values []float64
	variance := 0.0
	for _, series := range all {
		for i, a := range series {
			values = append(values, a.Value)
			for _, b := range series[i+1:] {
				slopes = append(slopes, (b.Value-a.Value)/(b.Hours-a.Hours))
			}
		}
		if n := len(series); n > 1 {
			variance += float64(n*(n-1)*(2*n+5)) / 18
			t.Hours += series[n-1].Hours - series[0].Hours
		}
	}
	t.Points = len(values)
	if t.Points < minPoints || len(slopes) == 0 {
		return t, false
	}
	slices.Sort(slopes)
	slices.Sort(values)
	const z = 1.96
	half := z * math.Sqrt(variance) / 2
	middle := float64(len(slopes)-1) / 2
	t.PerHour, t.Level = quantile(slopes, middle), quantile(values, float64(len(values)-1)/2)
	t.Low, t.High = quantile(slopes, middle-half), quantile(slopes, middle+half)
	return t, true
}

// quantile returns the value at a rank of a sorted list, between two values if need be.
func quantile(sorted []float64, rank float64) float64 {
	rank = min(max(rank, 0), float64(len(sorted)-1))
	below := int(rank)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (sorted[above]-sorted[below])*(rank-float64(below))
}

// measure is what a soak watches, and what counts as flat.
type measure struct {
	name string
	// perHour is the rise per hour that counts as flat: a share of the level and a
	// constant.
	share, perHour float64
	// noise is a rise that a process shows without any leak, for instance when the
	// machine slows down and all slots are taken. A measure grows only if it rose by
	// more than that.
	noise float64
}

// measures lists the measures by their names.
var measures = []measure{
	{"live heap MiB", 0.02, 1, 8},
	{"resident MiB", 0.02, 2, 64},
	{"goroutines", 0.02, 1, 100},
	{"file descriptors", 0.02, 1, 100},
	{"disk MiB", 0.02, 1, 32},
	{"p50 ms", 0.10, 5, 25},
	{"p99 ms", 0.25, 50, 250},
}

func measureNamed(name string) measure {
	return measures[slices.IndexFunc(measures, func(m measure) bool { return m.name == name })]
}

// The words for a trend.
const (
	flat      = "flat"
	grows     = "grows"
	undecided = "undecided" // too short, or too wild, to say
)

// word says what a trend is. It grows if even the low end of its interval exceeds what
// counts as flat, and by that the measure rose by more than noise. It is flat if even
// the high end does not exceed it.
func (m measure) word(t trend) string {
	allowed := m.perHour + m.share*t.Level
	switch {
	case t.Low > allowed && t.Low*t.Hours > m.noise:
		return grows
	case t.High <= allowed:
		return flat
	default:
		return undecided
	}
}
