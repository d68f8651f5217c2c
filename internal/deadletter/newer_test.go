package deadletter

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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

// rewrite stores the last message of a subject again as change makes it, and returns its sequence.
func rewrite(t *testing.T, js jetstream.JetStream, stream, subject string, change func(*nats.Msg)) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	last, err := s.GetLastMsgForSubject(t.Context(), subject)
	require.NoError(t, err)
	msg := &nats.Msg{Subject: subject, Header: last.Header, Data: last.Data}
	for _, name := range []string{"Nats-Expected-Last-Subject-Sequence", jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer} {
		msg.Header.Del(name)
	}
	change(msg)
	ack, err := js.PublishMsg(t.Context(), msg)
	require.NoError(t, err)
	return ack.Sequence
}

// TestRecordsOfANewerVersion: results and letters with fields that this version
// does not know are read, counted and worked off as if these were not there.
func TestRecordsOfANewerVersion(t *testing.T) {
	s := startBroker(t)
	q, js := openQueue(t, s, "a"), s.JetStream(t)
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
		records[no], letters[no] = lookup(t, q, no).Record, letterOf(t, q, no)
		records[no].Letter = rewrite(t, js, "ORDERS_DEAD", "orders.dead."+no, func(m *nats.Msg) {
			m.Header.Set("Order-Letter", string(fromTheFuture(t, []byte(m.Header.Get("Order-Letter")))))
			m.Header.Set("Order-Future", "x")
		})
		rewrite(t, js, "ORDERS_RESULTS", "orders.results."+no, func(m *nats.Msg) {
			data, err := json.Marshal(records[no])
			require.NoError(t, err)
			m.Data = fromTheFuture(t, data)
		})
		require.Equal(t, records[no], lookup(t, q, no).Record)
		now := letterOf(t, q, no)
		now.Seq = letters[no].Seq
		require.Equal(t, letters[no], now)
	}
	requireBalanced(t, q)

	rec, err := q.Operator.Resolve(t.Context(), "resolve", "", order.OutcomeAccepted, settle.Person{Name: "anna", Note: "seen"})
	require.NoError(t, err)
	require.Equal(t, "accepted", rec.Word)
	_, err = q.Operator.Drop(t.Context(), letterOf(t, q, "drop"), settle.Person{Name: "anna"})
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

	raw, err := q.Results().Peek(t.Context(), []string{"leave"})
	require.NoError(t, err)
	require.Contains(t, string(raw[0].Data), `"future":{"deep":{"er":1.5}}`, "what nobody worked on stays as it was written")
}

// Of a letter whose header cannot be read, the record says what it is about.
func TestLettersOfAnUnknownKind(t *testing.T) {
	s := startBroker(t)
	q, js := openQueue(t, s, "a"), s.JetStream(t)
	was := deadLetter(t, q, "A-1")
	entry := lookup(t, q, "A-1")
	entry.Record.Letter = rewrite(t, js, "ORDERS_DEAD", "orders.dead.A-1", func(m *nats.Msg) {
		m.Header.Set("Order-Letter", `{"order_no":"A-1","outcome":"postponed"}`)
	})
	_, err := q.Store().PutRecord(t.Context(), "A-1", entry.Record, entry.Seq)
	require.NoError(t, err)
	var page []*settle.Letter
	require.NoError(t, EachLetter(t.Context(), q, func(l *settle.Letter) error {
		page = append(page, l)
		return nil
	}))
	require.Len(t, page, 1)
	require.Equal(t, []any{"A-1", order.OutcomeRejected, "rule 2", was.IntentID, was.Body}, []any{page[0].OrderNo, page[0].Outcome, page[0].Reason, page[0].IntentID, page[0].Body})
}
