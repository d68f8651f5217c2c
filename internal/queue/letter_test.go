package queue

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// openSmall connects to a broker with NATS's default max_payload, like most
// external ones.
func openSmall(t *testing.T) *Queue {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true, MaxPayload: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return openQueue(t, s, "a")
}

func TestIntakeRefusesWhatNoLetterCouldHold(t *testing.T) {
	q := openSmall(t)
	in := intent("A-1", "i1")
	in.Body = bytes.Repeat([]byte{'x'}, 1<<20-settle.LetterReserve+1)
	_, err := q.Producer.Publish(t.Context(), in)
	require.ErrorIs(t, err, settle.ErrTooLarge)
	results := q.PublishMany(t.Context(), []settle.Intent{in, intent("A-2", "i2")})
	require.ErrorIs(t, results[0].Err, settle.ErrTooLarge)
	require.Equal(t, settle.Stored, results[1].Status)
}

// R4: another program publishes a body that leaves no room for a letter's
// header, with headers that JSON text cannot carry.
func TestR4ALetterKeepsEveryByte(t *testing.T) {
	q := openSmall(t)
	msg := nats.NewMsg(q.Conn.n.newPre + "A-1")
	msg.Data = bytes.Repeat([]byte{0xff, 0, '\n', '"'}, (1<<20-512)/4)
	msg.Header = nats.Header{
		settle.HeaderIntentID: {"i1"}, "X-Latin": {"caf\xe9", "plain"}, "X-Quote": {`"\u0000`}, "traceparent": {"00-1"}, settle.HeaderBatch: {"b"},
	}
	_, err := q.Conn.js.PublishMsg(t.Context(), msg)
	require.NoError(t, err)
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkInvalid, d.Work)
	settleAs(t, q, d, order.Report{End: order.EndInvalid, Error: d.Invalid.Error()})
	requireDrained(t, q)

	l := letterOf(t, q, "A-1")
	require.Equal(t, order.OutcomeInvalid, l.Outcome)
	require.True(t, bytes.Equal(msg.Data, l.Body), "%d bytes of %d", len(l.Body), len(msg.Data))
	require.Equal(t, map[string][]string(msg.Header), l.Headers)
	require.Equal(t, msg.Subject, l.Subject)
	require.Len(t, everyMessage(t, q.Letters()), 1, "the second part is none of its own")
	c, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Letters, "nor does it count as one")

	require.NoError(t, q.store.DeleteLetter(t.Context(), "A-1", l))
	require.NoError(t, q.store.DeleteLetter(t.Context(), "A-1", l), "gone already: not an error")
	info, err := q.Conn.js.Stream(t.Context(), q.Conn.n.dead)
	require.NoError(t, err)
	require.Zero(t, info.CachedInfo().State.Msgs, "with all its parts")
}

// The header of a letter fits, whatever the order, the API or the producer puts
// into it.
func TestALettersHeaderAlwaysFits(t *testing.T) {
	huge := strings.Repeat("\x01", 30_000) // six bytes each in JSON
	l := &settle.Letter{OrderNo: huge, Outcome: order.OutcomeRejected, Reason: huge, Error: huge, Response: huge, Subject: huge + "\xff",
		Headers: map[string][]string{"A": {huge}, "B\xff": {huge}}, Batch: order.Truncate(huge, 1024), Source: order.Truncate(huge, 1024), IntentID: "i1"}
	for range 50 {
		l.Trail = append(l.Trail, order.Attempt{Reason: strings.Repeat("é", 5000)})
	}
	for range 10 {
		l.Earlier = append(l.Earlier, settle.Earlier{IntentID: "i0", Reason: huge})
	}
	text, err := letterHeader(l)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), settle.LetterReserve-4096)
	require.Contains(t, text, `"intent_id":"i1"`)
	require.NotNil(t, l.Headers, "the letter itself is not cut")
	require.NotContains(t, text, "\n")
}

// R4: a record about a subject that no order_no encodes to, wildcards included,
// is filed under a hash.
func TestR4AForeignSubjectIsFiledUnderAHash(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	for i, token := range []string{"caf\xe9", strings.Repeat("x", 3000), "%zz", "a$b"} {
		msg := nats.NewMsg(q.Conn.n.newPre + token)
		msg.Data = body("A-1")
		_, err := q.Conn.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err, "%q", order.Truncate(token, 20))
		d := pull(t, q, 1)[0]
		require.Equal(t, settle.WorkInvalid, d.Work)
		settleAs(t, q, d, order.Report{End: order.EndInvalid, Error: d.Invalid.Error()})
		requireDrained(t, q)
		l, err := q.store.Letter(t.Context(), settle.FileToken(token))
		require.NoError(t, err)
		require.Equal(t, msg.Subject, l.Subject)
		require.Len(t, everyMessage(t, q.Results()), i+1)
		entry, err := q.store.Record(t.Context(), settle.FileToken(token))
		require.NoError(t, err)
		require.Equal(t, order.OutcomeInvalid, entry.Record.Outcome())
	}
}

func TestABrokerTooSmallForLettersIsRefused(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true, MaxPayload: 64 << 10})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	cfg := DefaultConfig()
	cfg.URL, cfg.Token = s.URL, s.Token
	_, err = Open(t.Context(), cfg, zerolog.Nop())
	require.ErrorContains(t, err, "max_payload")
}
