package powercut

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/sandbox"
)

const (
	apiKey    = "powercut-key"
	apiSecret = "powercut-secret"
	ackWait   = 3 * time.Second
)

// loadFaults make every outcome and note appear.
var loadFaults = sandbox.Faults{Refuse: 0.15, Unavailable: 0.04, UnavailableAfter: 0.02, DropBefore: 0.01, DropAfter: 0.02, MaxPerOrder: 2}

// load is what flows while the trace is recorded: a first start, a clean shutdown, load
// on small blocks with the work of people, a kill, and a start after it.
func (r *recorder) load(ctx context.Context, orders int) error {
	begin := func() (*producer, error) {
		if err := r.start(ctx); err != nil {
			return nil, err
		}
		return r.newProducer(ctx)
	}
	p, err := begin()
	if err != nil {
		return err
	}
	first, rest := orders/10, orders-orders/10
	err = errors.Join(p.publish(ctx, "F", first), p.settled(ctx), p.smallBlocks(ctx))
	p.close()
	if err := errors.Join(err, r.stop(ctx, syscall.SIGTERM)); err != nil {
		return err
	}
	if p, err = begin(); err != nil {
		return err
	}
	err = errors.Join(p.publish(ctx, "L", rest/2), p.settled(ctx), r.people(ctx), p.publish(ctx, "M", rest/2))
	p.close()
	if err := errors.Join(err, r.stop(ctx, syscall.SIGKILL)); err != nil { // while orders are in flight
		return err
	}
	if p, err = begin(); err != nil {
		return err
	}
	err = errors.Join(p.publish(ctx, "N", first), p.settled(ctx))
	p.close()
	return errors.Join(err, r.stop(ctx, syscall.SIGTERM))
}

// people do what people do: import a file, replay, resolve and drop dead letters.
func (r *recorder) people(ctx context.Context) error {
	env := map[string]string{"ORDERPOST_DATA_DIR": r.dataDir()}
	var rows strings.Builder
	rows.WriteString("order_no,timeout,amount\n")
	for i := range 20 {
		fmt.Fprintf(&rows, "I-%03d,60,1.00\n", i)
	}
	file := filepath.Join(r.work, "import.csv")
	if err := os.WriteFile(file, []byte(rows.String()), 0o600); err != nil {
		return err
	}
	var said bytes.Buffer
	if code := enqueue.Run(ctx, []string{file, "--batch", "import", "--wait", "--results", file + ".results"}, env, nil, &said, &said); code != 0 && code != 3 {
		return fmt.Errorf("enqueue: exit code %d: %s", code, said.String())
	}
	for _, args := range [][]string{
		{"replay", "--all", "--limit", "5"},
		{"drop", "--outcome", "invalid", "--yes", "--by", "powercut"},
	} {
		said.Reset()
		if code := deadletter.Run(ctx, args, env, nil, &said, &said); code != 0 && code != 3 {
			return fmt.Errorf("deadletter %s: exit code %d: %s", args[0], code, said.String())
		}
	}
	return nil
}
