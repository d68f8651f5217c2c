package queue

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// pulling is one pull request and the messages that answer it. The broker ends
// it with the last of the n messages or with a status.
type pulling struct {
	q    *Queue
	in   *inbox
	left int
	// over says that nothing more can come and another request may use the
	// inbox.
	over bool
	// late says that the broker did not end the pull in time.
	late bool
	// lost counts the messages that the broker says it sent for the pull and that did not come.
	lost   int
	err    error
	giveUp *time.Timer
	broken <-chan struct{}
}

// pullGrace is how long after the requested wait the pull waits for the
// broker's status. After that the pull has ended without an error, like one
// that found nothing.
const pullGrace = requestTimeout

// startPull sends a pull request to the workers' consumer.
func (q *Queue) startPull(n int, wait time.Duration) (*pulling, error) {
	req, err := json.Marshal(map[string]any{"batch": n, "expires": wait.Nanoseconds(), "max_bytes": q.pullBytes()})
	if err != nil {
		return nil, err
	}
	in, err := q.pulls.take()
	if err != nil {
		return nil, err
	}
	p := &pulling{q: q, in: in, left: n, broken: q.Conn.link.disconnected(), giveUp: time.NewTimer(wait + pullGrace)}
	subject := pullSubjects + q.Conn.n.intents + "." + q.Conn.n.consumer
	if err := q.Conn.nc.PublishRequest(subject, in.subject, req); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// pullBytes is the size at which the broker ends a pull. Large orders so come a
// few at a time: the broker drops a client that lags 64 MiB behind. The size
// admits the largest message that the broker stores, because a larger message
// would never be delivered.
func (q *Queue) pullBytes() int64 { return max(answerBytes, q.Conn.nc.MaxPayload()+subjectReserve) }

// subjectReserve is more than the subjects of a message take, which count
// towards the size.
const subjectReserve = 16 << 10

// next waits for a message. It returns nil if there are no more.
func (p *pulling) next() *nats.Msg {
	for p.left > 0 && !p.over && !p.late && p.err == nil {
		select {
		case msg := <-p.in.answers:
			if p.isOrder(msg) {
				return msg
			}
		case <-p.broken:
			p.err = errLinkBroken
		case <-p.giveUp.C:
			p.late = true
		}
	}
	return p.drained()
}

// drained returns a message that came before the pull was interrupted. The
// broker has delivered it to us, so it must be accounted for.
func (p *pulling) drained() *nats.Msg {
	if p.over || p.left == 0 {
		return nil
	}
	return p.arrived()
}

// arrived returns a message that has already arrived, or nil.
func (p *pulling) arrived() *nats.Msg {
	for p.left > 0 && !p.over {
		select {
		case msg := <-p.in.answers:
			if p.isOrder(msg) {
				return msg
			}
		default:
			return nil
		}
	}
	return nil
}

// isOrder reports whether the message is an order. Otherwise it is a status,
// which has no data and no sequence, and isOrder handles it.
func (p *pulling) isOrder(msg *nats.Msg) bool {
	status := msg.Header.Get("Status")
	if status == "" || len(msg.Data) > 0 || strings.HasPrefix(msg.Reply, ackSubjects) {
		p.left--
		return true
	}
	text := msg.Header.Get("Description")
	switch {
	case status == "100": // idle heartbeat
	case status == "404", status == "408": // no messages; the wait is over
		p.over = true
		if unsent, err := strconv.Atoi(msg.Header.Get("Nats-Pending-Messages")); err == nil {
			p.lost = p.left - unsent
		}
	case isBatchCompleted(msg): // follows the last of the n, possibly in the next pull
	case status == "409" && text == "Message Size Exceeds MaxBytes": // the next message is left to another pull
		p.over = true
	case status == "503":
		p.over, p.err = true, nats.ErrNoResponders
	default: // 409 and others: consumer gone, leadership changed, server going down, …
		p.over, p.err = true, fmt.Errorf("status %s %s", status, text)
	}
	return false
}

// end gives the inbox back.
func (p *pulling) end() {
	p.giveUp.Stop()
	p.q.pulls.put(p.in, p.over || p.left == 0)
}

// brokerAnswer answers a delivery without waiting. The connection sends the
// answers that gather in one write.
type brokerAnswer struct {
	nc    *nats.Conn
	reply string
}

var plainAck = []byte("+ACK")

// Ack implements settle.Answer.
func (a brokerAnswer) Ack() error { return a.nc.Publish(a.reply, plainAck) }

// Nak implements settle.Answer. A NAK without a delay is forgotten by a broker that ends before it
// delivers again, and the message then waits for the rest of its ack wait. One with a delay, if
// only of nothing, is stored with the consumer (nats-server 2.15, processNak).
func (a brokerAnswer) Nak() error { return a.NakWithDelay(0) }

// NakWithDelay implements settle.Answer.
func (a brokerAnswer) NakWithDelay(delay time.Duration) error {
	return a.nc.Publish(a.reply, fmt.Appendf(nil, `-NAK {"delay": %d}`, delay.Nanoseconds()))
}
