package bench

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"orderpost/proof/bench/contender"
	"orderpost/proof/bench/syncs"
)

// defaultSlots is the default of ORDERPOST_CONCURRENCY. The other job queues get as many.
const defaultSlots = 64

// system is what works the orders off in the durable case.
type system struct {
	name   string
	folder string // that its data folders are made in
	run    func(ctx context.Context, d *durableTrial) error
}

// durable is the README's way: a file of orders, the enqueue command, and a worker with
// the broker inside, which fsyncs every write, on a disk. Everything is by default.
func durable(ctx context.Context, r *rig) ([]table, error) {
	disk, err := os.MkdirTemp(r.disk, "orderpost-bench-disk-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(disk) }()
	if err := os.Chmod(disk, 0o711); err != nil { // Postgres runs as another user
		return nil, err
	}
	c := &durableCase{rig: r, orders: r.ordersOf(20_000), file: filepath.Join(r.dir, "orders.ndjson")}
	if err := writeOrders(c.file, c.orders); err != nil {
		return nil, err
	}
	c.enter(disk)
	var attempts []attempt
	for _, row := range c.rows {
		attempts = append(attempts, attempt{row.name + ", fsync: " + row.delay.String(), func(ctx context.Context, round int) (outcome, error) {
			return c.try(ctx, row)
		}})
	}
	outcomes, err := r.interleave(ctx, "durable", attempts)
	if err != nil {
		return nil, err
	}
	return []table{c.table(outcomes)}, nil
}

// durableCase is a run of the case.
type durableCase struct {
	*rig
	orders int
	file   string // of the orders, one a line
	rows   []durableRow
	fsyncs []float64 // what one of the disk's takes, in microseconds
}

type durableRow struct {
	system
	delay fsyncDelay
}

const inMemory = ours + ", store in memory"

// enter makes the rows: every system at every delay. Ours runs in memory, too, once
// unwatched and once watched, since no delay slows that down.
func (c *durableCase) enter(disk string) {
	systems := map[string][]system{
		ours:          {{ours, disk, runOurs()}, {ours + ", park", disk, runOurs("ORDERPOST_ON_UNSURE=park")}},
		servers:       {{ours + ", a server", disk, runOursOnServers(1)}, {ours + ", three servers and replicas", disk, runOursOnServers(clusterSize)}},
		riverPostgres: {{riverPostgres, disk, runRiverPostgres}},
		riverSQLite:   {{riverSQLite, disk, runRiverSQLite}},
		asynqRedis:    {{asynqRedis, disk, runAsynq}},
	}
	watched := false
	for _, delay := range c.delays {
		for _, name := range c.entered(ours, servers, riverPostgres, riverSQLite, asynqRedis) {
			for _, s := range systems[name] {
				c.rows = append(c.rows, durableRow{s, delay})
			}
			if name == ours && (delay == unwatched || !watched) {
				c.rows = append(c.rows, durableRow{system{inMemory, c.store, runOurs()}, min(delay, 0)})
				watched = watched || delay != unwatched
			}
		}
	}
}

// durableTrial is one system's working-off of the file.
type durableTrial struct {
	*stage
	dir          string // the system's own folder
	file         string
	delay        fsyncDelay
	watched      []watched // empty if unwatched
	began, ended time.Time
	freed        float64 // see outcome
}

// watched is a process whose fsyncs are counted.
type watched struct {
	*syncs.Watch
	root string // what is synced is named from here
}

// start starts a process of the system that syncs nothing. It is not watched, which would
// make it slower.
func (d *durableTrial) start(name string, env []string, command ...string) (*process, error) {
	return d.launch(name, env, exec.Command(command[0], command[1:]...), (*exec.Cmd).Start)
}

func (d *durableTrial) launch(name string, env []string, cmd *exec.Cmd, launch func(*exec.Cmd) error) (*process, error) {
	p, err := startCommand(d.rig.dir, name, env, cmd, launch)
	if err != nil {
		return nil, err
	}
	d.workers = append(d.workers, p)
	return p, nil
}

// startWatched starts a process of the system that syncs files below root. Its fsyncs count,
// and are delayed, unless the trial is unwatched.
func (d *durableTrial) startWatched(name, root string, env []string, command ...string) (*process, error) {
	if d.delay == unwatched {
		return d.start(name, env, command...)
	}
	w := &syncs.Watch{Delay: time.Duration(d.delay)}
	d.watched = append(d.watched, watched{w, root})
	p, err := d.launch(name, env, exec.Command(d.self, append([]string{watchedCommand}, command...)...), w.Start)
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("%w: %w", errLeftOut, err)
	}
	return p, err
}

// memoryFsync is more than an fsync takes in memory, and less than on any disk.
const memoryFsync = 50 * time.Microsecond

