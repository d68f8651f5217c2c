package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// largeBody returns an order of nearly the largest size.
func largeBody(no string) []byte {
	const frame = `{"order_no":"%s","timeout":60,"note":"%s"}`
	return fmt.Appendf(nil, frame, no, strings.Repeat("x", order.MaxBody-len(frame)-len(no)))
}

// fill stores n large orders without the queue's own checks.
func fill(t *testing.T, q *Queue, n int) {
	t.Helper()
	for i := range n {
		no := fmt.Sprint("BIG-", i)
		_, err := q.Conn.js.Publish(t.Context(), q.Conn.n.newPre+no, largeBody(no))
		require.NoError(t, err)
	}
}

// The broker refuses an intent that is larger than an order may be, whoever
// publishes it, because its dead letter could not be stored (R4).
func TestR4TheBrokerRefusesGiants(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	_, err := q.Conn.js.Publish(t.Context(), q.Conn.n.newPre+"A-1", make([]byte, 2<<20))
	var api *jetstream.APIError
	require.ErrorAs(t, err, &api)
	require.EqualValues(t, codeMessageTooLarge, api.ErrorCode)
	require.ErrorIs(t, q.Conn.published("", 0, false, err).Err, settle.ErrTooLarge)
	_, err = q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "A-1", Body: make([]byte, order.MaxBody+1)})
	require.ErrorIs(t, err, settle.ErrTooLarge)
	_, err = q.Producer.Publish(t.Context(), settle.Intent{OrderNo: "A-1", Body: largeBody("A-1"), Batch: strings.Repeat("b", 40<<10)})
	require.NoError(t, err, "the largest order that is promised")
	require.Less(t, int64(settle.MaxIntentSize)+settle.LetterReserve, q.Conn.nc.MaxPayload(), "a letter fits into one message")
}

// A pull and a page end at their limit of bytes. So a client never lags further
// behind than the broker allows.
func TestPullsAndPagesAreBoundByBytes(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "a")
	const n = 30
	fill(t, q, n)
	pulls, got, most := 0, map[string]bool{}, 0
	for len(got) < n {
		size := 0
		require.NoError(t, q.Pull(t.Context(), 256, 200*time.Millisecond, func(ds []*settle.Delivery) {
			for _, d := range ds {
				size += len(d.Intent.Body)
				got[d.OrderNo()] = true
				settleAs(t, q, d, report(order.Accepted, d.History))
			}
		}))
		if size > 0 { // otherwise the broker was slower than the pull
			pulls++
		}
		most = max(most, size)
	}
	require.LessOrEqual(t, int64(most), q.pullBytes())
	require.Greater(t, pulls, 2)

	requireDrained(t, q)
	fill(t, q, n)
	seen := 0
	for page, err := range pages(t.Context(), q.reader.page, q.Conn.n.intents, q.Conn.n.newPre+"*", 1) {
		require.NoError(t, err)
		seen++
		require.LessOrEqual(t, len(page), answerBytes/order.MaxBody+1)
	}
	require.GreaterOrEqual(t, seen, n/(answerBytes/order.MaxBody+1))

	var nos []string
	for i := range n {
		nos = append(nos, fmt.Sprint("BIG-", i))
	}
	heads, err := q.Intents().Peek(t.Context(), append(slices.Clone(nos), "absent"))
	require.NoError(t, err)
	require.Nil(t, heads[n])
	for i, raw := range heads[:n] {
		require.Equal(t, q.Conn.n.newPre+nos[i], raw.Subject)
		require.Empty(t, raw.Data)
	}
	hashes := make([]string, n)
	require.NoError(t, q.Intents().Last(t.Context(), nos, func(i int, m *settle.Message) { hashes[i] = settle.ReadPending(nos[i], m).BodyHash }))
	require.NotContains(t, hashes, "")
}

// A message that was stored while somebody had lifted the limit is still delivered.
func TestAMessageAboveTheLimitIsDelivered(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	cfg := q.Conn.cfg.streams()[0].config
	cfg.MaxMsgSize = -1
	_, err := q.Conn.js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	_, err = q.Conn.js.Publish(t.Context(), q.Conn.n.newPre+"A-1", make([]byte, q.Conn.nc.MaxPayload()))
	require.NoError(t, err)
	_, err = reopen(t, q, func(*Config) {})
	require.NoError(t, err)
	require.Equal(t, settle.WorkInvalid, pull(t, q, 1)[0].Work)
}

// The status that ends a pull with bytes left may arrive when the inbox already
// serves the next pull, or lie in the inbox before that.
func TestALateEndOfAPullIsNotTheNextOnes(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	in, err := q.pulls.take()
	require.NoError(t, err)
	q.pulls.put(in, true)
	late := func() {
		msg := nats.NewMsg(in.subject)
		msg.Header["Status"], msg.Header["Description"] = []string{"409"}, []string{"Batch Completed"}
		require.NoError(t, q.Conn.nc.PublishMsg(msg))
		require.NoError(t, q.Conn.nc.Flush())
	}
	late()
	require.Eventually(t, func() bool { return len(in.answers) == 1 }, time.Minute, time.Millisecond)
	p, err := q.startPull(1, time.Minute)
	require.NoError(t, err)
	require.Same(t, in, p.in)
	late()
	publish(t, q, intent("A-1", "i1"))
	require.NotNil(t, p.next(), "%v", p.err)
	p.end()
}

// Silent names a stream whose writes the broker accepts and never answers.
func TestSilentNamesTheStreamThatIsNotAnswered(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	stream, _, _ := q.Silent()
	require.Empty(t, stream)
	q.results.failed.note(fmt.Errorf("%w: %w", errUnconfirmed, errLinkBroken))
	require.Zero(t, q.results.failed.since.Load(), "the connection broke")
	q.results.failed.note(errUnconfirmed)
	require.NotZero(t, q.results.failed.since.Load())
	q.results.failed.since.Add(-int64(silence))
	stream, since, why := q.Silent()
	require.Equal(t, q.Conn.n.results, stream)
	require.Positive(t, time.Since(since))
	require.ErrorContains(t, why, "its disk may be full or failing")
	q.Conn.onError(nil, nil, fmt.Errorf("%w: Permissions Violation for Publish to \"orders.results.A-1\"", nats.ErrPermissionViolation))
	_, _, why = q.Silent()
	require.ErrorContains(t, why, "orders.results.A-1")
	require.NotContains(t, why.Error(), "disk")
	q.results.failed.note(settle.ErrStale)
	stream, _, _ = q.Silent()
	require.Empty(t, stream)
	require.NotErrorIs(t, settle.ErrStale, errUnconfirmed)
}
