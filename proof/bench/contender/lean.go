package contender

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/valyala/fasthttp"
)

// leanWorker keeps the promises of the usual worker with stored outcomes, and
// is written for speed: fasthttp, one pass over the JSON, goroutines that
// handle one order after another. The order is acknowledged by the goroutine
// that reads the confirmation of its outcome.
type leanWorker struct {
	o      WorkerOptions
	client *fasthttp.HostClient
	js     jetstream.JetStream
	// room bounds the orders in hand, those included whose outcome is on its
	// way to the broker.
	room chan struct{}

	mu   sync.Mutex
	open map[*nats.Msg]jetstream.Msg // orders by their unconfirmed outcomes
}

// RunLean works until ctx ends, with o.InFlight orders in flight.
func RunLean(ctx context.Context, o WorkerOptions) error {
	client := &fasthttp.HostClient{Addr: strings.TrimPrefix(o.URL, "http://"), MaxConns: o.InFlight,
		ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, NoDefaultUserAgentHeader: true, MaxIdemponentCallAttempts: 1}
	w := &leanWorker{o: o, client: client, room: make(chan struct{}, 2*o.InFlight), open: make(map[*nats.Msg]jetstream.Msg, 2*o.InFlight)}
	link, err := o.connect(ctx, jetstream.WithPublishAsyncAckHandler(w.confirmed), jetstream.WithPublishAsyncErrHandler(w.unconfirmed))
	if err != nil {
		return err
	}
	defer link.Close()
	w.js = link.js
	msgs := make(chan jetstream.Msg)
	for range o.InFlight {
		go w.handleAll(ctx, msgs)
	}
	consuming, err := link.consumer.Consume(func(msg jetstream.Msg) {
		w.room <- struct{}{}
		msgs <- msg
	}, jetstream.PullMaxMessages(prefetch(o.InFlight)))
	if err != nil {
		return err
	}
	<-ctx.Done()
	consuming.Stop()
	return link.Flush()
}

// leanHand is what one goroutine uses again for each order.
type leanHand struct {
	codec
	req  fasthttp.Request
	resp fasthttp.Response
}

func (w *leanWorker) handleAll(ctx context.Context, msgs <-chan jetstream.Msg) {
	hand := &leanHand{codec: newCodec()}
	hand.req.SetRequestURI(w.o.URL + orderPath)
	hand.req.Header.SetMethod(http.MethodPost)
	hand.req.Header.SetContentType("application/json")
	hand.req.Header.Set("X-API-Key", APIKey)
	for {
		select {
		case msg := <-msgs:
			if err := w.handle(hand, msg); err != nil {
				w.again(msg, err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (w *leanWorker) handle(hand *leanHand, msg jetstream.Msg) error {
	number, err := hand.stamp(msg.Data(), time.Now().UnixMilli())
	if err != nil {
		return err
	}
	hand.req.Header.SetBytesV("X-Signature", hand.signature)
	hand.req.SetBodyRaw(hand.body)
	if err := w.client.Do(&hand.req, &hand.resp); err != nil {
		return err
	}
	if hand.resp.StatusCode() >= fasthttp.StatusInternalServerError {
		return fmt.Errorf("order %s: status %d: %s", number, hand.resp.StatusCode(), hand.resp.Body())
	}
	out := &nats.Msg{Subject: w.o.Outcomes + string(number), Data: appendOutcome(nil, number, hand.resp.StatusCode(), hand.resp.Body())}
	w.mu.Lock()
	w.open[out] = msg
	w.mu.Unlock()
	if _, err := w.js.PublishMsgAsync(out); err != nil {
		w.take(out)
		return fmt.Errorf("order %s: its outcome is not stored: %w", number, err)
	}
	return nil
}

// confirmed is called by the client library when the outcome is stored.
func (w *leanWorker) confirmed(_ jetstream.JetStream, out *nats.Msg, _ *jetstream.PubAck) {
	if msg := w.take(out); msg != nil {
		if err := msg.Ack(); err != nil {
			log.Println(err) // AckWait brings the order back
		}
		<-w.room
	}
}

// unconfirmed is called when it is not known to be stored.
func (w *leanWorker) unconfirmed(_ jetstream.JetStream, out *nats.Msg, err error) {
	if msg := w.take(out); msg != nil {
		w.again(msg, fmt.Errorf("an outcome is not stored: %w", err))
	}
}

// take gives the order of an outcome to the first that asks, and nil to others.
func (w *leanWorker) take(out *nats.Msg) jetstream.Msg {
	w.mu.Lock()
	defer w.mu.Unlock()
	msg := w.open[out]
	delete(w.open, out)
	return msg
}

func (w *leanWorker) again(msg jetstream.Msg, err error) {
	log.Println(err)
	_ = msg.NakWithDelay(retryDelay) // if it is lost, AckWait brings the order back
	<-w.room
}

// codec stamps and signs orders in one pass over their JSON, without building
// values. It knows the JSON that the verifier knows.
type codec struct {
	*verifier
	body      []byte
	signature []byte
	stampText []byte
}

func newCodec() codec { return codec{verifier: newVerifier()} }

var errUnknownJSON = errors.New("an order that is not compact JSON with an order_no and without a timestamp")

// stamp fills body and signature, and gives the order_no, which is valid as
// long as data.
func (c *codec) stamp(data []byte, timestampMS int64) (number []byte, err error) {
	if !c.split(data) {
		return nil, errUnknownJSON
	}
	for _, p := range c.pairs {
		switch string(p.name) {
		case "order_no":
			number = p.value
		case "timestamp":
			return nil, errUnknownJSON
		}
	}
	if len(number) == 0 {
		return nil, errUnknownJSON
	}
	c.stampText = strconv.AppendInt(c.stampText[:0], timestampMS, 10)
	c.pairs = append(c.pairs, pair{[]byte("timestamp"), c.stampText})
	c.body = append(c.body[:0], data[:len(data)-1]...)
	c.body = append(append(append(c.body, `,"timestamp":`...), c.stampText...), '}')
	c.signature = append(c.signature[:0], c.sign()...)
	return number, nil
}

// appendOutcome is outcome as JSON.
func appendOutcome(dst, number []byte, status int, answer []byte) []byte {
	dst = append(append(append(dst, `{"order_no":"`...), number...), `","status":`...)
	dst = append(strconv.AppendInt(dst, int64(status), 10), `,"answer":`...)
	if quoted, err := jsontext.AppendQuote(dst, answer); err == nil { // else it is not UTF-8: left empty
		dst = quoted
	} else {
		dst = append(dst, `""`...)
	}
	dst = append(dst, `,"at":"`...)
	dst = time.Now().UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, `"}`...)
}
