package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// maxWriteBatch and maxWriteBytes bound one flush. Larger flushes gain little and
// delay every write in them.
const (
	maxWriteBatch = 256
	maxWriteBytes = 4 << 20
)

// write is one conditional write, from put to its answer.
type write struct {
	msg      *nats.Msg
	replaces bool // its condition names a message
	seq      uint64
	err      error
	done     chan struct{}
}

func (r *write) finish(seq uint64, err error) {
	r.seq, r.err = seq, err
	close(r.done)
}

// acks publishes the writes of one flush and reads JetStream's answers. It
// sends all writes before it waits for the first answer. jetstream's own
// futures do the same with two channels, a timer and reflection for each
// message, which showed in profiles at thousands of orders a second. One
// goroutine uses it.
type acks struct {
	nc      *nats.Conn
	link    *link
	prefix  string // of the answers' subjects; the write's serial follows it
	answers chan *nats.Msg
	serial  uint64 // of the next write
	timer   *time.Timer
	waiting []*write // the writes of this flush; nil once answered
}

// ready subscribes to the answers on the first call.
func (a *acks) ready() error {
	if a.answers != nil {
		return nil
	}
	answers := make(chan *nats.Msg, 4*maxWriteBatch) // with room for late answers to a flush that was given up
	inbox := a.nc.NewInbox()
	if _, err := a.nc.ChanSubscribe(inbox+".*", answers); err != nil {
		return err
	}
	a.prefix, a.answers, a.timer = inbox+".", answers, time.NewTimer(requestTimeout)
	return nil
}

// flush finishes every write of batch: when JetStream answers it, when the
// connection breaks, or after requestTimeout. It reports whether JetStream
// answered all of them.
func (a *acks) flush(batch []*write) (answered bool) {
	broken := a.link.disconnected()
	if err := a.ready(); err != nil {
		finishAll(batch, writeError(err))
		return false
	}
	a.timer.Reset(requestTimeout)
	serial, open := a.serial, 0
	a.serial += uint64(len(batch))
	a.waiting = append(a.waiting[:0], batch...)
	for i, req := range batch {
		req.msg.Reply = a.prefix + strconv.FormatUint(serial+uint64(i), 10)
		if err := a.nc.PublishMsg(req.msg); err != nil {
			req.finish(0, writeError(err))
			a.waiting[i] = nil
			continue
		}
		open++
	}
	answered = open == len(batch)
	for ; open > 0; open-- {
		i, msg, err := a.next(serial, broken)
		if err != nil {
			finishAll(a.waiting, writeError(err))
			return false
		}
		a.waiting[i].finish(readAck(msg))
		a.waiting[i] = nil
	}
	return answered
}

// next waits for an answer to one of the writes whose serials begin at first.
func (a *acks) next(first uint64, broken <-chan struct{}) (i int, msg *nats.Msg, err error) {
	for {
		select {
		case msg = <-a.answers:
			serial, err := strconv.ParseUint(strings.TrimPrefix(msg.Subject, a.prefix), 10, 64)
			i := serial - first
			if err == nil && serial >= first && i < uint64(len(a.waiting)) && a.waiting[i] != nil {
				return int(i), msg, nil
			} // other answers belong to a flush that was given up
		case <-broken:
			return 0, nil, errLinkBroken
		case <-a.timer.C:
			return 0, nil, nats.ErrTimeout
		}
	}
}

// finishAll finishes the writes of a batch that are not finished yet.
func finishAll(batch []*write, err error) {
	for _, req := range batch {
		if req != nil {
			req.finish(0, err)
		}
	}
}

// readAck reads JetStream's answer to one write: its sequence, or why it was
// not stored.
func readAck(msg *nats.Msg) (seq uint64, err error) {
	if seq, ok := plainAckOf(msg.Data); ok {
		return seq, nil
	}
	if msg.Header.Get("Status") == "503" {
		return 0, writeError(jetstream.ErrNoStreamResponse)
	}
	var answer struct {
		Error  *jetstream.APIError `json:"error"`
		Stream string              `json:"stream"`
		Seq    uint64              `json:"seq"`
	}
	err = json.Unmarshal(msg.Data, &answer)
	switch {
	case err != nil:
		return 0, writeError(fmt.Errorf("acknowledgement is not valid JSON: %w", err))
	case answer.Error != nil:
		return 0, writeError(answer.Error)
	case answer.Stream == "" || answer.Seq == 0:
		return 0, writeError(jetstream.ErrInvalidJSAck)
	default:
		return answer.Seq, nil
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
