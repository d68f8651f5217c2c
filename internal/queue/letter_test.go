package queue

import (
	"bytes"
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

// openSmall connects to a broker with NATS's own max_payload, as external ones
// have it.
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
	in.Body = bytes.Repeat([]byte{'x'}, 1<<20-letterReserve+1)
	_, err := q.Publish(t.Context(), in)
	require.ErrorIs(t, err, ErrTooLarge)
	results := q.PublishMany(t.Context(), []Intent{in, intent("A-2", "i2")})
	require.ErrorIs(t, results[0].Err, ErrTooLarge)
	require.Equal(t, Stored, results[1].Published)
}

// R4: another program published a body that leaves no room for a letter's
// header, with headers that no JSON text can carry.
func TestR4ALetterKeepsEveryByte(t *testing.T) {
	q := openSmall(t)
	msg := nats.NewMsg(q.n.newPre + "A-1")
	msg.Data = bytes.Repeat([]byte{0xff, 0, '\n', '"'}, (1<<20-512)/4)
	msg.Header = nats.Header{
		HeaderIntentID: {"i1"}, "X-Latin": {"caf\xe9", "plain"}, "X-Quote": {`"\u0000`}, "traceparent": {"00-1"}, HeaderBatch: {"b"},
	}
	_, err := q.js.PublishMsg(t.Context(), msg)
	require.NoError(t, err)
	d := pull(t, q, 1)[0]
	require.Equal(t, WorkInvalid, d.Work)
	settleAs(t, q, d, order.Report{End: order.EndInvalid, Error: d.Invalid.Error()})
	requireDrained(t, q)

	l := letterOf(t, q, "A-1")
	require.Equal(t, order.OutcomeInvalid, l.Outcome)
	require.True(t, bytes.Equal(msg.Data, l.Body), "%d bytes of %d", len(l.Body), len(msg.Data))
	require.Equal(t, map[string][]string(msg.Header), l.Headers)
	require.Equal(t, msg.Subject, l.Subject)
	require.EqualValues(t, 1, requireBalanced(t, q).Letters, "the second part is none of its own")
	c, err := q.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Letters, "nor does it count as one")

	require.NoError(t, q.store.DeleteLetter(t.Context(), "A-1", l))
	require.NoError(t, q.store.DeleteLetter(t.Context(), "A-1", l), "gone already: not an error")
	info, err := q.js.Stream(t.Context(), q.n.dead)
	require.NoError(t, err)
	require.Zero(t, info.CachedInfo().State.Msgs, "with all its parts")
}

// R4: a letter is replaced by a newer one; killed in between, the old one still
// has its own body.
func TestR4AReplacedLetterNeverMixesBodies(t *testing.T) {
	q := openSmall(t)
	big := func(id string, fill byte) *Letter {
		return &Letter{OrderNo: "A-1", Outcome: order.OutcomeRejected, IntentID: id, Subject: "orders.new.A-1",
			FiledAt: time.Now().UTC(), Body: bytes.Repeat([]byte{fill}, 1<<20-1000)}
	}
	first, second := big("i1", 'a'), big("i2", 'b')
	publish(t, q, intent("A-1", "i2"))
	d := pull(t, q, 1)[0]
	require.NoError(t, q.fileLetter(t.Context(), d, first))
	require.ErrorIs(t, q.store.PutLetter(t.Context(), "A-1", second, 99), settle.ErrStale) // its tail is there, its head is not
	require.Equal(t, first.Body, letterOf(t, q, "A-1").Body)

	require.NoError(t, q.fileLetter(t.Context(), d, second))
	got := letterOf(t, q, "A-1")
	require.Equal(t, second.Body, got.Body)
	require.Equal(t, "i1", got.Earlier[0].IntentID)
	info, err := q.js.Stream(t.Context(), q.n.dead)
	require.NoError(t, err)
	require.EqualValues(t, 2, info.CachedInfo().State.Msgs, "one letter in two parts")
}

// R4, R7: whose claim is over files no letter. The order may have turned out to
// be accepted meanwhile, and nobody would remove the letter any more.
func TestR4NoLetterIsFiledOnceTheClaimIsOver(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	stored := settleAs(t, q, d, report(order.Rejected, d.History))
	require.Equal(t, order.OutcomeRejected, stored.Record.Outcome())
	requireDrained(t, q)
	require.NoError(t, q.store.DeleteLetter(t.Context(), "A-1", letterOf(t, q, "A-1")))
	d.lease.endNow()
	require.NoError(t, q.complete(t.Context(), d, stored, nil), "left to the next owner")
	c, err := q.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.Letters)
}

// A letter's particulars fit whatever an order, an API or a producer makes of
// them.
func TestALettersHeaderAlwaysFits(t *testing.T) {
	huge := strings.Repeat("\x01", 30_000) // six bytes each in JSON
	l := &Letter{OrderNo: huge, Outcome: order.OutcomeRejected, Reason: huge, Error: huge, Response: huge, Subject: huge + "\xff",
		Headers: map[string][]string{"A": {huge}, "B\xff": {huge}}, Batch: cut(huge, maxLabel), Source: cut(huge, maxLabel), IntentID: "i1"}
	for range maxTrail {
		l.Trail = append(l.Trail, order.Attempt{Reason: strings.Repeat("é", 5000)})
	}
	for range maxEarlier {
		l.Earlier = append(l.Earlier, Earlier{IntentID: "i0", Reason: huge})
	}
	text, err := letterHeader(l)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), letterReserve-4096)
	require.Contains(t, text, `"intent_id":"i1"`)
	require.NotNil(t, l.Headers, "the letter itself is not cut")
	require.NotContains(t, text, "\n")
}

func TestCutKeepsCharactersWhole(t *testing.T) {
	for n := range 8 {
		require.NotContains(t, cut("aé漢b", n), "\ufffd")
		require.LessOrEqual(t, len(cut("aé漢b", n)), n)
	}
	require.Equal(t, "aé", cut("aé漢b", 5))
}

// R4: a subject that no order_no encodes to, wildcards included, is recorded
// under a hash.
func TestR4AForeignSubjectIsFiledUnderAHash(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	for i, token := range []string{"caf\xe9", strings.Repeat("x", 3000), "%zz", "a$b"} {
		msg := nats.NewMsg(q.n.newPre + token)
		msg.Data = body("A-1")
		_, err := q.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err, "%q", cut(token, 20))
		d := pull(t, q, 1)[0]
		require.Equal(t, WorkInvalid, d.Work)
		settleAs(t, q, d, order.Report{End: order.EndInvalid, Error: d.Invalid.Error()})
		requireDrained(t, q)
		l, err := q.store.Letter(t.Context(), d.token)
		require.NoError(t, err)
		require.Equal(t, msg.Subject, l.Subject)
		require.EqualValues(t, i+1, requireBalanced(t, q).Settled)
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