// try runs one system once, in a fresh folder, with a fresh API.
func (c *durableCase) try(ctx context.Context, row durableRow) (out outcome, err error) {
	d := &durableTrial{stage: &stage{rig: c.rig, trial: trial{orders: c.orders}}, file: c.file, delay: row.delay}
	if d.dir, err = os.MkdirTemp(row.folder, "trial-*"); err != nil {
		return out, err
	}
	defer func() { _ = os.RemoveAll(d.dir) }()
	took, err := timeFsync(d.dir)
	switch {
	case err != nil:
		return out, err
	case row.folder != c.store:
		c.fsyncs = append(c.fsyncs, micros(took))
	case took > memoryFsync:
		return out, fmt.Errorf("%w: an fsync in %s takes %s, so that is no memory: name a tmpfs with --store", errLeftOut, c.store, took)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w%s", err, d.lastWords(errorLines, ""))
		}
		d.end()
	}()
	if d.api, err = d.startAPI(ctx, contender.SinkOptions{Warm: 1}); err != nil {
		return out, err
	}
	if err := row.run(ctx, d); err != nil {
		return out, err
	}
	return d.measure(ctx)
}

// measure ends every process and reads what it used.
func (d *durableTrial) measure(ctx context.Context) (out outcome, err error) {
	seen, err := d.api.seen(ctx, false)
	if err != nil {
		return out, err
	}
	if seen.Refused > 0 || seen.Orders < int64(d.orders) {
		return out, fmt.Errorf("the API saw %d orders of %d, and refused %d signatures", seen.Orders, d.orders, seen.Refused)
	}
	out.Freed = d.freed
	out.Rate = float64(d.orders) / d.ended.Sub(d.began).Seconds()
	for _, p := range slices.Backward(d.workers) { // a client before its database
		if err := p.stop(); err != nil {
			return out, err
		}
		out.CPU += micros(p.cpu()) / float64(d.orders)
	}
	for _, w := range d.watched {
		paths, err := w.Between(d.began, d.ended)
		if err != nil {
			return out, err
		}
		if out.Fsyncs == nil {
			out.Fsyncs = make(map[string]float64)
		}
		for _, path := range paths {
			out.Fsyncs[syncedPart(path, w.root)] += 1 / float64(d.orders)
		}
	}
	return out, nil
}

// syncedPart names a stream, or the file or folder in root that a path lies in.
func syncedPart(path, root string) string {
	rest := strings.TrimPrefix(path, root+string(filepath.Separator))
	if _, stream, ok := strings.Cut(path, "/streams/"); ok {
		rest = stream
	}
	if path == root {
		return "folder"
	}
	part, _, _ := strings.Cut(rest, "/")
	return part
}

// writeOrders writes the file of orders, one a line.
func writeOrders(path string, n int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	w := bufio.NewWriter(file)
	now := time.Now()
	for i := range n {
		_, _ = w.Write(append(contender.Order(i, now), '\n')) // Flush returns the error
	}
	return w.Flush()
}

// table is the table of the case.
func (c *durableCase) table(outcomes [][]outcome) table {
	t := table{Title: fmt.Sprintf("Durable: %d orders, from the start of enqueue until every outcome is stored; %d in flight; one fsync of this disk takes %.2f ms (%.2f to %.2f)",
		c.orders, defaultSlots, median(c.fsyncs)/1000, least(c.fsyncs)/1000, most(c.fsyncs)/1000),
		Columns: []string{"system", "an fsync takes", "orders/s: min", "median", "max", "of " + inMemory, "fsyncs/order", "of which", "CPU µs/order", "free again, p99 s"}}
	rate := func(o outcome) float64 { return o.Rate }
	for i, row := range c.rows {
		of := outcomes[i]
		t.Outcomes = append(t.Outcomes, named{row.name + ", fsync: " + row.delay.String(), of})
		if len(measured(of)) == 0 {
			t.row(row.name, row.delay.String(), failure(of))
			continue
		}
		share := "–"
		if base := c.base(row); base >= 0 {
			share = number("%.2f", ratio(of, outcomes[base], rate))
		}
		rates := values(of, rate)
		t.row(row.name+remark(of), row.delay.String(), number("%.0f", least(rates)), number("%.0f", median(rates)), number("%.0f", most(rates)), share,
			number("%.3f", each(of, outcome.fsyncs)), ofWhich(of), number("%.0f", each(of, func(o outcome) float64 { return o.CPU })),
			number("%.2f", each(of, outcome.freed)))
	}
	return t
}

// base is the row in memory that was watched if row was, or -1.
func (c *durableCase) base(row durableRow) int {
	return slices.IndexFunc(c.rows, func(b durableRow) bool {
		return b.name == inMemory && (b.delay == unwatched) == (row.delay == unwatched)
	})
}

// ofWhich lists the fsyncs of an order by what was synced, the most first. What hardly
// counts is left out.
func ofWhich(of []outcome) string {
	all := make(map[string]float64)
	for _, o := range measured(of) {
		for part := range o.Fsyncs {
			all[part] = each(of, func(o outcome) float64 { return o.Fsyncs[part] })
		}
	}
	parts := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Compare(all[b], all[a]) })
	var list []string
	for _, part := range parts {
		if all[part] >= 0.001 {
			list = append(list, fmt.Sprintf("%s %.3f", part, all[part]))
		}
	}
	return strings.Join(list, ", ")
}
