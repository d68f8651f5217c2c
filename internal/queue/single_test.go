package queue

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// R2: a broker that cannot read its file answers "no message found". Nobody
// takes that for an order that was never posted.
func TestR2ARecordThatCannotBeLoadedIsNotMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q := openQueue(t, startBrokerIn(t, dir), "a")
	putRecord(t, q, "R-0", 0)
	subject := q.Conn.n.resPre + "R-0"
	restore := makeUnreadable(t, q, dir, q.Conn.n.results, subject)

	_, err := q.reader.lastMsg(t.Context(), q.Conn.n.results, subject)
	require.ErrorIs(t, err, settle.ErrNotLoaded)
	p := settle.New(settle.Config{Worker: "a", Log: zerolog.Nop()}, jetStore{q}, settle.RealTime())
	words, err := p.Ledger.LastWords(t.Context(), []string{"R-0", "R-1"})
	require.NoError(t, err, "R-1 does not wait for R-0")
	require.ErrorIs(t, words[0].Unreadable, settle.ErrNotLoaded, "R-0 was accepted, and would be posted again")
	require.Equal(t, settle.LastWord{}, words[1])

	restore()
	words, err = p.Ledger.LastWords(t.Context(), []string{"R-0", "R-1"})
	require.NoError(t, err)
	require.NotNil(t, words[0].Record)
	require.Nil(t, words[1].Record)
}

// R4: a letter that the broker cannot read stays. The Sweeper finds it.
func TestR4ALetterThatCannotBeReadIsNotRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q := openQueue(t, startBrokerIn(t, dir), "a")
	seq, err := q.store.PutLetter(t.Context(), "A-1", &settle.Letter{OrderNo: "A-1", Outcome: order.OutcomeRejected})
	require.NoError(t, err)
	restore := makeUnreadable(t, q, dir, q.Conn.n.dead, q.Conn.n.deadPre+"A-1")
	_ = q.store.DeleteLetter(t.Context(), "A-1", seq)
	restore()
	l, err := q.store.Letter(t.Context(), "A-1", seq)
	require.NoError(t, err)
	require.NotNil(t, l)
}

// makeUnreadable waits until the broker cannot read the stream's only message, which
// is under this subject, and says that there is none. The returned function ends that.
func makeUnreadable(t *testing.T, q *Queue, dir, stream, subject string) (restore func()) {
	t.Helper()
	first := blocks(t, dir, stream)
	require.Len(t, first, 1)
	prefix, _, _ := strings.Cut(subject, "-")
	for len(blocks(t, dir, stream)) == 1 { // the server keeps the last file in memory
		_, err := q.Conn.js.Publish(t.Context(), prefix+"-large", make([]byte, 900_000))
		require.NoError(t, err)
	}
	require.NoError(t, os.Rename(first[0], first[0]+".away"))
	require.NoError(t, os.Mkdir(first[0], 0o700)) // opens, and cannot be read
	require.Eventually(t, func() bool {           // until the server's cache is gone
		runtime.GC()
		m, err := q.reader.getMsg(t.Context(), stream, map[string]any{"last_by_subj": subject})
		require.NoError(t, err)
		return m == nil
	}, time.Minute, time.Second)
	return func() {
		require.NoError(t, os.Remove(first[0]))
		require.NoError(t, os.Rename(first[0]+".away", first[0]))
	}
}

