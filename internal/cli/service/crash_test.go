package service_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
	"orderpost/internal/submit"
	"orderpost/internal/testing/netcut"
)

// point is a step of the handling of one order, at whose edge the worker is
// killed.
type point struct {
	name string
	// subject and text find the message; the POST has neither.
	subject, text string
}

var (
	atMark    = point{"mark", "$KV.ORDERPOST.seen.", ""}
	atAttempt = point{"attempt note", "orders.results.", `"note":"attempt"`}
	atPost    = point{name: "post"}
	atResult  = point{"result", "orders.results.", `"settled":1`}
	atLetter  = point{"letter", "orders.dead.", ""}
	atAck     = point{"ack", "$JS.ACK.", "+ACK"}
	atNote    = point{"delay note", "orders.results.", `"note":"delayed"`}
	atNak     = point{"nak", "$JS.ACK.", "-NAK"}
)

// story is what the API does with the order. What comes after the result is the same in each.
type story struct {
	name   string
	api    func(*sandbox.Settings)
	busy   bool // the first connection is refused
	points []point
}

var stories = []story{
	{"created", func(*sandbox.Settings) {}, false, []point{atMark, atPost, atResult, atAck}},
	{"refused", func(s *sandbox.Settings) { s.Faults.Refuse = 1 }, false, []point{atPost, atLetter, atResult}},
	{"out of reach first", func(*sandbox.Settings) {}, true, []point{atNote, atNak, atAttempt}},
	{"created, answer dropped", func(s *sandbox.Settings) { s.Faults.DropAfter, s.Faults.MaxPerOrder = 1, 1 }, false, []point{atPost}},
}

// crash kills a worker once, at a point.
type crash struct {
	at     point
	when   netcut.Cut
	killed chan struct{}
	once   sync.Once
	dialer *netcut.Dialer
	busy   bool
	// worker is the one to kill. lapsed says that it had lost an order before.
	worker atomic.Pointer[queue.Queue]
	lapsed atomic.Bool
}

func (c *crash) kill() {
	c.once.Do(func() {
		if q := c.worker.Load(); q != nil {
			c.lapsed.Store(q.Claims.Lost() > 0)
		}
		close(c.killed)
	})
}

func newCrash(at point, when netcut.Cut, busy bool) *crash {
	c := &crash{at: at, when: when, killed: make(chan struct{}), busy: busy}
	c.dialer = &netcut.Dialer{Stay: true, Decide: c.decide}
	return c
}

func (c *crash) decide(subject string, payload []byte) netcut.Cut {
	if c.at.subject == "" || !strings.HasPrefix(subject, c.at.subject) || !bytes.Contains(payload, []byte(c.at.text)) {
		return netcut.Pass
	}
	c.kill()
	return c.when
}

func (c *crash) dead() bool {
	select {
	case <-c.killed:
		return true
	default:
		return false
	}
}

// RoundTrip is the worker's way to the API. A dead worker has none.
func (c *crash) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.dead() {
		return nil, errNobody
	}
	if c.busy {
		c.busy = false
		return nil, errNobody
	}
	if c.at.subject != "" {
		return http.DefaultTransport.RoundTrip(req)
	}
	if c.when == netcut.After {
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
	}
	c.kill()
	c.dialer.Kill()
	return nil, errNobody
}

// TestTheWorkerIsKilledAtEveryStep: the handling of one order is cut at every
// edge of every step, and a new worker takes over. Whatever the point and the
// policy: one outcome, no order created twice, no acceptance lost, no claim of
// "not created" about an order that exists, no order asked again after an
// outcome was recorded; and under park none asked again in doubt.
func TestTheWorkerIsKilledAtEveryStep(t *testing.T) {
	for _, s := range stories {
		for _, policy := range []order.Policy{order.Resubmit, order.Park} {
			for _, at := range s.points {
				for when, edge := range map[netcut.Cut]string{netcut.Before: "before", netcut.After: "after"} {
					t.Run(strings.Join([]string{s.name, policy.String(), edge, at.name}, "/"), func(t *testing.T) {
						t.Parallel()
						killAndRecover(t, s, policy, at, when)
					})
				}
			}
		}
	}
}

