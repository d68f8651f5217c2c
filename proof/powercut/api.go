package powercut

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/sandbox"
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
		"ORDERPOST_REQUEST_TIMEOUT=1s", "ORDERPOST_RETRY_DELAY_MAX=1s", "ORDERPOST_HOLD_RETRY=1s", "ORDERPOST_DRAIN_TIMEOUT=5s",
		"ORDERPOST_REFUSAL_RUN=0", "ORDERPOST_ACCOUNT_LABEL=powercut", "ORDERPOST_WORKER_NAME=powercut",
	}
}
