package queue

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// inboxes keeps subscriptions for answers that come in several messages. To
// subscribe anew for each request costs the broker as much as the request.
type inboxes struct {
	nc   *nats.Conn
	mu   sync.Mutex
	free []*inbox
}

// inbox is one such subscription. Whoever has it is the only one, and gives it
// back only when nothing more can come.
type inbox struct {
	subject string
	sub     *nats.Subscription
	answers chan *nats.Msg
}

// inboxRoom is for the most answers that one request has (the server answers no
// more than 1,024 subjects at once), and its end marker.
const inboxRoom = 1024 + 8

func (i *inboxes) take() (*inbox, error) {
	for in := i.kept(); in != nil; in = i.kept() {
		if in.quiet() {
			return in, nil
		}
		_ = in.sub.Unsubscribe() // something came late; who asked for it has gone
	}
	in := &inbox{subject: i.nc.NewInbox(), answers: make(chan *nats.Msg, inboxRoom)}
	var err error
	in.sub, err = i.nc.ChanSubscribe(in.subject, in.answers)
	return in, err
}

// quiet says that nothing has come since the last request but its final status,
// of which it makes the inbox empty.
func (in *inbox) quiet() bool {
	for {
		select {
		case msg := <-in.answers:
			if !isBatchCompleted(msg) {
				return false
			}
		default:
			return true
		}
	}
}

func (i *inboxes) kept() *inbox {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := len(i.free)
	if n == 0 {
		return nil
	}
	in := i.free[n-1]
	i.free = i.free[:n-1]
	return in
}

// put gives an inbox back; over: its request was answered to the end, so that
// nothing more can come. An order that came late would pass for one of the next
// pull's, and its claim for younger than it is.
func (i *inboxes) put(in *inbox, over bool) {
	if !over {
		_ = in.sub.Unsubscribe()
		return
	}
	i.mu.Lock()
	i.free = append(i.free, in)
	i.mu.Unlock()
}
