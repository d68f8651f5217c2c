package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"orderpost/proof/bench/contender"
)

// scaleAnswer is how long the API's answers are in the scale case, in bytes. Results keep them.
const scaleAnswer = 100

// scale is one import into a worker with the broker inside, and what the results that it
// keeps cost afterwards.
func scale(ctx context.Context, r *rig) ([]table, error) {
	disk, err := os.MkdirTemp(r.disk, "orderpost-bench-disk-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(disk) }()
	c := &scaleCase{durableTrial: &durableTrial{stage: &stage{rig: r, trial: trial{orders: r.ordersOf(1_000_000)}}, dir: disk, file: filepath.Join(disk, "orders.ndjson"), delay: unwatched}}
	c.table = table{Title: fmt.Sprintf("Scale: %d orders of %d bytes, answers of %d bytes, a worker with the broker inside", c.orders, contender.OrderBytes, scaleAnswer),
		Columns: []string{"what", "value", "unit"}}
	defer c.end()
	for _, measure := range []func(context.Context) error{c.imported, c.restarted, c.audited, c.dryRun} {
		if err = measure(ctx); err != nil {
			err = fmt.Errorf("%w%s", err, c.lastWords(errorLines, ""))
			break
		}
	}
	return []table{c.table}, err
}

// scaleCase is a run of the case.
type scaleCase struct {
	*durableTrial
	env    []string
	addr   string // where the worker says that it is ready
	worker *process
	table  table
}

func (c *scaleCase) note(what string, value float64, unit string) {
	digits := 0
	if unit == "s" {
		digits = 1
	}
	c.table.row(what, strconv.FormatFloat(value, 'f', digits, 64), unit)
	c.say("scale: %s: %.*f %s", what, digits, value, unit)
}

func (c *scaleCase) data() string { return filepath.Join(c.dir, "data") }

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// imported takes the import's rate and memory, and what is kept of it after a rest.
func (c *scaleCase) imported(ctx context.Context) (err error) {
	if err = writeOrders(c.file, c.orders); err != nil {
		return err
	}
	if c.api, err = c.startAPI(ctx, contender.SinkOptions{Warm: 1, AnswerBytes: scaleAnswer}); err != nil {
		return err
	}
	addrs, err := freeAddrs(1)
	if err != nil {
		return err
	}
	c.addr = addrs[0]
	c.env = c.workerEnv("ORDERPOST_NATS_URL=", "ORDERPOST_DATA_DIR="+c.data(), "ORDERPOST_NATS_LISTEN=127.0.0.1:0", "ORDERPOST_OPS_ADDR="+c.addr, "ORDERPOST_PPROF=true")
	if err = c.startUntilReady(ctx); err != nil {
		return err
	}
	if c.queue, err = c.join(ctx, c.data()); err != nil {
		return err
	}
	empty, err := c.liveHeap(ctx)
	if err != nil {
		return err
	}
	c.worker.mark()
	began := time.Now()
	command, err := c.start("enqueue", c.env, c.orderpost, "enqueue", c.file)
	if err != nil {
		return err
	}
	ended, err := c.untilDone(ctx)
	if err != nil {
		return err
	}
	if <-command.done; command.err != nil {
		return fmt.Errorf("enqueue: %w", command.err)
	}
	c.queue.Close()
	c.queue = nil
	c.note("import", float64(c.orders)/ended.Sub(began).Seconds(), "orders/s")
	c.note("worker's CPU an order", micros(c.worker.used()-c.worker.before)/float64(c.orders), "µs")
	c.note("worker's peak RSS", megabytes(c.worker.memory("VmHWM")), "MB")
	c.note("worker's RSS right after", megabytes(c.worker.memory("VmRSS")), "MB")
	if err := c.worker.rest(ctx, c.rest); err != nil {
		return err
	}
	c.note(fmt.Sprintf("worker's RSS %s later", c.rest), megabytes(c.worker.memory("VmRSS")), "MB")
	live, err := c.liveHeap(ctx)
	if err != nil {
		return err
	}
	disk, err := folderSize(c.data())
	if err != nil {
		return err
	}
	c.note("live heap an order kept", float64(live-empty)/float64(c.orders), "bytes")
	c.note("disk an order kept", float64(disk)/float64(c.orders), "bytes")
	return os.Remove(c.file)
}

// restarted takes how long a worker with these results needs until it is ready.
func (c *scaleCase) restarted(ctx context.Context) error {
	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		if err := c.worker.cmd.Process.Signal(signal); err != nil {
			return err
		}
		<-c.worker.done
		began := time.Now()
		if err := c.startUntilReady(ctx); err != nil {
			return err
		}
		c.note(fmt.Sprintf("ready after a restart (%s)", signal), time.Since(began).Seconds(), "s")
	}
	return nil
}

