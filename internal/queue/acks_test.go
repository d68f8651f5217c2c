package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

func TestWhatJetStreamAnswersToAWrite(t *testing.T) {
	for _, tt := range []struct {
		data string
		seq  uint64
		err  error
	}{
		{`{"stream":"ORDERS_RESULTS", "seq":12}`, 12, nil},
		{`{"stream":"ORDERS_RESULTS","seq":12}`, 12, nil},
		{`{"stream":"S","domain":"hub", "seq":7}`, 7, nil},
		{`{"stream":"S", "seq":7,"duplicate": true}`, 7, nil},
		{`{"stream":"}\"seq\":9", "seq":7}`, 7, nil},
		{`{"seq":3,"stream":"S"}`, 3, nil},
		{`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 4"},"stream":"S","seq":0}`, 0, settle.ErrStale},
		{`{"error":{"code":503,"err_code":10077,"description":"no space"},"stream":"S","seq":0}`, 0, settle.ErrStorage},
		{`{"stream":"S", "seq":0}`, 0, errUnconfirmed},
		{`{"stream":"S", "seq":}`, 0, errUnconfirmed},
		{`{"stream":"S", "seq":99999999999999999999999}`, 0, errUnconfirmed},
		{`+OK`, 0, errUnconfirmed},
		{``, 0, errUnconfirmed},
	} {
		seq, duplicate, err := readAck(&nats.Msg{Data: []byte(tt.data)})
		if err != nil {
			err = writeError(err)
		}
		require.ErrorIs(t, err, tt.err, tt.data)
		require.Equal(t, strings.Contains(tt.data, "duplicate"), duplicate, tt.data)
		require.Equal(t, tt.seq, seq, tt.data)
	}
	_, _, err := readAck(&nats.Msg{Header: nats.Header{"Status": {"503"}}})
	require.ErrorIs(t, err, jetstream.ErrNoStreamResponse)
}

// plainAckOf reads the same as a JSON parser.
func FuzzPlainAck(f *testing.F) {
	f.Add([]byte(`{"stream":"ORDERS_RESULTS", "seq":12}`))
	f.Add([]byte(`{"stream":"S","domain":"hub", "seq":7}`))
	f.Add([]byte(`{"stream":"}\"seq\":9", "seq":7}`))
	f.Add([]byte(`{"stream":"S", "seq":7,"duplicate": true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		seq, ok := plainAckOf(data)
		if !ok || !json.Valid(data) { // the server sends nothing else
			return
		}
		var answer map[string]json.RawMessage // a struct would take SEQ for seq, too
		require.NoError(t, json.Unmarshal(data, &answer))
		require.Equal(t, strconv.FormatUint(seq, 10), string(answer["seq"]))
	})
}

// A late answer to messages that were given up does not count for the next ones.
func TestALateAnswerIsNotTheNextWrites(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	a, all := &q.Conn.acks, func() error { return nil }
	given, cancel := context.WithCancel(t.Context())
	cancel()
	first := conditional(q, "L-1", 0)
	require.False(t, a.send(given, []*outgoing{first}, requestTimeout, all))
	require.ErrorIs(t, first.err, context.Canceled)
	for _, late := range []string{first.msg.Reply, a.prefix + "x.0", fmt.Sprintf("%s%d.900", a.prefix, a.last+1)} {
		require.NoError(t, q.Conn.nc.Publish(late, []byte(`{"stream":"S", "seq":77}`)))
	}
	var batch []*outgoing
	for i := range 20 {
		batch = append(batch, conditional(q, "L-2-"+strconv.Itoa(i), 0))
	}
	require.True(t, a.send(t.Context(), batch, requestTimeout, all))
	for i, out := range batch {
		require.NoError(t, out.err)
		require.EqualValues(t, i+2, out.seq)
	}
}

func TestMessagesThatNobodyTakesAreNotConfirmed(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	lost := conditional(q, "L-1", 0)
	lost.msg.Subject = "nobody." + q.Conn.n.results
	writeTogether(t, q, []*outgoing{lost})
	require.ErrorIs(t, lost.err, jetstream.ErrNoStreamResponse)
}
