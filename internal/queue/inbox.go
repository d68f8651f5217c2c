package queue

import (
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// inboxes keeps subscriptions for requests that are answered by several
// messages. A new subscription for each request would cost the broker as much
// as the request.
type inboxes struct {
	nc   *nats.Conn
	log  zerolog.Logger
	mu   sync.Mutex
	free []*inbox
}

// inbox is one such subscription. One request uses it at a time, and returns it
// only when no more answers can come.
type inbox struct {
	subject string
	sub     *nats.Subscription
	answers chan *nats.Msg
}

// inboxRoom is the largest number of answers to one request, with its end
// marker. The server answers for at most 1,024 subjects at once.
const inboxRoom = 1024 + 8

// take returns a kept subscription, or a new one.
func (i *inboxes) take() (*inbox, error) {
	for in := i.kept(); in != nil; in = i.kept() {
		late := in.clean()
		if late == nil {
			return in, nil
		}
		i.log.Warn().Str("subject", late.Subject).Str("reply", late.Reply).Msg("an answer came after its request had ended; if it is an order, it comes again when its ACK_WAIT is over")
		_ = in.sub.Unsubscribe() // an answer came late; its request has ended
	}
	in := &inbox{subject: i.nc.NewInbox(), answers: make(chan *nats.Msg, inboxRoom)}
	var err error
	in.sub, err = i.nc.ChanSubscribe(in.subject, in.answers)
	return in, err
}

// clean discards the final status of the last request. It returns what else was left; nil =
// nothing.
func (in *inbox) clean() (late *nats.Msg) {
	for {
		select {
		case msg := <-in.answers:
			if !isBatchCompleted(msg) {
				return msg
			}
		default:
			return nil
		}
	}
}

// kept returns a kept subscription, or nil.
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

// put returns an inbox. over says that its request was answered to the end and
// no more answers can come. Otherwise put ends the subscription: an order that
// came late would pass for one of the next pull, and its claim would seem
// younger than it is.
func (i *inboxes) put(in *inbox, over bool) {
	if !over {
		_ = in.sub.Unsubscribe()
		return
	}
	i.mu.Lock()
	i.free = append(i.free, in)
	i.mu.Unlock()
}

// isBatchCompleted reports whether the message is the status that ends a pull
// with bytes left. No pull waits for it.
func isBatchCompleted(msg *nats.Msg) bool {
	return len(msg.Data) == 0 && msg.Header.Get("Status") == "409" && msg.Header.Get("Description") == "Batch Completed"
}
