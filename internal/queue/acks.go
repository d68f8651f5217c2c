package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// outgoing is one message on its way to a stream, and JetStream's answer to it.
type outgoing struct {
	msg   *nats.Msg
	alone bool // must not go into an atomic batch

	seq       uint64
	duplicate bool
	err       error
	done      chan struct{} // closed with the answer; nil if only the sender waits for it
}

func (o *outgoing) finish(seq uint64, duplicate bool, err error) {
	o.seq, o.duplicate, o.err = seq, duplicate, err
	if o.done != nil {
		close(o.done)
	}
}

// acks publishes messages and reads JetStream's answers. jetstream's own futures do the same
// with two channels, a timer and reflection for each message, which showed in profiles at
// thousands of orders a second. It is safe for concurrent use.
type acks struct {
	nc     *nats.Conn
	link   *link
	prefix string // of the answers' subjects; the numbers of the group and of the message follow it

	mu   sync.Mutex
	last uint64
	open map[uint64]*group
}

// group is several messages that are sent without waiting in between.
type group struct {
	waiting  []*outgoing // nil once finished
	left     int
	answered int           // by JetStream
	over     chan struct{} // closed when nothing is left
}

// start subscribes to the answers.
func (a *acks) start(nc *nats.Conn, l *link) error {
	inbox := nc.NewInbox()
	a.nc, a.link, a.prefix, a.open = nc, l, inbox+".", make(map[uint64]*group)
	_, err := nc.Subscribe(inbox+".*.*", a.receive)
	return err
}

// send sends messages, each unless may returns an error, and finishes every one of them: when
// JetStream answers it, or when the connection breaks, ctx ends, or wait is over. It reports
// whether JetStream answered all of them.
func (a *acks) send(ctx context.Context, out []*outgoing, wait time.Duration, may func() error) (answered bool) {
	whole := a.link.unbroken()
	g := &group{waiting: append([]*outgoing(nil), out...), left: len(out), over: make(chan struct{})}
	id := a.begin(g)
	for i, o := range out {
		err := may()
		if err == nil {
			o.msg.Reply = a.prefix + strconv.FormatUint(id, 10) + "." + strconv.Itoa(i)
			err = a.nc.PublishMsg(o.msg)
		}
		if err != nil {
			a.mu.Lock()
			g.finish(i, 0, false, err)
			a.mu.Unlock()
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var err error
	select {
	case <-g.over:
	case <-whole.Done():
		err = errLinkBroken
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = nats.ErrTimeout
	}
	return a.end(id, g, err)
}

func (a *acks) begin(g *group) (id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	a.open[a.last] = g
	return a.last
}

// end finishes what has no answer with err, and reports whether there was nothing of the kind.
func (a *acks) end(id uint64, g *group, err error) (answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range g.waiting {
		g.finish(i, 0, false, err)
	}
	delete(a.open, id)
	return g.answered == len(g.waiting)
}

// finish finishes a message of the group, unless it is finished. acks.mu guards it.
func (g *group) finish(i int, seq uint64, duplicate bool, err error) bool {
	o := g.waiting[i]
	if o == nil {
		return false
	}
	g.waiting[i] = nil
	o.finish(seq, duplicate, err)
	if g.left--; g.left == 0 {
		close(g.over)
	}
	return true
}

// receive handles an answer. One that comes late belongs to no group.
func (a *acks) receive(msg *nats.Msg) {
	first, second, _ := strings.Cut(strings.TrimPrefix(msg.Subject, a.prefix), ".")
	id, _ := strconv.ParseUint(first, 10, 64)
	i, errIndex := strconv.ParseUint(second, 10, 32)
	seq, duplicate, err := readAck(msg)
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.open[id]
	if g != nil && errIndex == nil && i < uint64(len(g.waiting)) && g.finish(int(i), seq, duplicate, err) {
		g.answered++
	}
}

// readAck reads JetStream's answer to one message: its sequence, or why it was
// not stored.
func readAck(msg *nats.Msg) (seq uint64, duplicate bool, err error) {
	if seq, ok := plainAckOf(msg.Data); ok {
		return seq, false, nil
	}
	if msg.Header.Get("Status") == "503" {
		return 0, false, jetstream.ErrNoStreamResponse
	}
	var answer struct {
		Error     *jetstream.APIError `json:"error"`
		Stream    string              `json:"stream"`
		Seq       uint64              `json:"seq"`
		Duplicate bool                `json:"duplicate"`
	}
	err = json.Unmarshal(msg.Data, &answer)
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("acknowledgement is not valid JSON: %w", err)
	case answer.Error != nil:
		return 0, false, answer.Error
	case answer.Stream == "" || answer.Seq == 0:
		return 0, false, jetstream.ErrInvalidJSAck
	default:
		return answer.Seq, answer.Duplicate, nil
	}
}

var seqName = []byte(`"seq":`)

// plainAckOf reads {"stream":"NAME", "seq":NUMBER}, the form of nearly all
// answers. ok is false for any other form.
func plainAckOf(data []byte) (seq uint64, ok bool) {
	at := bytes.Index(data, seqName)
	if at < 1 || data[at-1] == '\\' || !bytes.HasPrefix(data, []byte(`{"stream":"`)) || bytes.IndexByte(data, '}') != len(data)-1 {
		return 0, false
	}
	for _, c := range data[at+len(seqName) : len(data)-1] {
		if c < '0' || c > '9' || seq > 1<<60 {
			return 0, false
		}
		seq = seq*10 + uint64(c-'0')
	}
	return seq, seq > 0
}
