package queue

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// fromTheFuture adds to a JSON object what no version of today writes.
func fromTheFuture(t *testing.T, object []byte) []byte {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(object, &fields))
	fields["future"], fields["future_list"] = json.RawMessage(`{"deep":{"er":1.5}}`), json.RawMessage(`[null,"x",{}]`)
	out, err := json.Marshal(fields)
	require.NoError(t, err)
	return out
}

// rewrite stores the last message of a subject again as change makes it.
func rewrite(t *testing.T, q *Queue, stream, subject string, change func(*nats.Msg)) {
	t.Helper()
	raw, err := q.lastMsg(t.Context(), stream, subject)
	require.NoError(t, err)
	msg := &nats.Msg{Subject: subject, Header: nats.Header(raw.Header), Data: raw.Data}
	msg.Header.Del("Nats-Expected-Last-Subject-Sequence")
	change(msg)
	_, err = q.js.PublishMsg(t.Context(), msg)
	require.NoError(t, err)
}

// TestRecordsOfANewerVersion: results and letters with fields that this version
// does not know are read, counted and worked off as if these were not there.
func TestRecordsOfANewerVersion(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	nos := []string{"resolve", "drop", "replay", "correct", "leave"}
	for _, no := range nos {
		publish(t, q, intent(no, "i:"+no))
		d := pull(t, q, 1)[0]
		verdict := order.Rejected
		if no == "resolve" {
			verdict = order.Duplicate
		}
		settleAs(t, q, d, report(verdict, d.History))
	}
	requireDrained(t, q)
	records, letters := map[string]*order.Record{}, map[string]*settle.Letter{}
	for _, no := range nos {
		records[no], letters[no] = lookup(t, q, no), letterOf(t, q, no)
		rewrite(t, q, q.n.results, q.n.resPre+no, func(m *nats.Msg) { m.Data = fromTheFuture(t, m.Data) })
		rewrite(t, q, q.n.dead, q.n.deadPre+no, func(m *nats.Msg) {
			m.Header.Set(headerLetter, string(fromTheFuture(t, []byte(m.Header.Get(headerLetter)))))
			m.Header.Set("Order-Future", "x")
		})
		require.Equal(t, records[no], lookup(t, q, no))
		now := letterOf(t, q, no)
		now.Seq = letters[no].Seq
		require.Equal(t, letters[no], now)
	}
	requireBalanced(t, q)

	rec, err := q.Resolve(t.Context(), "resolve", order.OutcomeAccepted, settle.Person{Name: "anna", Note: "seen"})
	require.NoError(t, err)
	require.Equal(t, "accepted", rec.Word)
	_, err = q.Drop(t.Context(), letterOf(t, q, "drop"), settle.Person{Name: "anna"})
	require.NoError(t, err)
	require.Equal(t, settle.Replayed, replay(t, q, letterOf(t, q, "replay"), settle.ReplayOptions{}))
	publish(t, q, settle.Intent{OrderNo: "correct", Body: []byte(`{"order_no":"correct","timeout":30,"qty":"2"}`), ID: "c2"})
	for _, d := range pull(t, q, 2) {
		require.Equal(t, settle.WorkSubmit, d.Work, d.OrderNo())
		settleAs(t, q, d, report(order.Accepted, d.History))
	}
	requireDrained(t, q)
	a := requireBalanced(t, q)
	require.Equal(t, map[string]uint64{"accepted": 3, "rejected": 2}, a.Outcomes)
	require.EqualValues(t, 1, a.Letters)

	raw, err := q.lastMsg(t.Context(), q.n.results, q.n.resPre+"leave")
	require.NoError(t, err)
	require.Contains(t, string(raw.Data), `"future":{"deep":{"er":1.5}}`, "what nobody worked on stays as it was written")
}

// TestLettersOfAnUnknownKind are named and left alone.
func TestLettersOfAnUnknownKind(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Rejected, d.History))
	requireDrained(t, q)
	rewrite(t, q, q.n.dead, q.n.deadPre+"A-1", func(m *nats.Msg) {
		m.Header.Set(headerLetter, `{"order_no":"A-1","outcome":"postponed"}`)
	})
	var unreadable []error
	require.NoError(t, q.LetterPages(t.Context(), func(page []*settle.Letter, bad []error) error {
		require.Empty(t, page)
		unreadable = append(unreadable, bad...)
		return nil
	}))
	require.Len(t, unreadable, 1)
	require.ErrorContains(t, unreadable[0], "postponed")
	c, err := q.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Letters)
}
