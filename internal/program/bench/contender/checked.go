package contender

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"orderpost/internal/order"
)

// groupMost is how many orders are looked up together, groupsAtOnce how many
// lookups are on their way.
const (
	groupMost    = 256
	groupsAtOnce = 4
)

// checks is the traffic with the broker that orderpost's guarantees need, done
// by the lean worker: orders that arrive together are looked up in the outcomes,
// and the highest of their sequences is noted, before any of them is posted. An
// outcome is a record as orderpost writes it, on condition that it is the first
// of its order. What these bytes and round trips cost is the bound of any worker
// that keeps the guarantees. The lean worker does not use what it reads: it has
// no leases, verdicts, retries or doubts.
type checks struct {
	w        *leanWorker
	link     link
	marks    jetstream.KeyValue
	stream   string // of the outcomes
	arrivals chan jetstream.Msg
	groups   chan struct{}
	handled  chan<- jetstream.Msg
}

// RunChecked is RunLean with that traffic. bucket is any bucket, stream the
// outcomes' stream; with more than one replica the leader is asked for its last
// outcome before each lookup.
func RunChecked(ctx context.Context, o WorkerOptions) error {
	return runLean(ctx, o, func(ctx context.Context, w *leanWorker, l link, handled chan<- jetstream.Msg) (func(jetstream.Msg), error) {
		name, err := l.js.StreamNameBySubject(ctx, o.Outcomes+"*")
		if err != nil {
			return nil, err
		}
		c := &checks{w: w, link: l, stream: name, handled: handled, arrivals: make(chan jetstream.Msg, 2*o.InFlight), groups: make(chan struct{}, groupsAtOnce)}
		if c.marks, err = l.js.KeyValue(ctx, o.Bucket); err != nil {
			return nil, err
		}
		w.record = recordOf
		go c.gather(ctx)
		return func(msg jetstream.Msg) { c.arrivals <- msg }, nil
	})
}

// gather looks up what has arrived, without waiting for more.
func (c *checks) gather(ctx context.Context) {
	for {
		select {
		case c.groups <- struct{}{}:
		case <-ctx.Done():
			return
		}
		var group []jetstream.Msg
		select {
		case msg := <-c.arrivals:
			group = append(group, msg)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(group) < groupMost; {
			select {
			case msg := <-c.arrivals:
				group = append(group, msg)
			default:
				more = false
			}
		}
		go func() {
			defer func() { <-c.groups }()
			c.admit(ctx, group)
		}()
	}
}

// admit passes a group on after its lookup and its mark.
func (c *checks) admit(ctx context.Context, group []jetstream.Msg) {
	marked := make(chan error, 1)
	go func() { marked <- c.mark(ctx, group[len(group)-1]) }()
	err := errors.Join(c.lookUp(ctx, group), <-marked)
	for _, msg := range group {
		if err != nil {
			c.w.again(msg, err)
			continue
		}
		select {
		case c.handled <- msg:
		case <-ctx.Done():
			return
		}
	}
}

func (c *checks) mark(ctx context.Context, last jetstream.Msg) error {
	meta, err := last.Metadata()
	if err != nil {
		return err
	}
	_, err = c.marks.Put(ctx, "bench", strconv.AppendUint(nil, meta.Sequence.Stream, 10))
	return err
}

// lookUp reads the last outcome of each order of a group in one batch.
func (c *checks) lookUp(ctx context.Context, group []jetstream.Msg) error {
	var names struct {
		OrderNo string `json:"order_no"`
	}
	subjects := make([]string, len(group))
	for i, msg := range group {
		if err := json.Unmarshal(msg.Data(), &names); err != nil {
			return err
		}
		subjects[i] = c.w.o.Outcomes + names.OrderNo
	}
	if c.w.o.Replicated {
		req := fmt.Appendf(nil, `{"last_by_subj":%q}`, c.w.o.Outcomes+"*")
		if _, err := c.link.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+c.stream, req); err != nil {
			return err
		}
	}
	req, err := json.Marshal(map[string]any{"multi_last": subjects})
	if err != nil {
		return err
	}
	answers := make(chan *nats.Msg, groupMost+1)
	inbox := c.link.NewInbox()
	sub, err := c.link.ChanSubscribe(inbox, answers)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.link.PublishRequest("$JS.API.DIRECT.GET."+c.stream, inbox, req); err != nil {
		return err
	}
	for {
		select {
		case msg := <-answers:
			if len(msg.Data) == 0 && msg.Header.Get("Status") != "" { // end of the batch, or nothing found
				return nil
			}
		case <-time.After(confirmTimeout):
			return nats.ErrTimeout
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// recordOf is an outcome as orderpost stores it.
func recordOf(msg jetstream.Msg, number []byte, status int, answer []byte) (data []byte, header nats.Header, err error) {
	now := time.Now().UTC()
	body := sha256.Sum256(msg.Data())
	record := order.Record{OrderNo: string(number), Verdict: order.Accepted, Status: status, Response: string(answer),
		History:    order.History{Attempts: 1, FirstAttemptAt: now, LastAttemptAt: now, LastTimestamp: now.UnixMilli()},
		EnqueuedAt: now, SettledAt: now, Worker: "lean-checked", Source: "bench", IntentID: nuid.Next(), BodyHash: hex.EncodeToString(body[:]), WriteID: nuid.Next(), Settled: 1}
	record.SetOutcome(order.OutcomeAccepted)
	data, err = record.AppendJSON(nil)
	return data, nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}}, err
}
