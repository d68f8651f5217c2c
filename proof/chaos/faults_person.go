package chaos

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"orderpost/internal/cli"
	"orderpost/internal/files/xlsx"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
)

// errNoWay means that the run has nothing that the fault could disturb.
var errNoWay = errors.New("there is nothing to strike")

// personFaults are the actions of people, with the real programs.
func personFaults() []fault {
	return []fault{
		{name: "hold", what: "worker hold, then worker resume", weight: 1, least: 500 * time.Millisecond, most: 4 * time.Second, inject: hold},
		{name: "limit", what: "worker limit 20/s to 100/s, then none", weight: 1, least: time.Second, most: 5 * time.Second, inject: limit},
		{name: "replay", what: "deadletter replay of everything that may be replayed, killed in the middle and run again", weight: 2,
			least: 100 * time.Millisecond, most: time.Second, inject: replay},
		{name: "import", what: "enqueue of a CSV file, killed in the middle and run again until it is done", weight: 2,
			least: 300 * time.Millisecond, most: 2 * time.Second, inject: importFile},
		{name: "cancel", what: "enqueue of a CSV file, and enqueue cancel of what is not posted", weight: 1,
			least: 100 * time.Millisecond, most: time.Second, inject: cancelImport},
		{name: "pause", what: "enqueue of a CSV file, enqueue pause of it, killed in the middle or not, and enqueue continue", weight: 1,
			least: 500 * time.Millisecond, most: 4 * time.Second, inject: pauseImport},
	}
}

// tool returns a program for people, connected directly to the broker.
func (r *rig) tool(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	url, err := r.brokerURL()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, r.bin[name], args...)
	cmd.SysProcAttr, cmd.WaitDelay = orphaned(), 5*time.Second
	cmd.Env = append(os.Environ(), "ORDERPOST_NATS_URL="+url, "ORDERPOST_NATS_CONNECT_TIMEOUT=2s", "ORDERPOST_BROKER_WAIT=10s", "USER=chaos")
	if !r.o.usual {
		cmd.Env = append(cmd.Env, "ORDERPOST_ACK_WAIT="+ackWait.String())
	}
	if r.o.broker == clusterBroker {
		cmd.Env = append(cmd.Env, "ORDERPOST_REPLICAS=3")
	}
	return cmd, nil
}

// toolTime is the timeout of one run of a program. A person would start it again.
const toolTime = time.Minute

// run runs a program and returns its exit code.
func (r *rig) run(ctx context.Context, name string, args ...string) (code int, out string, err error) {
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	cmd, err := r.tool(ctx, name, args...)
	if err != nil {
		return 0, "", err
	}
	code, out, err = exitOf(cmd)
	if ctx.Err() == nil {
		r.runs.note(name, args, impatient, code, out)
	}
	return code, out, err
}

// impatient lists programs that may also end with 4, because they wait for the broker
// for only a few seconds.
var impatient = []int{cli.ExitDone, cli.ExitPartial, cli.ExitUnreachable}

// exitOf runs a program to its end. code is -1 if a signal ended it.
func exitOf(cmd *exec.Cmd) (code int, out string, err error) {
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), text.String(), nil
	}
	return 0, text.String(), err
}

// insist runs a program until it ends with one of the codes.
func (r *rig) insist(ctx context.Context, good []int, name string, args ...string) error {
	for {
		code, out, err := r.run(ctx, name, args...)
		for _, c := range good {
			if err == nil && code == c {
				return nil
			}
		}
		if waitErr := pause(ctx, 200*time.Millisecond); waitErr != nil {
			return fmt.Errorf("%w: %s %s ends with %d (%v):\n%s", waitErr, name, strings.Join(args, " "), code, err, out)
		}
	}
}

// once runs a program once. It may fail because no broker is in reach.
func (r *rig) once(ctx context.Context, name string, args ...string) error {
	code, out, err := r.run(ctx, name, args...)
	if err == nil && code != cli.ExitDone && code != cli.ExitPartial {
		err = fmt.Errorf("%s %s ended with %d: %s", name, strings.Join(args, " "), code, strings.TrimSpace(out))
	}
	return err
}

func hold(ctx context.Context, r *rig, _ *rand.Rand) (heal, error) {
	if err := r.once(ctx, "worker", "hold", "--for", "30s", "--reason", "chaos"); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return r.insist(ctx, []int{0}, "worker", "resume") }, nil
}

func limit(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	if err := r.once(ctx, "worker", "limit", fmt.Sprintf("%d/s", 20+draw.IntN(81))); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return r.insist(ctx, []int{0}, "worker", "limit", "default") }, nil
}

// killed runs a program and kills it after a while, unless it ended before.
func (r *rig) killed(ctx context.Context, after time.Duration, name string, args ...string) error {
	cmd, err := r.tool(ctx, name, args...)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	_ = cmd.Wait() // it may end by the kill or by itself
	return nil
}

func (r *rig) replayArgs() []string {
	args := []string{"replay", "--outcome", "rejected,exhausted,expired,unknown", "--deadline", "none"}
	if r.o.policy == resubmitPolicy { // the sandbox then refuses duplicates
		args = append(args, "--resubmit-unknown", "--by", "chaos", "--note", "chaos")
	}
	return args
}

func replay(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	if err := r.killed(ctx, 50*time.Millisecond+time.Duration(draw.Int64N(int64(300*time.Millisecond))), "deadletter", r.replayArgs()...); err != nil {
		return nil, err
	}
	return nil, r.once(ctx, "deadletter", r.replayArgs()...)
}

