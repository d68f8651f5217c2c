package powercut

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the broker confirms counts when the bytes leave, what it is asked to remove when
// the request had been read.
func TestConfirmations(t *testing.T) {
	tr := &trace{}
	w := newWire(tr, "99")
	c := w.add(&conn{closed: never})
	say := func(line int, text string) {
		c.out.WriteString(text)
		c.outAt = append(c.outAt, mark{c.out.Len(), line})
	}
	hear := func(line int, text string) {
		c.in.WriteString(text)
		c.inAt = append(c.inAt, mark{c.in.Len(), line})
	}
	say(1, "INFO {}\r\n")
	hear(2, "CONNECT {}\r\nPUB s.a _INBOX.1 5\r\nfirst\r\nHPUB s.b _INBOX.2 29 35\r\nNATS/1.0\r\nNats-TTL: 3600s\r\n\r\n")
	hear(3, "second\r\nPING\r\n")
	say(4, "PONG\r\nMSG _INBOX.2 1 22\r\n{\"stream\":\"S\",\"seq\":2}\r\nMSG _INBOX.1 1 22\r\n{\"stream\"")
	say(6, ":\"S\",\"seq\":1}\r\n")
	batch := func(line, seq int, subject, commit, reply string) {
		header := fmt.Sprintf("NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: %d\r\n%s\r\n", seq, commit)
		hear(line, fmt.Sprintf("HPUB %s %s %d %d\r\n%sx\r\n", subject, reply, len(header), len(header)+1, header))
	}
	batch(7, 1, "s.c", "", "")
	batch(8, 2, "s.d", "Nats-Batch-Commit: 1\r\n", "_INBOX.3")
	ack := `{"stream":"S","seq":4,"batch":"b","count":2}`
	say(9, fmt.Sprintf("HMSG _INBOX.3 1 12 %d\r\nNATS/1.0\r\n\r\n%s\r\n", 12+len(ack), ack))
	hear(10, "PUB s.a _INBOX.4 1\r\nx\r\nPUB s.a _INBOX.5 1\r\nx\r\n")
	say(11, "MSG _INBOX.4 1 39\r\n{\"stream\":\"S\",\"seq\":1,\"duplicate\":true}\r\nMSG _INBOX.5 1 28\r\n{\"error\":{\"err_code\":10077}}\r\n")
	hear(12, "PUB $JS.API.STREAM.MSG.DELETE.S _INBOX.6 9\r\n{\"seq\":3}\r\n")
	say(13, "MSG _INBOX.6 1 16\r\n{\"success\":true}\r\n")
	say(14, "MSG _INBOX.1 1 22\r\n{\"stre") // cut off
	require.NoError(t, w.finish())
	require.Equal(t, []event{
		{line: 4, stream: "S", seq: 2, subject: "s.b", data: []byte("second"), passing: true},
		{line: 6, stream: "S", seq: 1, subject: "s.a", data: []byte("first")},
		{line: 9, stream: "S", seq: 3, subject: "s.c", data: []byte("x")},
		{line: 9, stream: "S", seq: 4, subject: "s.d", data: []byte("x")},
		{line: 12, stream: "S", seq: 3, removed: true},
	}, tr.events)

	for _, wrong := range []string{"PUB s.a five\r\n", "GARBAGE\r\n", "PUB s.a 3\r\nlonger\r\n"} {
		w = newWire(&trace{}, "99")
		c = w.add(&conn{closed: never})
		say(1, "INFO {}\r\n")
		hear(2, wrong)
		require.NoError(t, w.finish(), "the last read before a kill may show what nobody sent")
		hear(3, "PING\r\n")
		require.ErrorContains(t, w.finish(), "not the protocol", wrong)
	}
}

