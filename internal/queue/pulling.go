package queue

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// pulling is one pull request and the messages that answer it. The broker ends
// it by the last of the n messages, or by a status.
type pulling struct {
	q    *Queue
	in   *inbox
	left int
	// over: nothing more can come, so that the inbox may serve another request.
	over bool
	// late: the broker did not say in time that it was over.
	late   bool
	err    error
	giveUp *time.Timer
	broken <-chan struct{}
}

// pullGrace is how much longer than the broker was asked to wait its status is
// waited for. After it the pull counts as over, like one that found nothing.
const pullGrace = requestTimeout

func (q *Queue) startPull(n int, wait time.Duration) (*pulling, error) {
	req, err := json.Marshal(map[string]any{"batch": n, "expires": wait.Nanoseconds(), "max_bytes": q.pullBytes()})
	if err != nil {
		return nil, err
	}
	in, err := q.pulls.take()
	if err != nil {
		return nil, err
	}
	p := &pulling{q: q, in: in, left: n, broken: q.link.current(), giveUp: time.NewTimer(wait + pullGrace)}
	subject := "$JS.API.CONSUMER.MSG.NEXT." + q.n.intents + "." + q.n.consumer
	if err := q.nc.PublishRequest(subject, in.subject, req); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// pullBytes is where the broker ends a pull, so that large orders come a few at
// a time: it drops a client that lags 64 MiB behind. Whatever the broker stores
// fits, since a message that is larger than that would never be delivered.
func (q *Queue) pullBytes() int64 { return max(answerBytes, q.nc.MaxPayload()+subjectReserve) }

// subjectReserve is more than the subjects of a message have, which count.
const subjectReserve = 16 << 10

// next waits for a message; nil: there is none any more.
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

// drained gives what came before the pull broke off. It is in our hands, and
// must be accounted for.
func (p *pulling) drained() *nats.Msg {
	if p.over || p.left == 0 {
		return nil
	}
	return p.arrived()
}

// arrived gives a message that is there already, or nil.
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

// isOrder takes a message in: an order, or a status, which has no data and no
// place in the stream.
func (p *pulling) isOrder(msg *nats.Msg) bool {
	status := msg.Header.Get("Status")
	if status == "" || len(msg.Data) > 0 || strings.HasPrefix(msg.Reply, "$JS.ACK.") {
		p.left--
		return true
	}
	text := msg.Header.Get("Description")
	switch {
	case status == "100": // idle heartbeat
	case status == "404", status == "408": // nothing there; the wait is over
		p.over = true
	case isBatchCompleted(msg): // comes after the last of the n, or in the pull that follows
	case status == "409" && text == "Message Size Exceeds MaxBytes": // the next one is for another pull
		p.over = true
	case status == "503":
		p.over, p.err = true, nats.ErrNoResponders
	default: // 409 and others: consumer gone, leadership changed, server going down, …
		p.over, p.err = true, fmt.Errorf("status %s %s", status, text)
	}
	return false
}

// isBatchCompleted tells the status by which the broker ends a pull that has
// bytes left. Nobody waits for it.
func isBatchCompleted(msg *nats.Msg) bool {
	return len(msg.Data) == 0 && msg.Header.Get("Status") == "409" && msg.Header.Get("Description") == "Batch Completed"
}

// end gives the inbox back.
func (p *pulling) end() {
	p.giveUp.Stop()
	p.q.pulls.put(p.in, p.over || p.left == 0)
}

// brokerAnswer answers a delivery, without waiting. The connection sends what
// has come together in one piece.
type brokerAnswer struct {
	nc    *nats.Conn
	reply string
}

var (
	plainAck = []byte("+ACK")
	plainNak = []byte("-NAK")
)

// Ack implements Answer.
func (a brokerAnswer) Ack() error { return a.nc.Publish(a.reply, plainAck) }

// Nak implements Answer.
func (a brokerAnswer) Nak() error { return a.nc.Publish(a.reply, plainNak) }

// NakWithDelay implements Answer.
func (a brokerAnswer) NakWithDelay(delay time.Duration) error {
	return a.nc.Publish(a.reply, fmt.Appendf(nil, `-NAK {"delay": %d}`, delay.Nanoseconds()))
}
