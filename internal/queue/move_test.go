package queue

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// R13: no condition of a publish keeps a feeder that was frozen from storing a settled
// intent again. The broker answers for a subject whose message is gone as for one that
// never had any. If that changes, docs/protocol.md can close the gap.
func TestR13AWorkQueueForgetsTheSubjectsOfSettledIntents(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	conditional := func(id string, opts ...jetstream.PublishOpt) error {
		m := natsMsg(q.Producer.IntentMessage(intent("A-1", id)))
		m.Header.Del(nats.MsgIdHdr)
		_, err := q.Conn.js.PublishMsg(t.Context(), m, opts...)
		return err
	}
	none := jetstream.WithExpectLastSequencePerSubject(0)
	require.NoError(t, conditional("i1", none))
	require.ErrorContains(t, conditional("i1", none), "wrong last sequence", "pending")

	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Accepted, d.History))
	requireDrained(t, q)
	require.NoError(t, conditional("i1", none), "settled")
}
