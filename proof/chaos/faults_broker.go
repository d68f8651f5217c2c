package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
)

// streamFull makes a stream refuse new messages, as a full disk or quota does, with a
// limit at its present size. A worker that starts meanwhile removes the limit, because
// it differs from the settings.
func streamFull(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	name := []string{"ORDERS", "ORDERS_RESULTS", "ORDERS_DEAD"}[draw.IntN(3)]
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := r.js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := r.limitBytes(ctx, name, int64(s.CachedInfo().State.Bytes)+1); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return r.unlimited(ctx, name) }, nil
}

// unlimited removes a stream's limit as soon as a broker is in reach.
func (r *rig) unlimited(ctx context.Context, name string) error {
	for {
		err := r.limitBytes(ctx, name, -1)
		if err == nil {
			return nil
		}
		if waitErr := pause(ctx, 200*time.Millisecond); waitErr != nil {
			return fmt.Errorf("%w: stream %s stays limited: %w", waitErr, name, err)
		}
	}
}

func (r *rig) limitBytes(ctx context.Context, name string, limit int64) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // the answer may be lost
	defer cancel()
	s, err := r.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	cfg := s.CachedInfo().Config
	cfg.MaxBytes = limit
	_, err = r.js.UpdateStream(ctx, cfg)
	return err
}

// hostileProducer bypasses the queue's checks and publishes intents that can never be
// sent. Those that the broker stores must end as invalid. Those that it refuses must
// leave no trace.
func hostileProducer(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	prefix := fmt.Sprintf("H%d-%08x", r.o.seed, draw.Uint32())
	stored := 0
	for i, bad := range hostileIntents(prefix) {
		id := fmt.Sprintf("%s-%d", prefix, i)
		bad.msg.Header.Set(nats.MsgIdHdr, id)
		r.intents.attempt(bad.orderNo)
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := r.js.PublishMsg(try, bad.msg, jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil {
			stored++
			r.intents.confirm(order.OutcomeInvalid, bad.orderNo)
		}
	}
	if stored == 0 {
		return nil, fmt.Errorf("no broker took a hostile intent")
	}
	return nil, nil
}

// hostile is an intent that can never be sent, and the order_no of its outcome.
type hostile struct {
	orderNo string
	msg     *nats.Msg
}

func hostileIntents(prefix string) []hostile {
	var all []hostile
	add := func(what, body string) *nats.Msg {
		no := prefix + "-" + what
		msg := nats.NewMsg("orders.new." + no)
		msg.Data = []byte(strings.ReplaceAll(body, "$NO", no))
		all = append(all, hostile{no, msg})
		return msg
	}
	const mebibyte = 1 << 20
	add("empty", "")
	add("garbage", "\x00\xff\xfe{{{")
	add("number", `{"order_no":12345,"timeout":60}`)
	add("other", `{"order_no":"somebody-elses","timeout":60}`)
	add("twice", `{"order_no":"$NO","timeout":60,"order_no":"$NO"}`)
	add("inexact", `{"order_no":"$NO","timeout":60,"amount":1e400}`)
	add("deep", `{"order_no":"$NO","timeout":60,"x":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+"}")
	add("array", `["$NO"]`)
	add("null", "null")
	add("truncated", `{"order_no":"$NO","timeout":6`)
	add("no-timeout", `{"order_no":"$NO"}`)
	add("surrogate", `{"order_no":"$NO","timeout":60,"x":"\ud800"}`)
	add("huge", strings.Repeat("x", mebibyte-70_000))
	add("too-large", strings.Repeat("x", mebibyte))
	many := add("headers", "{")
	for i := range 10_000 {
		many.Header.Set(fmt.Sprintf("X-%d", i), "v")
	}
	add("date", "{").Header.Set("Order-Deadline", "yesterday, perhaps")
	add("live", "{").Header.Set("Nats-Rollup", "all") // refused: the stream does not allow it
	// The broker stores a wildcard as it is, under its own name, and has no
	// stream for subjects with fewer or more tokens.
	for _, wild := range []struct{ subject, orderNo string }{
		{"orders.new.*", "*"}, {"orders.new.>", ">"}, {"orders.new." + prefix + ".deeper", prefix + ".deeper"}, {"orders.new", ""},
	} {
		all = append(all, hostile{wild.orderNo, &nats.Msg{Subject: wild.subject, Header: nats.Header{}, Data: []byte("xxxxxxxxxx")}})
	}
	return all
}