// audited takes the audit's time, and how much larger the worker gets by it.
func (c *scaleCase) audited(ctx context.Context) error {
	if err := c.worker.rest(ctx, min(c.rest, 30*time.Second)); err != nil {
		return err
	}
	before := c.worker.memory("VmRSS")
	if err := c.worker.forgetPeak(); err != nil {
		return err
	}
	c.note("worker's RSS before the audit", megabytes(before), "MB")
	took, peak, err := c.command(ctx, "audit")
	if err != nil {
		return err
	}
	c.note("audit", took.Seconds(), "s")
	c.note("audit's peak RSS", megabytes(peak), "MB")
	c.note("worker's growth by the audit", megabytes(c.worker.memory("VmHWM")-before), "MB")
	return c.worker.stop()
}

// dryRun takes the memory of a check of as many rows with a column of JSON.
func (c *scaleCase) dryRun(ctx context.Context) error {
	path := filepath.Join(c.dir, "rows.csv")
	if err := writeRows(path, c.orders); err != nil {
		return err
	}
	took, peak, err := c.command(ctx, "enqueue", "--dry-run", "--type", "qty=int", "--type", "customer=json", path)
	if err != nil {
		return err
	}
	c.note("dry run of rows with JSON", float64(c.orders)/took.Seconds(), "rows/s")
	c.note("dry run's peak RSS", megabytes(peak), "MB")
	return nil
}

func writeRows(path string, n int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	w := bufio.NewWriter(file)
	_, _ = w.WriteString("order_no,timeout,symbol,qty,price,customer\n") // Flush returns the error
	for i := range n {
		_, _ = fmt.Fprintf(w, "%s,60,ABC-USD,%d,99.95,\"{\"\"id\"\":\"\"C-%06d\"\",\"\"country\"\":\"\"DE\"\",\"\"tags\"\":[1,2.50,true]}\"\n", contender.OrderNo(i), 1+i%9, i%1_000_000)
	}
	return w.Flush()
}

// startUntilReady starts the worker and waits until it says that it is ready.
func (c *scaleCase) startUntilReady(ctx context.Context) (err error) {
	if c.worker, err = c.start("worker", c.env, c.orderpost, "worker"); err != nil {
		return err
	}
	c.workers = []*process{c.worker}
	for {
		if _, err := c.ask(ctx, "/readyz"); err == nil {
			return nil
		}
		if err := c.worker.lookAgain(ctx); err != nil {
			return err
		}
	}
}

// command runs a command beside the worker, and returns what its largest RSS was.
func (c *scaleCase) command(ctx context.Context, args ...string) (took time.Duration, peak int64, err error) {
	began := time.Now()
	p, err := c.start(args[0], c.env, append([]string{c.orderpost}, args...)...)
	if err != nil {
		return 0, 0, err
	}
	for p.lookAgain(ctx) == nil {
		p.note()
	}
	if ctx.Err() != nil {
		return 0, 0, errors.Join(context.Cause(ctx), p.stop())
	}
	if p.err != nil {
		return 0, 0, fmt.Errorf("%s: %w", strings.Join(args, " "), p.err)
	}
	return time.Since(began), p.peak, nil
}

// liveHeap collects the worker's garbage and returns what is left.
func (c *scaleCase) liveHeap(ctx context.Context) (bytes int64, err error) {
	text, err := c.ask(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(text, "# HeapAlloc = ")
	line, _, _ := strings.Cut(after, "\n")
	return strconv.ParseInt(line, 10, 64)
}

func (c *scaleCase) ask(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.addr+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	var text bytes.Buffer
	_, err = io.Copy(&text, resp.Body)
	return text.String(), err
}

// folderSize is the size of all files in a folder.
func folderSize(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		bytes += info.Size()
		return nil
	})
	return bytes, err
}
