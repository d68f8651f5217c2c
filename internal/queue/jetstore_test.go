package queue

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Records are read as encoding/json reads them.
func TestUnmarshalRecord(t *testing.T) {
	full, err := json.Marshal(order.Record{OrderNo: "A-1", Word: "rejected", Verdict: order.Rejected, Settled: 2, Letter: 3, Conflicts: []order.Conflict{{IntentID: "i"}},
		Earlier: []order.Earlier{{IntentID: "e", At: time.Unix(5, 7)}}, Moved: []string{"m"}, SettledAt: time.Unix(9, 0).UTC(), Position: order.Position{Seq: 4, Birth: 5}})
	require.NoError(t, err)
	for _, text := range []string{string(full), `{"Order_No":"A-1","SETTLED":3}`, `{"settled":1,"settled":2}`, `{"order_no":"\ud800","response":null}`, "{\"order_no\":\"\xff\"}",
		`{"settled":"1"}`, `{"settled":1.0}`, `{"settled_at":"2026-11-29T23:00:00.5+01:00","conflicts":[],"x":{"y":[]}}`, `{"settled_at":"yesterday"}`, `[]`, `null`, ``, `{} {}`} {
		var got, want order.Record
		gotErr, wantErr := unmarshalRecord([]byte(text), &got), json.Unmarshal([]byte(text), &want)
		require.Equal(t, wantErr, gotErr, text)
		require.Equal(t, want, got, text)
	}
}

// An outcome may be forgotten, unless it is unknown or has a dead letter.
func TestOutcomesAreForgottenAndDoubtsAreNot(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"), intent("A-4", "i4"))
	verdicts := map[string]order.Verdict{"A-1": order.Accepted, "A-2": order.Duplicate, "A-3": order.Rejected, "A-4": order.Rejected}
	for _, d := range pull(t, q, 4) {
		settleAs(t, q, d, report(verdicts[d.OrderNo()], d.History))
	}
	requireDrained(t, q)
	_, err := q.Operator.Drop(t.Context(), letterOf(t, q, "A-4"), settle.Person{Name: "anna"})
	require.NoError(t, err)
	for no, forgets := range map[string]bool{"A-1": true, "A-2": false, "A-3": false, "A-4": true} {
		raw, err := q.reader.lastMsg(t.Context(), q.Conn.n.results, q.Conn.n.resPre+no)
		require.NoError(t, err)
		require.Equal(t, forgets, mayForget(lookup(t, q, no)), no)
		require.Equal(t, lookup(t, q, no).Word, raw.Header.Get(settle.HeaderOutcome))
	}
}

