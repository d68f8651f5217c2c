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
	i.mu.Lock()
	if n := len(i.free); n > 0 {
		in := i.free[n-1]
		i.free = i.free[:n-1]
		i.mu.Unlock()
		return in, nil
	}
	i.mu.Unlock()
	in := &inbox{subject: i.nc.NewInbox(), answers: make(chan *nats.Msg, inboxRoom)}
	var err error
	in.sub, err = i.nc.ChanSubscribe(in.subject, in.answers)
	return in, err
}

// put gives an inbox back; over: its request was answered to the end.
func (i *inboxes) put(in *inbox, over bool) {
	if !over {
		_ = in.sub.Unsubscribe()
		return
	}
	i.mu.Lock()
	i.free = append(i.free, in)
	i.mu.Unlock()
}
