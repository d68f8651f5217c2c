package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"orderpost/internal/settle"
)

// Pull requests at most n intents, and at most 1,000. It waits for them for at most wait, and for
// at most a third of a claim's term: claims run from before the pull, so a
// longer wait could let a lease expire before its message arrives. Pull checks
// deliveries against the results and passes them to take in groups as they
// arrive. A delivery whose check failed has Work WorkNone. It must only be
// given up.
//
// The caller must hold a free slot for each of the n, at least one: the broker takes a request
// for none as one for one (nats-server 2.15, waitQueue.pop), and nobody would wait for it. Pull returns when n
// intents have arrived or the wait has ended, and never earlier: a message that
// is on its way would reach nobody and come back as an unexplained delivery.
func (q *Queue) Pull(ctx context.Context, n int, wait time.Duration, take func([]*settle.Delivery)) error {
	if n < 1 {
		return fmt.Errorf("pull from stream %s: asked for %d intents; at least 1", q.Conn.n.intents, n)
	}
	q.holder.beforePull()
	start, err := q.Worker.BeginPull(ctx)
	if err != nil {
		return fmt.Errorf("pull from stream %s: %w", q.Conn.n.intents, err)
	}
	// After BeginPull, which waits for a connection: a reconnect between here and the request
	// ends the claim.
	if why := q.Conn.Refused(); why != "" {
		return fmt.Errorf("pull from stream %s: %s", q.Conn.n.intents, why)
	}
	n = min(n, pullMost)
	p, err := q.startPull(n, min(wait, q.Claims.Term()/3))
	if err != nil {
		return fmt.Errorf("pull from stream %s: %w", q.Conn.n.intents, err)
	}
	defer p.end()
	for msg := p.next(); msg != nil; msg = p.next() {
		group, err := q.withBodies(ctx, q.gather(msg, p))
		p.err = cmp.Or(p.err, err)
		q.holder.noteAnswer()
		take(q.Worker.Arrived(ctx, start, group))
	}
	q.ended(n, p)
	if p.err != nil {
		return fmt.Errorf("pull from stream %s: %w", q.Conn.n.intents, p.err)
	}
	return nil
}

// pullMost bounds what one pull asks for. A server whose own limit (max_request_batch) is
// lower is refused by [Topology.Inspect].
const pullMost = 1000

// ended draws the conclusions from how a pull for n intents ended.
func (q *Queue) ended(n int, p *pulling) {
	switch {
	case p.late || p.err != nil:
		q.holder.noteFailure() // after the last group, whose marks were read before this pull
	case p.over:
		q.holder.noteAnswer()
	}
	if p.lost > 0 || p.late && !p.over && p.left > 0 {
		q.Conn.log.Warn().Int("asked", n).Int("came", n-p.left).Int("lost", p.lost).
			Msg("the broker did not end a request for orders, or sent more than came; what was lost on the way comes again when its ACK_WAIT is over")
	}
}

// gather returns first and the messages that have arrived since, without
// waiting for more.
func (q *Queue) gather(first *nats.Msg, p *pulling) []settle.Arrival {
	group := []settle.Arrival{q.arrival(first)}
	for len(group) < settle.ReadBatch {
		msg := p.arrived()
		if msg == nil {
			return group
		}
		group = append(group, q.arrival(msg))
	}
	return group
}

// headerSize is set by the broker where a consumer hands out headers only. A producer may set it, too.
const headerSize = "Nats-Msg-Size"

// withBodies reads the bodies that the broker left out, because somebody made the consumer hand out
// headers only: without its body an order would end as invalid, and be lost. It leaves out arrivals
// whose body cannot be read now; the broker delivers them again.
func (q *Queue) withBodies(ctx context.Context, group []settle.Arrival) (whole []settle.Arrival, err error) {
	if !slices.ContainsFunc(group, bodiless) {
		return group, nil
	}
	for _, a := range group {
		if bodiless(a) {
			stored, readErr := q.reader.msgAt(ctx, q.Conn.n.intents, a.Seq)
			if readErr != nil {
				err = fmt.Errorf("consumer %s hands out headers only (headers_only): %w", q.Conn.n.consumer, readErr)
				continue
			}
			if stored != nil { // otherwise it is settled
				a.Data, a.Header = stored.Data, stored.Header
			}
		}
		whole = append(whole, a)
	}
	return whole, err
}

func bodiless(a settle.Arrival) bool { return len(a.Data) == 0 && a.Header.Get(headerSize) != "" }

// arrival converts a message.
func (q *Queue) arrival(msg *nats.Msg) settle.Arrival {
	a := settle.Arrival{Message: &settle.Message{Subject: msg.Subject, Header: settle.Header(msg.Header), Data: msg.Data},
		Answer: brokerAnswer{q.Conn.nc, msg.Reply}, Reply: msg.Reply}
	if meta, err := msg.Metadata(); err == nil { // a pulled message always has it
		a.Seq, a.Time, a.Delivered = meta.Sequence.Stream, meta.Timestamp, meta.NumDelivered
	}
	return a
}

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
	in, err := q.pulls.take()
	if err != nil {
		return nil, err
	}
	p := &pulling{q: q, in: in, left: n, broken: q.Conn.link.unbroken().Done(), giveUp: time.NewTimer(wait + pullGrace)}
	subject := pullSubjects + q.Conn.n.intents + "." + q.Conn.n.consumer
	if err := q.Conn.nc.PublishRequest(subject, in.subject, query{"batch": n, "expires": wait.Nanoseconds(), "max_bytes": q.pullBytes()}.json()); err != nil {
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
	return p.arrived() // before the pull was interrupted: the broker has delivered it to us, so it must be accounted for
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
