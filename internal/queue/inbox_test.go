package queue

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// An inbox that is used again still holds an order of a pull that was given up.
// That order must pass neither for one of the next pull nor for the answer to a
// read.
func TestAnInboxWithALateMessageIsNotUsedAgain(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	i := inboxes{nc: q.Conn.nc}
	first, err := i.take()
	require.NoError(t, err)
	i.put(first, true)
	again, err := i.take()
	require.NoError(t, err)
	require.Same(t, first, again, "a quiet one is")

	i.put(again, true)
	require.NoError(t, q.Conn.nc.PublishMsg(&nats.Msg{Subject: again.subject, Data: []byte("late")}))
	require.NoError(t, q.Conn.nc.Flush())
	require.Eventually(t, func() bool { return len(again.answers) == 1 }, time.Minute, time.Millisecond)
	next, err := i.take()
	require.NoError(t, err)
	require.NotSame(t, again, next)
	require.False(t, again.sub.IsValid())
	i.put(next, false)
}