// Nor is a record forgotten that names the letter of another intent.
func TestARecordThatNamesALetterIsNotForgotten(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	settled := func(in settle.Intent, v order.Verdict) {
		publish(t, q, in)
		d := pull(t, q, 1)[0]
		if d.Work == settle.WorkConflict {
			_, err := q.Worker.Refuse(t.Context(), d)
			require.NoError(t, err)
		} else {
			settleAs(t, q, d, report(v, d.History))
		}
		requireDrained(t, q)
	}
	settled(intent("A-1", "i1"), order.Accepted)
	settled(settle.Intent{OrderNo: "A-1", ID: "i2", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"2"}`)}, order.Accepted)
	settled(intent("A-2", "i3"), order.Rejected)
	entry, err := q.Ledger.Lookup(t.Context(), "A-2")
	require.NoError(t, err)
	withdrawn := *entry.Record
	withdrawn.IntentID, withdrawn.Unqueued, withdrawn.By, withdrawn.Letter = "i4", true, "anna", 0
	withdrawn.SetOutcome(order.OutcomeCancelled)
	_, err = q.store.PutRecord(t.Context(), "A-2", order.Merge(entry.Record, &withdrawn), entry.Seq)
	require.NoError(t, err)
	for _, no := range []string{"A-1", "A-2"} {
		require.False(t, mayForget(lookup(t, q, no)), no)
		_, err = q.Operator.Drop(t.Context(), letterOf(t, q, no), settle.Person{Name: "anna"})
		require.NoError(t, err)
		require.True(t, mayForget(lookup(t, q, no)), no)
	}
}

// A response of the largest size that the operator may configure must not make
// a result that the broker always refuses.
func TestARecordIsCutToWhatTheBrokerTakes(t *testing.T) {
	q := openSmall(t)
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	r := report(order.Rejected, d.History)
	r.Response = strings.Repeat("\x00", 300_000) // six times as long in JSON
	settleAs(t, q, d, r)
	require.Equal(t, order.OutcomeRejected, lookup(t, q, "A-1").Outcome())
	require.Equal(t, order.OutcomeRejected, letterOf(t, q, "A-1").Outcome)
}

// TestHeadersOfAProducerDoNotPassForTheBrokers: the answer to a batched read
// has the stored message's own headers, followed by the broker's. A producer
// that writes headers with the broker's names must neither hide other orders
// nor make its order pass for another.
func TestHeadersOfAProducerDoNotPassForTheBrokers(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("FIRST", "first"))
	want, nos := map[string]uint64{"orders.new.FIRST": 1}, []string(nil)
	for name, forged := range map[string]nats.Header{
		"far-behind":     {"Nats-Sequence": {"999999"}},
		"other-subject":  {"Nats-Subject": {"orders.new.LAST"}},
		"other-time":     {"Nats-Time-Stamp": {"1999-01-01T00:00:00Z"}},
		"no-such-number": {"Nats-Sequence": {"x"}, "Nats-Time-Stamp": {"x"}},
		"end-of-a-page":  {"Status": {"204"}, "Nats-Num-Pending": {"0"}, "Nats-Stream": {"x"}},
		"no-results":     {"Status": {"404"}, "Description": {"No Results"}},
		"error":          {"Status": {"500"}},
		"nobody":         {"Status": {"503"}},
		"cut-off":        {"Status": {"204"}, "Nats-Num-Pending": {"7"}},
		"inline":         {"Nats-Num-Pending": {"0"}, "Nats-Last-Sequence": {"0"}},
	} {
		ack, err := q.Conn.js.PublishMsg(t.Context(), &nats.Msg{Subject: "orders.new." + name, Header: forged})
		require.NoError(t, err)
		want["orders.new."+name], nos = ack.Sequence, append(nos, name)
	}
	publish(t, q, intent("LAST", "last"))
	want["orders.new.LAST"], nos = uint64(len(want)+1), append(nos, "LAST")

	seen := make(map[string]uint64)
	for page, err := range pages(t.Context(), q.reader.page, q.Conn.n.intents, q.Conn.n.newPre+"*", 1) {
		require.NoError(t, err)
		for _, m := range page {
			seen[m.Subject] = m.Seq
			require.WithinDuration(t, time.Now(), m.Time, time.Hour)
		}
	}
	require.Equal(t, want, seen)
	for _, no := range nos { // each beside one that the broker does not have
		last := make([]*settle.Message, 3)
		require.NoError(t, q.Intents().Last(t.Context(), []string{no, "LAST", "NONE"}, func(i int, m *settle.Message) { last[i] = m }))
		require.Equal(t, want["orders.new."+no], last[0].Seq, no)
		require.Equal(t, want["orders.new.LAST"], last[1].Seq, no)
		require.Equal(t, "last", last[1].Header.Get(settle.HeaderIntentID))
		require.Nil(t, last[2])
	}
}

// TestAResultThatNoWorkerWroteIsUnreadable: an answer of JetStream that was
// sent to a results subject, and a worker's record about another order.
func TestAResultThatNoWorkerWroteIsUnreadable(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("MINE", "i1"))
	settleAs(t, q, pull(t, q, 1)[0], order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200})
	mine := lookup(t, q, "MINE")
	forged := func(no string) []byte {
		r := *mine
		r.OrderNo = no
		data, err := json.Marshal(r)
		require.NoError(t, err)
		return data
	}
	request := func(subject, reply string, body any) {
		data, err := json.Marshal(body)
		require.NoError(t, err)
		require.NoError(t, q.Conn.nc.PublishRequest(subject, reply, data))
	}
	last := map[string]any{"last_by_subj": "orders.results.MINE"}
	_, err := q.Conn.js.PublishMsg(t.Context(), &nats.Msg{Subject: "orders.new.X", Data: forged("ECHO2"), Header: nats.Header{settle.HeaderOutcome: {"accepted"}}})
	require.NoError(t, err)
	request("$JS.API.DIRECT.GET.ORDERS_RESULTS", "orders.results.ECHO", last)                                      // another order's result
	request("$JS.API.STREAM.MSG.GET.ORDERS_RESULTS", "orders.results.LEADER", last)                                // the same in JSON
	request("$JS.API.DIRECT.GET.ORDERS", "orders.results.ECHO2", map[string]any{"last_by_subj": "orders.new.X"})   // a record that stands in an order
	request("orders.new.Y", "orders.results.ACK", map[string]any{"order_no": "Y", "timeout": 1})                   // PubAck
	request("$JS.API.STREAM.INFO.ORDERS", "orders.results.INFO", nil)                                              // an answer with an object
	request("$JS.API.DIRECT.GET.ORDERS_RESULTS", "orders.results.NONE", map[string]any{"last_by_subj": "no.such"}) // a status alone
	for _, no := range []string{"ECHO", "LEADER", "ECHO2", "ACK", "INFO", "NONE"} {
		var err error
		require.Eventually(t, func() bool {
			var e settle.Entry
			e, err = q.Ledger.Lookup(t.Context(), no)
			return err != nil || e.Record != nil
		}, time.Minute, time.Millisecond, "%s: nothing was stored", no)
		require.ErrorIs(t, err, settle.ErrUnreadable, "%s", no)
		words, err := q.Ledger.LastWords(t.Context(), []string{no, "MINE"})
		require.NoError(t, err)
		require.ErrorIs(t, words[0].Unreadable, settle.ErrUnreadable, "%s, read in a batch", no)
		require.NoError(t, words[1].Unreadable)
		require.Equal(t, order.OutcomeAccepted, words[1].Record.Outcome())
	}
	for _, m := range everyMessage(t, q.Results()) {
		entry, err := DecodeRecord(m)
		if q.Results().Token(m) == "MINE" {
			require.NoError(t, err)
			require.Equal(t, "MINE", entry.Record.OrderNo)
		} else {
			require.ErrorIs(t, err, settle.ErrUnreadable, m.Subject)
		}
	}
}

// TestARecordIsFiledUnderItsSubject, whatever its order_no is. An order_no that
// no subject can carry is filed under a hash.
func TestARecordIsFiledUnderItsSubject(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	for i, subject := range []string{"a%2Eb", "a%2eb", "not%XXencoded", "100%"} {
		_, err := q.Conn.js.Publish(t.Context(), "orders.new."+subject, fmt.Appendf(nil, `{"order_no":"other","timeout":%d}`, i))
		require.NoError(t, err)
	}
	for _, d := range pull(t, q, 4) {
		settleAs(t, q, d, order.Report{End: order.EndInvalid, Reason: "wrong"})
	}
	records := everyMessage(t, q.Results())
	require.Len(t, records, 4)
	for _, m := range records {
		_, err := DecodeRecord(m)
		require.NoError(t, err)
	}
}
