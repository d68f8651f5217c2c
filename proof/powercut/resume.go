package powercut

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/cli"
	"orderpost/internal/cli/balance"
	"orderpost/internal/cli/worker"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/sandbox"
)

// resumeTimeout bounds the wait for a worker that settles what a power cut left.
const resumeTimeout = time.Minute

// ledger is what the API had created when the power was cut. A request that had left and
// whose answer had not been read may have arrived or not.
func (t *trace) ledger(cut int, created map[string][]bool, arrived func() bool) map[string]int {
	count := make(map[string]int)
	for _, p := range t.posts {
		if p.sent > cut || p.nth >= len(created[p.orderNo]) || !created[p.orderNo][p.nth] {
			continue
		}
		if p.answered <= cut || arrived() {
			count[p.orderNo]++
		}
	}
	return count
}

// resume starts a worker on a state, lets it settle everything, and balances the books
// against the API's ledger. It returns a *loss if they do not balance.
func (t *trace) resume(ctx context.Context, s *state, dir string, rec *recorder, arrived func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, resumeTimeout, fmt.Errorf("the worker does not settle everything within %s", resumeTimeout))
	defer cancel()
	if err := t.build(s).save(dir); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	a, err := newAPI(1, rec.policy, sandbox.Faults{})
	if err != nil {
		return err
	}
	defer a.close()
	before := t.ledger(s.cut, rec.api.created, arrived)
	for no, n := range before {
		entry, _ := rec.api.sandbox.Lookup(no)
		entry.Created = n
		a.sandbox.Restore(no, entry)
	}
	env := map[string]string{"ORDERPOST_DATA_DIR": dir + "/data", "ORDERPOST_NATS_LISTEN": "127.0.0.1:0"}
	for _, setting := range a.settings(rec.policy) {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	env["ORDERPOST_LOG_LEVEL"] = "warn"
	working, stop := context.WithCancel(ctx)
	var said bytes.Buffer
	code := make(chan int, 1)
	log := zerolog.SyncWriter(&said) // a broker that recovers warns from several goroutines
	go func() { code <- worker.Run(working, []string{"--no-preflight"}, env, nil, io.Discard, log) }()
	ended := func() int { stop(); return <-code }
	q, err := connect(ctx, dir+"/data", code)
	if err != nil {
		ended()
		return &loss{"the worker does not start", err.Error() + ": " + lastLine(said.String())}
	}
	err = t.balance(ctx, s, q, a, before)
	q.Close()
	if n := ended(); n != 0 && n != cli.ExitInterrupted && err == nil {
		err = &loss{"the worker does not stop", fmt.Sprintf("exit code %d: %s", n, lastLine(said.String()))}
	}
	return err
}

// connect waits for the worker's broker and streams.
func connect(ctx context.Context, dataDir string, code chan int) (*queue.Queue, error) {
	for {
		if end, err := embedded.ReadEndpoint(dataDir); err == nil && end.PID == os.Getpid() {
			cfg := queue.DefaultConfig()
			cfg.URL, cfg.Token, cfg.Name, cfg.AckWait = end.URL, end.Token, "powercut", ackWait
			cfg.ConnectTimeout = time.Second
			if q, err := queue.Open(ctx, cfg, zerolog.Nop()); err == nil {
				return q, nil
			}
		}
		select {
		case n := <-code:
			code <- n
			return nil, fmt.Errorf("exit code %d", n)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// balance waits until nothing is pending, and compares the books.
func (t *trace) balance(ctx context.Context, s *state, q *queue.Queue, a *api, before map[string]int) error {
	if err := settled(ctx, q); err != nil {
		return err
	}
	records := make(map[string]*order.Record)
	balanced, err := balance.Balance(ctx, q, a.sandbox, balance.AnyNumber, func(r *order.Record) { records[r.OrderNo] = r })
	if err != nil {
		return err
	}
	if !balanced.Balanced {
		return &loss{"the books do not balance", strings.Join(balanced.Problems, "; ")}
	}
	for at, e := range t.due(s.cut) {
		no, isIntent := strings.CutPrefix(at.subject, "orders.new.")
		if isIntent && records[no] == nil {
			return &loss{"a confirmed intent has no outcome", no}
		}
		if no, isResult := strings.CutPrefix(at.subject, "orders.results."); isResult {
			var was order.Record
			if err := json.Unmarshal(e.data, &was); err != nil {
				return fmt.Errorf("the record of %s: %w", no, err)
			}
			if was.Outcome() == order.OutcomeAccepted && a.sandbox.Created(no) > before[no] {
				return &loss{"an accepted order was posted again", no}
			}
		}
	}
	return nil
}

// settled waits until no intent is stored: each is settled, and the worker has trimmed the log.
func settled(ctx context.Context, q *queue.Queue) error {
	for {
		room, err := q.Census.Room(ctx)
		if err == nil && room.Msgs == 0 {
			return nil
		}
		if waitErr := pause(ctx, 5*time.Millisecond); waitErr != nil {
			return &loss{"orders are not settled", fmt.Sprintf("%d pending: %v", room.Msgs, errors.Join(waitErr, err))}
		}
	}
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
