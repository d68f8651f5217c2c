package bench

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// hopAtOnce is how many orders the bare loop moves at once.
const hopAtOnce = 500

// hop moves every waiting order to the queue and keeps no rule: pull, publish,
// acknowledge.
func (s *stage) hop(ctx context.Context) error {
	nc, js, err := s.broker.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	consumer, err := js.CreateConsumer(ctx, queue.DefaultConfig().StreamPrefix+"_WAITING", jetstream.ConsumerConfig{Name: "hop", FilterSubject: "orders.waiting.bulk.bench",
		AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1, MemoryStorage: true})
	if err != nil {
		return err
	}
	for left := uint64(s.orders); left > 0; { // acknowledgements are on their way when none is left to pull
		if err := hopSome(ctx, js, consumer); err != nil {
			return fmt.Errorf("bare loop: %w", err)
		}
		if left, err = s.queue.WaitingTotal(ctx); err != nil {
			return err
		}
	}
	return js.DeleteConsumer(ctx, queue.DefaultConfig().StreamPrefix+"_WAITING", "hop") // the worker's own would overlap with it
}

// hopSome moves what one pull gives.
func hopSome(ctx context.Context, js jetstream.JetStream, consumer jetstream.Consumer) error {
	batch, err := consumer.FetchNoWait(hopAtOnce)
	if err != nil {
		return err
	}
	var page []jetstream.Msg
	for m := range batch.Messages() {
		page = append(page, m)
		out := &nats.Msg{Subject: queue.DefaultConfig().SubjectPrefix + ".new." + settle.WaitingOrderNo(&settle.Message{Data: m.Data()}), Header: nats.Header{}, Data: m.Data()}
		for _, name := range []string{settle.HeaderIntentID, settle.HeaderBatch} {
			out.Header.Set(name, m.Headers().Get(name))
		}
		if _, err := js.PublishMsgAsync(out); err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, m := range page {
		if err := m.Ack(); err != nil {
			return err
		}
	}
	return batch.Error()
}
