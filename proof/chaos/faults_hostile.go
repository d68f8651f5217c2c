package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"orderpost/internal/order"
	"orderpost/internal/sandbox"
)

// The users of a separate broker. Producers have an account of their own, which reaches
// only the subjects of intents.
const (
	brokerUser   = "work:work"
	producerUser = "shop:shop"

	brokerAccounts = `accounts {
  WORK { jetstream: enabled, users: [{user: work, password: work}], exports: [{service: "orders.new.*"}] }
  SHOP { users: [{user: shop, password: shop}], imports: [{service: {account: WORK, subject: "orders.new.*"}}] }
}
`
)

// hostileFaults are attacks.
func hostileFaults() []fault {
	return []fault{
		{name: "giant-intents", what: "a hostile producer, in an account of its own where the broker has accounts: bodies of 1 to 8 MB, and replies to subjects of ours",
			weight: 1, most: time.Second, hostile: true, inject: giantIntents},
		{name: "small-disk", what: "the broker's disk is filled by somebody else, then emptied and enlarged", needs: []string{embeddedBroker, externalBroker},
			weight: 1, least: 2 * time.Second, most: 8 * time.Second, hostile: true, inject: fillDisk},
		{name: "api-other-orders", what: "a fifth of the answers are about another order; nothing is created", weight: 1,
			least: time.Second, most: 4 * time.Second, hostile: true, inject: otherOrders},
		{name: "api-told", what: "a fifth of the answers conclude by their status what their body denies, or say nothing; half of these orders are created", weight: 2,
			least: time.Second, most: 4 * time.Second, hostile: true, inject: toldAnswers},
	}
}

// toldAnswers draws an answer that must settle nothing by itself.
func toldAnswers(_ context.Context, r *rig, draw *rand.Rand) (heal, error) {
	answers := []sandbox.Told{
		{Status: 409, Body: `{"error":"insufficient_balance","message":"order was NOT created"}`},
		{Status: 409, Body: `{"order_no":{order_no},"status":"rejected","created":false}`},
		{Status: 409, Body: `<html><h1>409 Conflict</h1><p>nginx</p></html>`},
		{Status: 302, Body: `<html>see other</html>`},
		{Status: 303, Body: `{"order_no":{order_no},"status":"created"}`},
		{Status: 408, Body: ``},
		{Status: 200, Body: `{"approved":false}`},
		{Status: 200, Body: `{"code":0,"data":{"code":40012}}`},
	}
	told := answers[draw.IntN(len(answers))]
	set := func(rate float64) error {
		return r.api.Update(func(s *sandbox.Settings) {
			s.Faults.Told, s.Faults.ToldBefore, s.Faults.ToldAfter = told, rate, rate
		})
	}
	return func(context.Context) error { return set(0) }, set(0.1)
}

func otherOrders(_ context.Context, r *rig, _ *rand.Rand) (heal, error) {
	set := func(rate float64) error {
		return r.api.Update(func(s *sandbox.Settings) { s.Faults.Other = rate })
	}
	return func(context.Context) error { return set(0) }, set(0.2)
}

// shopURL returns the broker's URL for an untrusted producer.
func (r *rig) shopURL() (string, error) {
	url, err := r.brokerURL()
	return strings.ReplaceAll(url, brokerUser+"@", producerUser+"@"), err
}

// giantIntents publishes three kinds of intents: too large ones, which the broker must
// refuse; orders of the largest size, which must be settled like others; and orders
// whose reply subject is one of orderpost's, which no answer may reach.
func giantIntents(ctx context.Context, r *rig, draw *rand.Rand) (heal, error) {
	url, err := r.shopURL()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(url, nats.Name("chaos hostile producer"), nats.Timeout(2*time.Second))
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	prefix := fmt.Sprintf("G%d-%08x", r.o.seed, draw.Uint32())
	stored := 0
	send := func(no string, body []byte, must order.Outcome) error {
		r.intents.attempt(no)
		msg := nats.NewMsg("orders.new." + no)
		msg.Header.Set(nats.MsgIdHdr, no)
		msg.Data = body
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		answer, err := nc.RequestMsgWithContext(try, msg)
		if err != nil {
			return err
		}
		if !strings.Contains(string(answer.Data), `"error"`) {
			stored++
			r.intents.confirm(must, no)
		}
		return nil
	}
	const mebibyte = 1 << 20
	for i, size := range []int{8*mebibyte - 70_000, 4 * mebibyte, 2 * mebibyte, mebibyte + 100_000} {
		if err := send(fmt.Sprintf("%s-giant-%d", prefix, i), make([]byte, size), order.OutcomeInvalid); err != nil {
			return nil, err
		}
	}
	if stored > 0 {
		return func(context.Context) error { // fails the run
			return fmt.Errorf("the broker stored %d intents that are larger than an order can be", stored)
		}, nil
	}
	for i := range 10 {
		no := fmt.Sprintf("%s-large-%d", prefix, i)
		frame := fmt.Sprintf(`{"order_no":%q,"timeout":60,"note":"%%s"}`, no)
		if err := send(no, fmt.Appendf(nil, frame, strings.Repeat("x", mebibyte-len(frame))), order.OutcomeNone); err != nil {
			return nil, err
		}
	}
	for i, reply := range []string{"$KV.ORDERPOST.fleet.hold", "orders.results." + prefix, "orders.dead." + prefix, "$JS.API.STREAM.PURGE.ORDERS_RESULTS"} {
		if r.nodes == nil {
			break // the embedded broker has one account: everybody with its token is trusted
		}
		no := fmt.Sprintf("%s-reply-%d", prefix, i)
		r.intents.attempt(no)
		msg := &nats.Msg{Subject: "orders.new." + no, Reply: reply, Data: fmt.Appendf(nil, `{"order_no":%q,"timeout":60}`, no)}
		if err := nc.PublishMsg(msg); err != nil {
			return nil, err
		}
	}
	return nil, nc.FlushTimeout(2 * time.Second)
}