// file writes a file of orders: a workbook for a third of the batches, else CSV.
func (r *rig) file(batch string, rows int) (path string, orderNos []string, err error) {
	if batch[len(batch)-1]%3 == 0 {
		return r.table(batch, ".xlsx", rows)
	}
	return r.table(batch, ".csv", rows)
}

// table writes a file of orders.
func (r *rig) table(batch, ending string, rows int) (path string, orderNos []string, err error) {
	table := [][]string{}
	for i := range rows {
		no := fmt.Sprintf("%s-%05d", batch, i)
		orderNos = append(orderNos, no)
		r.intents.publish(no, "")
		table = append(table, []string{no, "60", fmt.Sprintf("%d.50", i)})
	}
	write := writeCSV
	if ending == ".xlsx" {
		write = writeWorkbook
	}
	var b bytes.Buffer
	if err := write(&b, []string{"order_no", "timeout", "amount"}, table); err != nil {
		return "", nil, err
	}
	path = filepath.Join(r.dir, batch+ending)
	return path, orderNos, os.WriteFile(path, b.Bytes(), 0o600)
}

func writeCSV(out io.Writer, header []string, rows [][]string) error {
	return csv.NewWriter(out).WriteAll(slices.Concat([][]string{header}, rows))
}

func writeWorkbook(out io.Writer, header []string, rows [][]string) error {
	w, err := xlsx.NewWriter(out, "Orders", header)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := w.Write(row, []xlsx.Kind{xlsx.Text, xlsx.Number, xlsx.Number}, -1, xlsx.Plain); err != nil {
			return err
		}
	}
	return w.Close()
}

// draft writes a file of some hundred orders. The names of its import and of its orders
// begin with kind.
func (r *rig) draft(kind string, draw *rand.Rand) (batch, path string, orderNos []string, err error) {
	batch = fmt.Sprintf("%s%d-%08x", kind, r.o.seed, draw.Uint32())
	path, orderNos, err = r.file(batch, 50+draw.IntN(500))
	return batch, path, orderNos, err
}

// nightLane is the second lane of the waiting room.
const nightLane = "night"

// laneOf returns the flag of an import's lane: about half of them take the second one.
func laneOf(batch string) []string {
	if batch[len(batch)-1]%2 == 0 {
		return []string{"--lane", nightLane}
	}
	return nil
}

// importArgs returns the arguments of an import.
func importArgs(batch, path string, more ...string) []string {
	return slices.Concat([]string{path, "--batch", batch, "--quiet"}, more, laneOf(batch))
}

// makeLane gives the second lane its weight.
func (r *rig) makeLane(ctx context.Context) error {
	q, err := r.open(ctx, "chaos lanes")
	if err != nil {
		return err
	}
	defer q.Close()
	return fleet.New(q).SetLane(ctx, nightLane, 3, "chaos")
}

// finishImport runs an import until every row is confirmed.
func (r *rig) finishImport(ctx context.Context, batch, path string, orderNos []string) error {
	q, err := r.open(ctx, "chaos import")
	if err != nil {
		return err
	}
	defer q.Close()
	for {
		code, out, err := r.run(ctx, "enqueue", importArgs(batch, path)...)
		look, cancel := context.WithTimeout(ctx, toolTime) // the answer may be lost
		imp, lookErr := imports.ReadImport(look, q, batch)
		cancel()
		if lookErr == nil && imp != nil && imp.Done == len(orderNos) {
			r.intents.confirm(order.OutcomeNone, orderNos...)
			return nil
		}
		if waitErr := pause(ctx, 200*time.Millisecond); waitErr != nil {
			return fmt.Errorf("%w: the import %s ends with %d (%v):\n%s", waitErr, batch, code, err, out)
		}
	}
}

func importFile(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	batch, path, orderNos, err := r.draft("I", draw)
	if err != nil {
		return nil, err
	}
	after := 100*time.Millisecond + time.Duration(draw.Int64N(int64(700*time.Millisecond)))
	if err := r.killed(ctx, after, "enqueue", importArgs(batch, path, "--rate", "500")...); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return r.finishImport(ctx, batch, path, orderNos) }, nil
}

// finishCancel cancels an import, again and again until the workers were told.
func (r *rig) finishCancel(ctx context.Context, batch string) error {
	for codes := partial; ; codes = impatient {
		code := r.command(ctx, codes, "enqueue", "cancel", batch)
		if slices.Contains(partial, code) {
			return nil
		}
		if waitErr := pause(ctx, 200*time.Millisecond); waitErr != nil {
			return fmt.Errorf("%w: the cancellation of %s ends with %d", waitErr, batch, code)
		}
	}
}

func cancelImport(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	batch, path, orderNos, err := r.draft("X", draw)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := r.finishImport(ctx, batch, path, orderNos); err != nil {
			return err
		}
		return r.finishCancel(ctx, batch)
	}, nil
}

func pauseImport(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	batch, path, orderNos, err := r.draft("P", draw)
	if err != nil {
		return nil, err
	}
	after := time.Duration(draw.Int64N(int64(time.Second)))
	heal := func(ctx context.Context) error {
		if err := r.finishImport(ctx, batch, path, orderNos); err != nil {
			return err
		}
		return r.insist(ctx, always, "enqueue", "resume", batch)
	}
	if _, _, err := r.run(ctx, "enqueue", importArgs(batch, path)...); err != nil {
		return heal, err
	}
	return heal, r.killed(ctx, after, "enqueue", "pause", batch)
}
