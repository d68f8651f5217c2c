package queue

import (
	"bytes"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

func TestR2OnlyACompleteBatchProvesAbsence(t *testing.T) {
	head := func(pairs ...string) nats.Header {
		h := nats.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for name, c := range map[string]struct {
		status string
		h      nats.Header
		done   bool
		err    error
	}{
		"nothing matches":          {"404", head("Description", "No Results"), true, nil},
		"a message did not load":   {"404", head("Description", "Message Not Found"), false, errIncomplete},
		"complete":                 {"204", head("Nats-Num-Pending", "0"), true, nil},
		"cut at the byte limit":    {"204", head("Nats-Num-Pending", "3"), false, errCut},
		"no stream answers":        {"503", head(), false, nats.ErrNoResponders},
		"too many results":         {"413", head(), false, errIncomplete},
		"end marker with no count": {"204", head(), false, errIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			done, err := endOfBatch(c.status, c.h)
			require.Equal(t, c.done, done)
			require.ErrorIs(t, err, c.err)
		})
	}
}

// An inbox that is used again still holds an order of a pull that was given up.
// That order must pass neither for one of the next pull nor for the answer to a
// read.
func TestAnInboxWithALateMessageIsNotUsedAgain(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	var said bytes.Buffer
	i := newInboxes(q.Conn.nc, zerolog.New(&said))
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
	require.Contains(t, said.String(), "came after its request had ended")
	i.put(next, false)
}

// A broker takes a request for no order as one for one.
func TestAPullForNoOrderIsRefused(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("F-1", "i1"))
	took := func(ds []*settle.Delivery) { require.Fail(t, "took", "%d orders", len(ds)) }
	require.ErrorContains(t, q.Pull(t.Context(), 0, time.Millisecond, took), "asked for 0 intents; at least 1")
	require.Equal(t, uint64(1), pull(t, q, 1)[0].Delivered)
}

// An order that the broker counts as delivered and that never came waits for its ACK_WAIT.
// Nothing else tells of it.
func TestAnOrderThatDoesNotComeIsTold(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "a")
	var said bytes.Buffer
	q.Conn.log = zerolog.New(&said)
	tell := func(wait, giveUp time.Duration, swallow bool) {
		p, err := q.startPull(2, wait)
		require.NoError(t, err)
		defer p.end()
		p.giveUp.Reset(giveUp)
		if swallow {
			<-p.in.answers
		}
		for msg := p.next(); msg != nil; msg = p.next() {
			require.NoError(t, q.arrival(msg).Answer.Ack())
		}
		q.ended(2, p)
	}
	publish(t, q, intent("F-1", "i1"), intent("F-2", "i2"), intent("F-3", "i3"))
	tell(time.Minute, time.Minute, false)
	tell(10*time.Millisecond, time.Minute, false)
	require.Empty(t, said.String(), "two came, then one")
	publish(t, q, intent("F-4", "i4"))
	tell(10*time.Millisecond, time.Minute, true)
	require.Contains(t, said.String(), `"asked":2,"came":0,"lost":1`)
	said.Reset()
	tell(time.Minute, 0, false)
	require.Contains(t, said.String(), `"asked":2,"came":0,"lost":0`, "the broker is silent")
}
