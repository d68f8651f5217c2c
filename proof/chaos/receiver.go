package chaos

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"orderpost/internal/notify"
	"orderpost/internal/order"
)

// receiver takes webhooks as a system of somebody else's would: it verifies them with the
// library of Standard Webhooks, fails now and then, and remembers what it took.
type receiver struct {
	secret string
	verify *standardwebhooks.Webhook
	addr   string

	mu       sync.Mutex
	server   *http.Server // nil = it is gone
	draw     *rand.Rand
	manner   manner
	last     map[string]heard // by order_no, what came last
	events   int
	unproven int
	posted   []string // orders that came over HTTP
}

// manner is how the receiver behaves.
type manner struct {
	fails float64       // the part that it answers with 500
	slow  time.Duration // for how long at most it thinks
}

// usualManner is that of a receiver that mostly works.
var usualManner = manner{fails: 0.03, slow: 20 * time.Millisecond}

// heard is what an event said of an order.
type heard struct {
	Outcome  string
	Position uint64
	// Back is set if an event came after one with a higher position.
	Back bool
}

func newReceiver(seed uint64) (*receiver, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	r := &receiver{secret: notify.NewSecret(), draw: rand.New(rand.NewPCG(seed, 5)), manner: usualManner, last: make(map[string]heard), addr: addrs[0]}
	if r.verify, err = standardwebhooks.NewWebhook(r.secret); err != nil {
		return nil, err
	}
	return r, r.open()
}

func (r *receiver) url() string { return "http://" + r.addr + "/hooks" }

// open listens, at the same address as before.
func (r *receiver) open() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil {
		return nil
	}
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		return err
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func(s *http.Server) { _ = s.Serve(l) }(r.server)
	return nil
}

// close breaks every connection.
func (r *receiver) close() {
	r.mu.Lock()
	s := r.server
	r.server = nil
	r.mu.Unlock()
	if s != nil {
		_ = s.Close()
	}
}

// behave changes the usual manner; nil = back to it.
func (r *receiver) behave(how func(*manner)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.manner = usualManner
	if how != nil {
		how(&r.manner)
	}
}

// ServeHTTP implements http.Handler. What it takes it has taken once it says so; it may also
// have taken what the sender gets no answer for.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender was killed
	}
	status, wait := r.take(body, req.Header)
	time.Sleep(wait)
	w.WriteHeader(status)
}

func (r *receiver) take(body []byte, header http.Header) (status int, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = time.Duration(r.draw.Float64() * float64(r.manner.slow))
	var e struct {
		Data struct {
			OrderNo  string `json:"order_no"`
			Outcome  string `json:"outcome"`
			Position uint64 `json:"position"`
		} `json:"data"`
	}
	switch {
	case r.verify.Verify(body, header) != nil || json.Unmarshal(body, &e) != nil:
		r.unproven++
		return http.StatusUnauthorized, wait
	case r.draw.Float64() < r.manner.fails:
		return http.StatusInternalServerError, wait
	}
	if no := e.Data.OrderNo; no != "" { // else it is about the fleet
		before := r.last[no]
		r.last[no] = heard{e.Data.Outcome, e.Data.Position, before.Back || e.Data.Position < before.Position}
	}
	r.events++
	return http.StatusNoContent, wait
}

// expect notes an order that came over HTTP.
func (r *receiver) expect(orderNo string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posted = append(r.posted, orderNo)
}

// judge compares what the receiver heard last of each order with its outcome.
func (r *receiver) judge(settled map[string]*order.Record, problem func(format string, args ...any)) (wrong int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tell := func(format string, args ...any) { wrong++; problem(format, args...) }
	for no, rec := range settled {
		h, known := r.last[no]
		switch {
		case rec.Outcome() == order.OutcomeNone:
		case !known:
			tell("%s: ended as %s, and the receiver of webhooks was told nothing", no, rec.Word)
		case h.Outcome != rec.Outcome().String():
			tell("%s: ended as %s, and the receiver of webhooks heard %s last", no, rec.Word, h.Outcome)
		case h.Back:
			tell("%s: the receiver of webhooks heard an older outcome after a newer one", no)
		}
	}
	if r.unproven > 0 {
		tell("%d webhooks do not bear the receiver's secret", r.unproven)
	}
	return wrong
}

// tally counts what came over HTTP, and what the receiver took.
func (r *receiver) tally() *doorTally {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &doorTally{Posted: len(r.posted), Events: r.events}
}
