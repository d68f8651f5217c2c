package service_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/queuetest"
)

// nats-server keeps no count for a subject with the byte 127, so it takes any number of
// messages under one. Each ends as invalid, with a letter, and the books balance.
func TestIntentsUnderASubjectThatTheBrokerDoesNotCount(t *testing.T) {
	r := newRig(t, order.Resubmit)
	w := r.start("w1", &netcut.Dialer{}, nil)
	js := r.broker.JetStream(t)
	for _, id := range []string{"a", "b", "c"} {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "orders.new.\x7f", Data: queuetest.Body("X-" + id), Header: nats.Header{nats.MsgIdHdr: {id}}})
		require.NoError(t, err)
	}
	r.publish(w.q, "A-1")
	records := r.settled(w.q)
	require.Len(t, records, 4)
	require.Equal(t, order.OutcomeAccepted, records["A-1"].Outcome())
	for _, id := range []string{"a", "b", "c"} {
		require.Zero(t, r.api.Created("X-"+id))
	}
}