// blocks returns the files that hold a stream's messages.
func blocks(t *testing.T, dir, stream string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".blk" && filepath.Base(filepath.Dir(filepath.Dir(path))) == stream {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

// TestALargeStreamWithHolesIsReadWhole: every message is read once and in order,
// wherever the holes are, also by requests for one message each.
func TestALargeStreamWithHolesIsReadWhole(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	const n = 2*fewMessages + 5
	for i := range n {
		_, err := q.Conn.js.PublishAsync(fmt.Sprint("orders.dead.A-", i), []byte("x"), jetstream.WithStallWait(time.Minute))
		require.NoError(t, err)
	}
	<-q.Conn.js.PublishAsyncComplete()
	s := q.Letters()
	gone := make(map[uint64]bool)
	remove := func(seqs ...uint64) {
		for _, seq := range seqs {
			require.NoError(t, q.reader.deleteMsg(t.Context(), q.Conn.n.dead, seq))
			gone[seq] = true
		}
	}
	read := func(first, last uint64) {
		t.Helper()
		want := first
		for ; gone[want]; want++ {
		}
		require.NoError(t, s.Walk(t.Context(), first, last, func(page []*settle.Message) error {
			require.LessOrEqual(t, len(page), pageSize)
			for _, m := range page {
				require.Equal(t, want, m.Seq)
				for want++; gone[want]; want++ {
				}
			}
			return nil
		}))
		require.Greater(t, want, min(last, n))
		holes, state, err := s.Gaps(t.Context())
		require.NoError(t, err)
		for _, seq := range holes {
			require.True(t, gone[seq])
		}
		require.Equal(t, uint64(len(gone)), n-state.Messages)
	}
	read(1, ToTheEnd) // no holes
	remove(2, 3, 500, 512, 513, 514, 5000, n-1)
	state, err := s.State(t.Context())
	require.NoError(t, err)
	require.True(t, state.holey())
	read(1, ToTheEnd)
	read(700, 4000)
	for seq := uint64(6000); seq < 8000; seq++ {
		remove(seq)
	}
	remove(1, n) // the ends
	read(1, ToTheEnd)
	read(6500, 7500)
	read(7990, n)
	found, err := s.Get(t.Context(), []uint64{9, 2, n - 2, n, n + 7})
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true, false, false}, []bool{found[0] != nil, found[1] != nil, found[2] != nil, found[3] != nil, found[4] != nil})
	require.Equal(t, "orders.dead.A-8", found[0].Subject)
	first, err := s.At(t.Context(), found[2].Time.Add(-time.Nanosecond))
	require.NoError(t, err)
	require.LessOrEqual(t, first, uint64(n-2))
	first, err = s.At(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Zero(t, first)
}

// A replica that has nothing yet answers a part of the requests, as one does that lags. It
// hides no message, neither in the middle of a walk nor at its end.
func TestAReplicaThatLagsHidesNothingOfAWalk(t *testing.T) {
	t.Parallel()
	node := runServer(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	q := openCluster(t, []*server.Server{node}, "w1", func(c *Config) { c.Replicas = 1 })
	for i := range fewMessages + 3000 {
		_, err := q.Conn.js.PublishAsync(fmt.Sprint("orders.dead.A-", i), []byte("x"), jetstream.WithStallWait(time.Minute))
		require.NoError(t, err)
	}
	<-q.Conn.js.PublishAsyncComplete()
	s := q.Letters()
	whole := func() {
		t.Helper()
		state, err := s.State(t.Context())
		require.NoError(t, err)
		var n, before uint64
		require.NoError(t, s.Walk(t.Context(), 1, ToTheEnd, func(page []*settle.Message) error {
			for _, m := range page {
				require.Greater(t, m.Seq, before)
				before = m.Seq
				n++
			}
			return nil
		}))
		require.Equal(t, state.Messages, n)
	}
	var answered atomic.Int64
	nc, err := nats.Connect(node.ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	_, err = nc.Subscribe("lagging", func(m *nats.Msg) {
		answered.Add(1)
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}})
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	const reads = "$JS.API.DIRECT.GET.ORDERS_DEAD"
	require.NoError(t, node.GlobalAccount().AddWeightedMappings(reads, server.NewMapDest(reads, 67), server.NewMapDest("lagging", 33)))
	whole()
	require.Positive(t, answered.Load(), "it was asked")
	for _, seq := range []uint64{2, 500, fewMessages, fewMessages + 3000} { // the last one, too
		require.NoError(t, q.reader.deleteMsg(t.Context(), q.Conn.n.dead, seq))
	}
	answered.Store(0)
	whole()
	require.Greater(t, answered.Load(), int64(readsAtOnce))
}

// The answer to a deletion may be lost. Then the message is gone at the next try,
// which the broker says in another way for the first, a later and the last message.
func TestWhatIsGoneIsDeleted(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1", func(c *Config) { c.Worker = true })
	for stream, remove := range map[string]func(uint64) error{
		q.Conn.n.intents: func(seq uint64) error { return q.store.DeleteIntent(t.Context(), seq) },
		q.Conn.n.waiting: func(seq uint64) error { return q.store.DeleteWaiting(t.Context(), seq) },
	} {
		subject := q.Conn.n.newPre
		if stream == q.Conn.n.waiting {
			subject = q.Conn.n.waitPre + "bulk."
		}
		for i := range 5 {
			_, err := q.Conn.js.Publish(t.Context(), fmt.Sprintf("%sA-%d", subject, i), []byte("{}"))
			require.NoError(t, err)
		}
		for _, seq := range []uint64{3, 3, 1, 1, 5, 5, 2, 2} {
			require.NoError(t, remove(seq), "%s %d", stream, seq)
		}
		require.ErrorIs(t, q.reader.deleteMsg(t.Context(), stream, 3), jetstream.ErrMsgNotFound)
		require.ErrorContains(t, remove(99), "sequence 99: not removed", "the stream never had it")
		state, err := q.Conn.js.Stream(t.Context(), stream)
		require.NoError(t, err)
		require.EqualValues(t, 1, state.CachedInfo().State.Msgs)
	}
	var refused *jetstream.APIError
	require.ErrorAs(t, q.reader.deleteMsg(t.Context(), "NOWHERE", 1), &refused)
}