func killAndRecover(t *testing.T, s story, policy order.Policy, at point, when netcut.Cut) {
	r := newRig(t, policy, s.api)
	c := newCrash(at, when, s.busy)
	patient := func(cfg *submit.Config) { cfg.RequestTimeout = time.Minute }
	first := r.start("first", c.dialer, c, patient)
	c.worker.Store(first.q)
	r.publish(first.q, "A-1")
	for reached := false; !reached; {
		select {
		case <-c.killed:
			reached = true
		case <-time.After(100 * time.Millisecond):
			if first.q.Claims.Lost() > 0 { // the machine is so busy that the order was taken away, and the point may never come
				first.stop()
				killAndRecover(t, s, policy, at, when)
				return
			}
		}
	}
	first.stop()
	asked := r.attempts("A-1")

	second := r.start("second", &netcut.Dialer{}, http.DefaultTransport, patient)
	rec := r.settled(second.q)["A-1"]
	require.NotNil(t, rec)
	require.Equal(t, 1, rec.Settled)
	if c.lapsed.Load() || second.q.Claims.Lost() > 0 { // the machine is so busy that an order in hand was taken away: another story
		killAndRecover(t, s, policy, at, when)
		return
	}

	recorded := at == atAck || at == atResult && when == netcut.After
	if recorded {
		require.Equal(t, asked, r.attempts("A-1"), "asked again")
	}
	if recorded || policy == order.Park {
		require.LessOrEqual(t, r.attempts("A-1"), attemptsOf(s, policy), "asked again")
	}
	posted := at == atPost || at == atLetter || at == atResult && when == netcut.Before
	unexplained := posted || at == atMark || at == atAttempt || at == atNote && when == netcut.Before
	switch {
	case policy == order.Park && unexplained: // without a note an earlier worker, with another policy, may have asked
		require.Equal(t, order.OutcomeUnknown, rec.Outcome(), "nobody knows")
	case s.name == "refused" && posted:
		require.Equal(t, order.OutcomeUnknown, rec.Outcome(), "the lost attempt may have created it")
	case s.name == "refused":
		require.Equal(t, order.OutcomeRejected, rec.Outcome())
	case s.name == "created, answer dropped" && policy == order.Park:
		require.Equal(t, order.OutcomeUnknown, rec.Outcome())
	default:
		require.Equal(t, order.OutcomeAccepted, rec.Outcome())
	}
}

// attemptsOf is how often the API is asked where nobody is killed: again after
// a dropped answer, unless in doubt orders are parked.
func attemptsOf(s story, policy order.Policy) int {
	if s.name == "created, answer dropped" && policy == order.Resubmit {
		return 2
	}
	return 1
}

// R3: a broker that is killed with a worker may forget a redelivery. So one is
// noted before anything of it is posted, also where orders are asked again.
func TestR3ARedeliveryIsNotedBeforeItIsPosted(t *testing.T) {
	t.Parallel()
	r := newRig(t, order.Resubmit)
	r.ackWait = 20 * time.Second // it comes again by a delayed NAK
	var mu sync.Mutex
	var notes []order.NoteKind
	var w *life
	ready := make(chan struct{})
	w = r.start("w", &netcut.Dialer{}, transport(func(req *http.Request) (*http.Response, error) {
		<-ready
		mu.Lock()
		defer mu.Unlock()
		entry, err := w.q.Ledger.Lookup(req.Context(), "A-1")
		if err != nil {
			return nil, err
		}
		if entry.Record == nil {
			notes = append(notes, order.NoteNone)
			return nil, errNobody
		}
		notes = append(notes, entry.Record.Note)
		return http.DefaultTransport.RoundTrip(req)
	}))
	close(ready)
	r.publish(w.q, "A-1")
	require.Equal(t, order.OutcomeAccepted, r.settled(w.q)["A-1"].Outcome())
	require.Equal(t, []order.NoteKind{order.NoteNone, order.NoteAttempt}, notes)
}
