package queue

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// The answer to a deletion may be lost. Then the message is gone at the next try,
// which the broker says in another way for the first, a later and the last message.
func TestWhatIsGoneIsDeleted(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1", func(c *Config) { c.Worker = true })
	for stream, remove := range map[string]func(uint64) error{
		q.Conn.n.intents: func(seq uint64) error { return q.store.DeleteIntent(t.Context(), seq) },
		q.Conn.n.waiting: func(seq uint64) error { return q.store.DeleteWaiting(t.Context(), seq) },
	} {
		subject := q.Conn.n.newPre
		if stream == q.Conn.n.waiting {
			subject = q.Conn.n.waitPre + "bulk."
		}
		for i := range 5 {
			_, err := q.Conn.js.Publish(t.Context(), fmt.Sprintf("%sA-%d", subject, i), []byte("{}"))
			require.NoError(t, err)
		}
		for _, seq := range []uint64{3, 3, 1, 1, 5, 5, 2, 2} {
			require.NoError(t, remove(seq), "%s %d", stream, seq)
		}
		require.ErrorIs(t, q.reader.deleteMsg(t.Context(), stream, 3), jetstream.ErrMsgNotFound)
		require.ErrorContains(t, remove(99), "sequence 99: not removed", "the stream never had it")
		state, err := q.Conn.js.Stream(t.Context(), stream)
		require.NoError(t, err)
		require.EqualValues(t, 1, state.CachedInfo().State.Msgs)
	}
	var refused *jetstream.APIError
	require.ErrorAs(t, q.reader.deleteMsg(t.Context(), "NOWHERE", 1), &refused)
}
