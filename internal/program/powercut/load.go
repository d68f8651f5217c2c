package powercut

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"orderpost/internal/program/deadletter"
	"orderpost/internal/program/enqueue"
	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
	"orderpost/internal/settle"
)

const (
	apiKey    = "powercut-key"
	apiSecret = "powercut-secret"
	ackWait   = 3 * time.Second
)

// api is the sandbox, which has power all the time, behind a handler that notes which
// request created its order.
type api struct {
	sandbox *sandbox.Server
	server  *http.Server
	url     string
	port    string

	mu      sync.Mutex
	created map[string][]bool // by order_no, of each request
}

// newAPI starts the API. Under park it creates a repeated order_no again, which shows a
// second POST.
func newAPI(seed uint64, policy string, faults sandbox.Faults) (*api, error) {
	cfg := sandbox.Config{Keys: map[string]string{apiKey: apiSecret}, Logger: zerolog.Nop()}
	cfg.Seed, cfg.Faults = seed, faults
	if policy == "park" {
		cfg.Duplicates = sandbox.CreateTwice
	}
	a := &api{created: make(map[string][]bool)}
	var err error
	if a.sandbox, err = sandbox.New(cfg); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a.url = "http://" + l.Addr().String()
	_, a.port, _ = net.SplitHostPort(l.Addr().String())
	a.server = &http.Server{Handler: http.HandlerFunc(a.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = a.server.Serve(l) }()
	return a, nil
}

func (a *api) close() { _ = a.server.Close() }

// serve passes a request to the sandbox.
func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		a.sandbox.Handler().ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	var sent struct {
		OrderNo string `json:"order_no"`
	}
	if err != nil || json.Unmarshal(body, &sent) != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	before := a.sandbox.Created(sent.OrderNo)
	defer func() { // also of an answer that the sandbox drops
		a.mu.Lock()
		defer a.mu.Unlock()
		a.created[sent.OrderNo] = append(a.created[sent.OrderNo], a.sandbox.Created(sent.OrderNo) > before)
	}()
	a.sandbox.Handler().ServeHTTP(w, r)
}

// settings returns a worker's settings, with short claims and delays.
func (a *api) settings(policy string) []string {
	return []string{
		"ORDERPOST_API_URL=" + a.url, "ORDERPOST_API_KEY=" + apiKey, "ORDERPOST_API_SECRET=" + apiSecret,
		"ORDERPOST_OPS_ADDR=", "ORDERPOST_LOG_FORMAT=json", "ORDERPOST_ON_UNSURE=" + policy, "ORDERPOST_ACK_WAIT=" + ackWait.String(),
		"ORDERPOST_REQUEST_TIMEOUT=1s", "ORDERPOST_HEADER_TIMEOUT=1s", "ORDERPOST_RETRY_DELAY_BASE=1s", "ORDERPOST_RETRY_DELAY_MAX=1s",
		"ORDERPOST_HOLD_RETRY=1s", "ORDERPOST_BREAKER_OPEN=1s", "ORDERPOST_PROBE_DELAY=100ms", "ORDERPOST_DRAIN_TIMEOUT=5s",
		"ORDERPOST_REFUSAL_RUN=0", "ORDERPOST_ACCOUNT_LABEL=powercut", "ORDERPOST_WORKER_NAME=powercut",
	}
}

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

// producer publishes orders from outside of the traced process.
type producer struct {
	q    *queue.Queue
	link *nats.Conn
	js   jetstream.JetStream
}

func (r *recorder) newProducer(ctx context.Context) (*producer, error) {
	end, err := r.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.AckWait = end.URL, end.Token, "producer", ackWait
	p := &producer{}
	if p.q, err = queue.Open(ctx, cfg, zerolog.Nop()); err != nil {
		return nil, err
	}
	if p.link, err = nats.Connect(end.URL, nats.Token(end.Token), nats.MaxReconnects(-1)); err != nil {
		return nil, err
	}
	p.js, err = jetstream.New(p.link)
	return p, err
}

func (p *producer) close() {
	p.q.Close()
	p.link.Close()
}

// publish publishes orders in groups of one to six. Some can never be sent.
func (p *producer) publish(ctx context.Context, name string, n int) error {
	for made, group := 0, 1; made < n; group = group%6 + 1 {
		var intents []settle.Intent
		for range min(group, n-made) {
			no := fmt.Sprintf("%s-%04d", name, made)
			body := fmt.Sprintf(`{"order_no":%q,"timeout":60,"amount":"%d.00","note":%q}`, no, made, strings.Repeat("x", made*37%900))
			if made%25 == 24 {
				body = fmt.Sprintf(`{"order_no":%q}`, no) // timeout is missing: invalid
			}
			intents = append(intents, settle.Intent{OrderNo: no, ID: "powercut:" + no, Batch: "powercut", Body: []byte(body)})
			made++
		}
		for open := intents; len(open) > 0; {
			var again []settle.Intent
			for i, result := range p.q.PublishMany(ctx, open) {
				if errors.Is(result.Err, settle.ErrFull) {
					again = append(again, open[i])
				} else if result.Err != nil {
					return result.Err
				}
			}
			if open = again; len(open) > 0 {
				if err := pause(ctx, 20*time.Millisecond); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// settled waits until the work queue is empty.
func (p *producer) settled(ctx context.Context) error {
	for {
		s, err := p.js.Stream(ctx, "ORDERS")
		if err != nil {
			return err
		}
		if s.CachedInfo().State.Msgs == 0 {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d orders are not settled: %w", s.CachedInfo().State.Msgs, err)
		}
	}
}

// smallBlocks makes the next start of the broker use blocks of 32 kB, so that a short
// trace fills several of them. The worker sets the limits back.
func (p *producer) smallBlocks(ctx context.Context) error {
	for _, name := range []string{"ORDERS_RESULTS", "ORDERS_DEAD", "KV_ORDERPOST"} {
		s, err := p.js.Stream(ctx, name)
		if err != nil {
			return err
		}
		cfg := s.CachedInfo().Config
		cfg.MaxBytes = 100_000
		if _, err := p.js.UpdateStream(ctx, cfg); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
