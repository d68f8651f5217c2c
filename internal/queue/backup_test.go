package queue

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue/embedded"
)

// contents returns all messages of a stream as the broker has them, a line each.
func contents(t *testing.T, js jetstream.JetStream, name string) string {
	t.Helper()
	stream, err := js.Stream(t.Context(), name)
	require.NoError(t, err)
	state := stream.CachedInfo().State
	var out strings.Builder
	_, _ = fmt.Fprintln(&out, state.LastSeq, bornAt(stream.CachedInfo()))
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err == nil {
			_, _ = fmt.Fprintln(&out, m.Sequence, m.Subject, m.Time.UnixNano(), m.Header, string(m.Data))
		}
	}
	return out.String()
}

func accepted(no string) *order.Record {
	r := &order.Record{OrderNo: no}
	r.SetOutcome(order.OutcomeAccepted)
	return r
}

// stock stores something in each stream, removes some of it, and replaces some.
func stock(t *testing.T, q *Queue) {
	t.Helper()
	n := q.Conn.n
	publish := func(subject string, header nats.Header, data string) {
		_, err := q.Conn.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: header, Data: []byte(data)})
		require.NoError(t, err, subject)
	}
	for i := range 700 { // more than two pages
		publish(fmt.Sprint(n.newPre, i), nats.Header{"Nats-Msg-Id": {fmt.Sprint("id ", i)}, "Orderpost-Import": {"a", "b"}}, "{}")
		publish(fmt.Sprint(n.waitPre, "bulk.x"), nil, "")
		_, err := q.store.PutRecord(t.Context(), fmt.Sprint(i), accepted(fmt.Sprint(i)), 0)
		require.NoError(t, err)
	}
	publish(n.deadPre+"x", nil, "letter")
	publish(n.journalPre+"x.1", nil, "{}")
	require.NoError(t, q.bucket.Put(t.Context(), "limit", map[string]int{"a": 1}))
	require.NoError(t, q.bucket.Put(t.Context(), "gone", 1))
	require.NoError(t, q.bucket.Delete(t.Context(), "gone", 0))
	for seq := range uint64(30) {
		require.NoError(t, q.store.DeleteIntent(t.Context(), 1+seq*3))
	}
	require.NoError(t, q.store.DeleteIntent(t.Context(), 700)) // the last one
}

func backUp(t *testing.T, q *Queue) []byte {
	t.Helper()
	var file bytes.Buffer
	b := NewBackup(q, &file)
	consistent, err := b.CatchUp(t.Context())
	require.NoError(t, err)
	require.True(t, consistent)
	require.NoError(t, b.Close())
	return file.Bytes()
}

func read(file []byte) (*BackupFile, error) {
	return ReadBackup(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil }, Config{}.StreamNames())
}

// emptyQueue opens a queue on a broker that has no streams.
func emptyQueue(t *testing.T, s *embedded.Server) *Queue {
	return openQueue(t, s, "restore", func(c *Config) { c.Missing, c.Worker = LeaveMissing, false })
}

func restoreAll(t *testing.T, to *Queue, f *BackupFile) {
	t.Helper()
	_, err := to.Restore(t.Context(), f, false)
	require.NoError(t, err)
}

// What is restored has the sequences, times, headers and births that it had.
func TestABackupIsRestoredAsItWas(t *testing.T) {
	from, to := startBroker(t), emptyQueue(t, startBroker(t))
	q := openQueue(t, from, "worker-1")
	stock(t, q)
	f, err := read(backUp(t, q))
	require.NoError(t, err)
	restoreAll(t, to, f)
	for _, s := range q.all() {
		want, have := contents(t, q.Conn.js, s.name), contents(t, to.Conn.js, s.name)
		if s.name == q.bucket.stream() { // it has the mark as well, at its end
			_, want, _ = strings.Cut(want, "\n")
			_, have, _ = strings.Cut(have, "\n")
			have = have[:len(want)]
		}
		require.Equal(t, len(want), len(have), s.name)
		require.True(t, want == have, s.name) // the difference would be long
	}
	_, err = to.Restore(t.Context(), f, false)
	require.ErrorIs(t, err, ErrNotEmpty)
	require.NoError(t, to.Conn.js.DeleteStream(t.Context(), q.Conn.n.dead))
	names, err := to.Restore(t.Context(), f, true)
	require.NoError(t, err)
	require.Equal(t, []string{q.Conn.n.dead}, names)
	require.True(t, contents(t, q.Conn.js, q.Conn.n.dead) == contents(t, to.Conn.js, q.Conn.n.dead))
}

// A record that is replaced while the streams are copied is in the copy, as it was or as it is.
func TestABackupHasEachRecordThatIsReplacedMeanwhile(t *testing.T) {
	from, to := startBroker(t), emptyQueue(t, startBroker(t))
	q := openQueue(t, from, "worker-1")
	stock(t, q)
	var file bytes.Buffer
	b := NewBackup(q, &file)
	replace := func(no string, last uint64) {
		_, err := q.store.PutRecord(t.Context(), no, accepted(no), last)
		require.NoError(t, err)
	}
	_, err := b.copy(t.Context(), q.Results())
	require.NoError(t, err)
	replace("5", 6)
	replace("699", 700)
	consistent, err := b.CatchUp(t.Context())
	require.NoError(t, err)
	require.True(t, consistent)
	require.NoError(t, b.Close())
	f, err := read(file.Bytes())
	require.NoError(t, err)
	restoreAll(t, to, f)
	require.True(t, contents(t, q.Conn.js, q.Conn.n.results) == contents(t, to.Conn.js, q.Conn.n.results))
}

