package queue

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

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

// R4: another program publishes a body that leaves little room for a letter's header, with headers that JSON text
// cannot carry.
func TestR4ALetterKeepsEveryByte(t *testing.T) {
	q := openSmall(t)
	headers := nats.Header{
		"X-Latin": {"caf\xe9", "plain"}, "X-Quote": {`"\u0000`}, "traceparent": {"00-1"}, settle.HeaderBatch: {"b"},
	}
	for no, size := range map[string]int{"A-1": 900_000, "A-2": 1<<20 - 2000, "A-3": 1<<20 - 512, "A-4": 1 << 20} {
		t.Run(no, func(t *testing.T) {
			msg := &nats.Msg{Subject: q.Conn.n.newPre + no, Header: maps.Clone(headers), Data: bytes.Repeat([]byte{0xff, 0, '\n', '"'}, size/4)}
			msg.Header.Set(settle.HeaderIntentID, "i:"+no)
			batch := "b"
			if size == 1<<20 {
				msg.Header, batch = nil, ""
			}
			_, err := q.Conn.js.PublishMsg(t.Context(), msg)
			require.NoError(t, err)
			d := pull(t, q, 1)[0]
			require.Equal(t, settle.WorkInvalid, d.Work)
			settleAs(t, q, d, order.Report{End: order.EndInvalid, Reason: "cannot be sent", Error: d.Invalid.Error()})
			requireDrained(t, q)

			l, rec := letterOf(t, q, no), lookup(t, q, no)
			require.True(t, bytes.Equal(msg.Data, l.Body), "%d bytes of %d", len(l.Body), len(msg.Data))
			require.Equal(t, []string{no, d.Intent.ID, batch, "cannot be sent"}, []string{l.OrderNo, l.IntentID, l.Batch, l.Reason}, "the record says it, if the header does not")
			require.Equal(t, order.OutcomeInvalid, l.Outcome)
			require.True(t, rec.Position.Same(l.Position))
			if size == 900_000 {
				require.Equal(t, map[string][]string(msg.Header), l.Headers)
				require.Equal(t, msg.Subject, l.Subject)
			}
			c, err := q.Census.Count(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 1, c.Letters)
			_, err = q.Operator.Drop(t.Context(), l, settle.Person{Name: "anna"})
			require.NoError(t, err)
			c, err = q.Census.Count(t.Context())
			require.NoError(t, err)
			require.Zero(t, c.Letters)
		})
	}
}

// The header of a letter fits, whatever the order, the API or the producer puts into it, and whatever room there is.
func TestALettersHeaderAlwaysFits(t *testing.T) {
	huge := strings.Repeat("\x01", 30_000) // six bytes each in JSON
	l := &settle.Letter{OrderNo: huge, Outcome: order.OutcomeRejected, Reason: huge, Error: huge, Response: huge, Subject: huge + "\xff",
		Headers: map[string][]string{"A": {huge}, "B\xff": {huge}}, Batch: order.Truncate(huge, 1024), Source: order.Truncate(huge, 1024), IntentID: "i1"}
	for range 50 {
		l.Trail = append(l.Trail, order.Attempt{Reason: strings.Repeat("é", 5000)})
	}
	for _, most := range []int{settle.LetterReserve, 60_000, 30_000, 20_000, 1000, 100, 1, 0, -1, -5000} {
		text := letterHeader(l, most)
		require.LessOrEqual(t, len(text), max(most, 0))
		require.Equal(t, most >= 30_000, text != "", "%d bytes", most)
		require.NotContains(t, text, "\n")
		if text != "" {
			require.Contains(t, text, `"intent_id":"i1"`)
		}
	}
	require.NotNil(t, l.Headers, "the letter itself is not cut")
	l.FiledAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	require.Empty(t, letterHeader(l, settle.LetterReserve), "JSON has no such time")
}

// A letter whose header nobody can read is about what its record says.
func TestALetterWithAHeaderOfAnotherProgram(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "i1", Batch: "b1", Source: "march.csv:7"})
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Rejected, d.History))
	requireDrained(t, q)
	for _, header := range []string{"", "{", `{"outcome":"of a newer version"}`, `{"seq":"x"}`, "null", "[]"} {
		msg := nats.NewMsg(q.Conn.n.deadPre + "A-1")
		msg.Data = []byte("what was sent")
		msg.Header.Set(headerLetter, header)
		ack, err := q.Conn.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
		entry, err := q.Ledger.Lookup(t.Context(), "A-1")
		require.NoError(t, err)
		_, err = q.store.PutRecord(t.Context(), "A-1", entry.Record.WithLetter("i1", ack.Sequence), entry.Seq)
		require.NoError(t, err)
		l := letterOf(t, q, "A-1")
		require.Equal(t, []string{"A-1", "i1", "b1", "march.csv:7", "what was sent"}, []string{l.OrderNo, l.IntentID, l.Batch, l.Source, string(l.Body)})
		require.Equal(t, order.OutcomeRejected, l.Outcome)
	}
}

// R4: a dead-letter stream that was made again gives sequences again. A record may name one that belongs to another order now.
func TestR4ALetterOfAnotherOrderIsNeitherShownNorRemoved(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	reject := func(no string) {
		publish(t, q, intent(no, "i:"+no))
		d := pull(t, q, 1)[0]
		settleAs(t, q, d, report(order.Rejected, d.History))
		requireDrained(t, q)
	}
	reject("A-1")
	require.NoError(t, q.Conn.js.DeleteStream(t.Context(), q.Conn.n.dead))
	_, err := q.Topology.MakeLost(t.Context())
	require.NoError(t, err)
	reject("B-1")
	require.EqualValues(t, 1, lookup(t, q, "A-1").Letter)
	require.EqualValues(t, 1, lookup(t, q, "B-1").Letter)
	require.Nil(t, letterOf(t, q, "A-1"))
	publish(t, q, intent("A-1", "i2"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Accepted, d.History))
	requireDrained(t, q)
	require.Empty(t, lookup(t, q, "A-1").Letters())
	require.Equal(t, "i:B-1", letterOf(t, q, "B-1").IntentID)
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
		require.Len(t, everyMessage(t, q.Results()), i+1)
		entry, err := q.store.Record(t.Context(), settle.FileToken(token))
		require.NoError(t, err)
		l, err := q.store.Letter(t.Context(), settle.FileToken(token), entry.Record.Letter)
		require.NoError(t, err)
		require.Equal(t, msg.Subject, l.Subject)
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