func TestRemovals(t *testing.T) {
	for subject, want := range map[string]event{
		"$JS.ACK.ORDERS.workers.1.17.3.1700000000.0":          {removed: true, stream: "ORDERS", seq: 17},
		"$JS.ACK._.hash.ORDERS.workers.1.17.3.1700000000.0.x": {removed: true, stream: "ORDERS", seq: 17},
	} {
		for _, word := range []string{"+ACK", "", "+TERM", "+NXT"} {
			got, ok := removal(subject, []byte(word))
			require.True(t, ok, word)
			require.Equal(t, want, got)
		}
		for _, word := range []string{"-NAK", "+WPI"} {
			_, ok := removal(subject, []byte(word))
			require.False(t, ok, "%s keeps the message", word)
		}
	}
	got, ok := removal("$JS.API.STREAM.MSG.DELETE.ORDERS_DEAD", []byte(`{"seq":4}`))
	require.True(t, ok)
	require.Equal(t, event{removed: true, stream: "ORDERS_DEAD", seq: 4}, got)
	got, ok = removal("$JS.API.STREAM.PURGE.ORDERS_DEAD", []byte(`{"filter":"orders.dead.A.>"}`))
	require.True(t, ok)
	require.Equal(t, event{removed: true, stream: "ORDERS_DEAD", subject: "orders.dead.A.>"}, got)
	_, ok = removal("orders.new.A", []byte("+ACK"))
	require.False(t, ok)
}

// due is what must be there: the last confirmed message of each subject that nobody
// asked to remove.
func TestDue(t *testing.T) {
	put := func(line int, subject string, seq uint64) event {
		return event{line: line, stream: "S", seq: seq, subject: subject}
	}
	tr := &trace{events: []event{
		put(1, "s.a", 1), put(2, "s.b", 2), put(3, "s.a", 3),
		{line: 4, stream: "S", removed: true, seq: 1}, // s.a has a later one
		{line: 5, stream: "S", removed: true, seq: 2},
		put(6, "s.c.x", 4), {line: 7, stream: "S", removed: true, subject: "s.c.*"},
		{line: 8, stream: "S", seq: 5, subject: "s.d", passing: true},
		put(9, "s.c.x", 6),
	}}
	seqs := func(cut int) map[string]uint64 {
		got := make(map[string]uint64)
		for at, e := range tr.due(cut) {
			got[at.subject] = e.seq
		}
		return got
	}
	require.Empty(t, seqs(0))
	require.Equal(t, map[string]uint64{"s.a": 1, "s.b": 2}, seqs(2))
	require.Equal(t, map[string]uint64{"s.a": 3}, seqs(5))
	require.Equal(t, map[string]uint64{"s.a": 3, "s.c.x": 4}, seqs(6))
	require.Equal(t, map[string]uint64{"s.a": 3}, seqs(8))
	require.Equal(t, map[string]uint64{"s.a": 3, "s.c.x": 6}, seqs(9))
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		filter, subject string
		want            bool
	}{
		{">", "a.b", true}, {"a.>", "a.b.c", true}, {"a.>", "a", false}, {"a.*", "a.b", true}, {"a.*", "a.b.c", false},
		{"a.b", "a.b", true}, {"a.b", "a.c", false}, {"a.b", "a", false},
	} {
		require.Equal(t, c.want, covers(c.filter, c.subject), c)
	}
}

// Requests to the API: one is answered, the answer to the second never came, and the
// third was cut off.
func TestPosts(t *testing.T) {
	tr := &trace{}
	w := newWire(tr, "99")
	c := w.add(&conn{api: true, closed: 40})
	send := func(line int, text string) {
		c.out.WriteString(text)
		c.outAt = append(c.outAt, mark{c.out.Len(), line})
	}
	receive := func(line int, text string) {
		c.in.WriteString(text)
		c.inAt = append(c.inAt, mark{c.in.Len(), line})
	}
	const head = "POST /v1/order/create HTTP/1.1\r\nHost: a\r\nContent-Length: 16\r\n\r\n"
	send(10, "GET /v1/account HTTP/1.1\r\nHost: a\r\n\r\n")
	receive(11, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	send(20, head)
	send(21, `{"order_no":"A"}`)
	receive(22, "HTTP/1.1 409 Conflict\r\nContent-Le")
	receive(23, "ngth: 2\r\n\r\nno")
	send(30, head+`{"order_no":"A"}`)
	send(31, head+`{"order`)
	require.NoError(t, w.finish())
	require.Equal(t, []post{{"A", 21, 23, 409, 0}, {"A", 30, 40, 0, 1}}, tr.posts)

	created := map[string][]bool{"A": {true, true}}
	arrived, not := func() bool { return true }, func() bool { return false }
	require.Empty(t, tr.ledger(20, created, arrived))
	require.Empty(t, tr.ledger(22, created, not), "it may still be on its way")
	require.Equal(t, map[string]int{"A": 1}, tr.ledger(22, created, arrived))
	require.Equal(t, map[string]int{"A": 1}, tr.ledger(23, created, not))
	require.Equal(t, map[string]int{"A": 2}, tr.ledger(40, created, not))
}