// A backup during which a record was written is not consistent yet.
func TestABackupIsConsistentOnceNoRecordIsWritten(t *testing.T) {
	q := openQueue(t, startBroker(t), "worker-1")
	b := NewBackup(q, io.Discard)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for seq := uint64(0); ctx.Err() == nil; {
			seq, _ = q.store.PutRecord(t.Context(), "A", accepted("A"), seq)
		}
	}()
	for consistent := true; consistent; {
		var err error
		consistent, err = b.CatchUp(t.Context())
		require.NoError(t, err)
	}
	cancel()
	<-ended
	consistent, err := b.CatchUp(t.Context())
	require.NoError(t, err)
	require.True(t, consistent)
	require.NoError(t, b.Close())
}

func TestADamagedBackupIsRefused(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "worker-1")
	stock(t, q)
	file := backUp(t, q)
	for name, bad := range map[string][]byte{"empty": nil, "cut off": file[:len(file)-40], "half": file[:len(file)/2], "another file": []byte("order_no\nA-1\n"),
		"damaged": append(append(bytes.Clone(file[:len(file)/2]), file[len(file)/2]^1), file[len(file)/2+1:]...)} {
		_, err := read(bad)
		require.ErrorContains(t, err, "not a whole backup", name)
	}
}

// Workers post nothing from a restored backup until a person has accepted what it lacks, and take all of it
// for delivered then: it may have been posted since.
func TestWhatWasRestoredMayHaveBeenPosted(t *testing.T) {
	from, server := startBroker(t), startBroker(t)
	to := emptyQueue(t, server)
	q := openQueue(t, from, "worker-1")
	stock(t, q)
	f, err := read(backUp(t, q))
	require.NoError(t, err)
	restoreAll(t, to, f)
	again := openQueue(t, server, "worker-1")
	losses, _, err := again.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, losses, 1)
	require.Contains(t, losses[0].String(), "were restored from a backup of")
	require.NoError(t, again.Extents.AcceptLosses(t.Context(), "anna", nil))
	losses, _, err = again.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, losses)
	mark, _, err := again.store.HighWaterMark(t.Context(), "seen.0")
	require.NoError(t, err)
	require.EqualValues(t, 700, mark.Seq)
	require.EqualValues(t, 700, mark.Waited.Seq)
}

// Whatever a restore that is killed had restored, no worker begins there.
func TestAfterHalfARestoreNoWorkerPosts(t *testing.T) {
	q := openQueue(t, startBroker(t), "worker-1")
	stock(t, q)
	file := backUp(t, q)
	for enough := 1; enough <= len(q.all()); enough++ {
		server, opened := startBroker(t), 0
		to := emptyQueue(t, server)
		f, err := ReadBackup(func() (io.ReadCloser, error) {
			if opened++; opened == enough+2 { // the first one reads it all
				return nil, io.ErrClosedPipe
			}
			return io.NopCloser(bytes.NewReader(file)), nil
		}, nil)
		require.NoError(t, err)
		_, err = to.Restore(t.Context(), f, false)
		if enough < len(q.all()) {
			require.ErrorIs(t, err, io.ErrClosedPipe)
			worker, err := reopen(t, to, func(c *Config) { c.Missing, c.Worker, c.Living = MakeMissing, true, q.Conn.cfg.Living })
			if err == nil { // the broker kept what it had of the last stream
				losses, _, err := worker.Extents.Losses(t.Context(), nil)
				require.NoError(t, err)
				require.NotEmpty(t, losses)
				continue
			}
			require.ErrorAs(t, err, new(*MissingError), enough)
			continue
		}
		require.NoError(t, err)
		losses, _, err := openQueue(t, server, "worker-1").Extents.Losses(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, losses, 1)
	}
}

// A restore that is killed leaves a part of a stream, which is not missing and not whole either.
func TestAPartOfAStreamIsNotTakenForRestored(t *testing.T) {
	q, to := openQueue(t, startBroker(t), "worker-1"), emptyQueue(t, startBroker(t))
	stock(t, q)
	f, err := read(backUp(t, q))
	require.NoError(t, err)
	restoreAll(t, to, f)
	js, waiting := to.Conn.js, q.Conn.n.waiting
	whole, err := js.Stream(t.Context(), waiting)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), waiting))
	_, err = js.CreateStream(t.Context(), whole.CachedInfo().Config) // as the broker has begun it
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), q.Conn.n.waitPre+"bulk.x", nil)
	require.NoError(t, err)
	_, err = to.Restore(t.Context(), f, true)
	require.ErrorContains(t, err, "ends at message 1, and the backup has 700")
}

func TestABackupOfAnotherInstallationIsRefused(t *testing.T) {
	q := openQueue(t, startBroker(t), "worker-1")
	file := backUp(t, q)
	_, err := ReadBackup(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil }, Config{Prefix: "other"}.StreamNames())
	require.ErrorContains(t, err, "set ORDERPOST_PREFIX")
}
