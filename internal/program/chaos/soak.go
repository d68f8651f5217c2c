package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// soakFigure is the course of one measure of one worker.
type soakFigure struct {
	Worker  string  `json:"worker"`
	Measure string  `json:"measure"`
	First   float64 `json:"first"`
	Last    float64 `json:"last"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	// PerHour is the slope of the least-squares line through all samples.
	PerHour float64 `json:"per_hour"`
	// FloorBefore and FloorAfter are the lowest values of the first and the second
	// half. Other values depend on the orders in hand and the load of the machine. A
	// leak raises the floor.
	FloorBefore float64 `json:"floor_before"`
	FloorAfter  float64 `json:"floor_after"`
	// Grows says that the floor rose by more than the measure allows.
	Grows bool `json:"grows"`
}

// The measures of a soak in the order of sample, and how much each floor may rise from
// the first half to the second: a share of it plus a constant.
var measures = [...]struct {
	name            string
	share, constant float64
}{
	{"resident MiB", 0.15, 8},
	{"goroutines", 0.05, 10},
	{"file descriptors", 0.05, 5},
}

type sample [len(measures)]float64

// warmUp is ignored at the beginning, while pools and caches fill.
const warmUp = 30 * time.Second

// soak produces orders at a steady rate without faults and samples each worker every few
// seconds.
func (r *rig) soak(ctx context.Context) (*summary, error) {
	started := time.Now()
	s := r.newSummary()
	enough := make(chan struct{})
	produced := make(chan error, 1)
	go func() { produced <- r.produce(ctx, enough) }()
	series, at := make([][]sample, len(r.workers)), []time.Duration(nil)
	every := min(10*time.Second, r.o.soak/12)
	for next := min(warmUp, r.o.soak/4); next <= r.o.soak; next += every {
		if err := pause(ctx, time.Until(started.Add(next))); err != nil {
			return s, err
		}
		at = append(at, time.Since(started))
		for i, w := range r.workers {
			one, err := w.sample(ctx)
			if err != nil {
				return s, fmt.Errorf("%s: %w", w.name, err)
			}
			series[i] = append(series[i], one)
		}
	}
	close(enough)
	for i, w := range r.workers {
		s.Soak = append(s.Soak, figures(w.name, at, series[i])...)
	}
	if err := <-produced; err != nil {
		return s, err
	}
	if err := r.untilQuiet(ctx); err != nil {
		return s, err
	}
	return s, r.balance(ctx, s, started)
}

// figures summarizes the samples of one worker.
func figures(worker string, at []time.Duration, samples []sample) []soakFigure {
	var out []soakFigure
	for m, measure := range measures {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = s[m]
		}
		f := soakFigure{Worker: worker, Measure: measure.name, First: values[0], Last: values[len(values)-1], Min: values[0], Max: values[0]}
		for _, v := range values {
			f.Min, f.Max = min(f.Min, v), max(f.Max, v)
		}
		f.PerHour = slope(at, values)
		f.FloorBefore, f.FloorAfter = slices.Min(values[:len(values)/2]), slices.Min(values[len(values)/2:])
		f.Grows = f.FloorAfter > f.FloorBefore*(1+measure.share)+measure.constant
		out = append(out, f)
	}
	return out
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// slope returns the slope of the least-squares line per hour.
func slope(at []time.Duration, values []float64) float64 {
	hours := make([]float64, len(at))
	for i, d := range at {
		hours[i] = d.Hours()
	}
	x, y := mean(hours), mean(values)
	var up, down float64
	for i := range values {
		up += (hours[i] - x) * (values[i] - y)
		down += (hours[i] - x) * (hours[i] - x)
	}
	if down == 0 {
		return 0
	}
	return up / down
}

// sample measures the worker's process and reads its number of goroutines.
func (m *member) sample(ctx context.Context) (s sample, err error) {
	proc := filepath.Join("/proc", strconv.Itoa(m.pid()))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return s, err
	}
	kib, err := field(strings.NewReader(string(status)), "VmRSS:")
	if err != nil {
		return s, err
	}
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return s, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.ops+"/metrics", nil)
	if err != nil {
		return s, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer func() { _ = res.Body.Close() }()
	goroutines, err := field(res.Body, "go_goroutines")
	return sample{kib / 1024, goroutines, float64(len(fds))}, err
}

// field returns the number after a name at the beginning of a line.
func field(text io.Reader, name string) (float64, error) {
	for lines := bufio.NewScanner(text); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == name {
			return strconv.ParseFloat(words[1], 64)
		}
	}
	return 0, fmt.Errorf("there is no %s", name)
}

func printSoak(out io.Writer, all []soakFigure) {
	if len(all) == 0 {
		return
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "worker\tmeasure\tfirst\tlast\tmin\tmax\tper hour\tfloor, 1st half\t2nd half\tgrows\t")
	for _, f := range all {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%+.1f\t%.1f\t%.1f\t%v\t\n", f.Worker, f.Measure, f.First, f.Last, f.Min, f.Max, f.PerHour, f.FloorBefore, f.FloorAfter, f.Grows)
	}
	_ = t.Flush()
}
