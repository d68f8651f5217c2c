package notify

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/highwayhash"
	"github.com/stretchr/testify/require"
)

// TestTheBrokerLosesTheEnd: a broker comes back with an older copy of the results, and gives the
// sequences out again that the position has passed. What is stored under them is told, by a
// sender that runs and by one that starts later.
func TestTheBrokerLosesTheEnd(t *testing.T) {
	t.Parallel()
	for _, runs := range []bool{true, false} {
		t.Run(fmt.Sprintf("running %t", runs), func(t *testing.T) {
			t.Parallel()
			server := startBroker(t)
			q := openQueue(t, server)
			e, b := newHookServer(t), newLedger(t, q)
			restart := func(between func(results string)) {
				server.Stop()
				require.Eventually(t, func() bool { return !q.Conn.Connected() }, time.Minute, time.Millisecond, "otherwise Connected tells of the former connection")
				between(resultsFolder(t, server.Dir))
				server.Restart(t)
				require.Eventually(t, q.Conn.Connected, time.Minute, time.Millisecond)
			}

			b.put("A-1", "accepted")
			b.put("A-2", "accepted")
			older := t.TempDir()
			restart(func(results string) { require.NoError(t, os.CopyFS(older, os.DirFS(results))) })
			stop := run(t, newTestSender(t, q, e.URL))
			b.put("A-3", "accepted")
			b.put("A-4", "accepted")
			e.await(t, map[string]string{"A-1": "accepted", "A-4": "accepted"})
			require.Eventually(t, func() bool { return kept(t, q).Position.Seq == 4 }, time.Minute, time.Millisecond)
			if !runs {
				stop()
			}
			restart(func(results string) {
				require.NoError(t, os.RemoveAll(results))
				require.NoError(t, os.CopyFS(results, os.DirFS(older)))
			})
			want := make(map[string]string)
			for i := range 5 { // up to a higher sequence than was reached before
				no := fmt.Sprintf("B-%d", i)
				b.put(no, "rejected")
				want[no] = "rejected"
			}
			require.EqualValues(t, 3, b.seqs["B-0"], "the sequence was given out again")
			if !runs {
				run(t, newTestSender(t, q, e.URL))
			}
			e.await(t, want)
			require.Eventually(t, func() bool { return kept(t, q).Position.Seq == 7 }, time.Minute, time.Millisecond)
		})
	}
}

// resultsFolder finds where the broker keeps the results.
func resultsFolder(t *testing.T, dir string) (found string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "ORDERS_RESULTS" {
			found = path
		}
		return err
	}))
	require.NotEmpty(t, found)
	return found
}

// TestANewStreamOfResults: with another stream under the name, no old sequence counts.
func TestANewStreamOfResults(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t))
	b := newLedger(t, q)
	b.put("A-1", "accepted")
	first, err := q.Results().State(t.Context())
	require.NoError(t, err)
	b.put("A-2", "accepted")
	b.put("A-3", "retrying")
	state, err := q.Results().State(t.Context())
	require.NoError(t, err)
	b.put("A-3", "accepted") // the record before is gone
	one, three := mark{1, first.LastTime}, mark{3, state.LastTime}
	two := mark{2, state.LastTime.Add(-time.Nanosecond)} // another record had the sequence
	for name, c := range map[string]struct {
		kept Position
		want uint64
	}{
		"the same":                         {Position{one, state.Birth, nil}, 1},
		"the same, and replaced since":     {Position{three, state.Birth, []mark{one}}, 3},
		"nothing was told yet":             {Position{Birth: state.Birth}, 0},
		"another":                          {Position{one, state.Birth - 1, nil}, 0},
		"another, never told":              {Position{Birth: state.Birth - 1}, 0},
		"it ends earlier":                  {Position{mark{500, time.Now()}, state.Birth, []mark{one, three}}, 1},
		"it ends earlier, with no mark":    {Position{mark{500, time.Now()}, state.Birth, nil}, 0},
		"other records":                    {Position{two, state.Birth, []mark{one}}, 1},
		"other records, the last replaced": {Position{three, state.Birth, []mark{one, two}}, 1},
		"all are others":                   {Position{two, state.Birth, nil}, 0},
	} {
		from, err := resume(t.Context(), q, c.kept)
		require.NoError(t, err)
		require.Equal(t, c.want, from.Seq, name)
		require.Equal(t, state.Birth, from.Birth, name)
	}
}

// TestABrokersClockThatIsSetBack: what was stored while the clock was ahead seems to be the
// later one, and nothing is lost. Each outcome is told once.
func TestABrokersClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	server := startBroker(t)
	q := openQueue(t, server)
	e, b := newHookServer(t), newLedger(t, q)
	for _, no := range []string{"A-1", "A-2", "A-3"} {
		b.put(no, "accepted")
	}
	server.Stop()
	require.Eventually(t, func() bool { return !q.Conn.Connected() }, time.Minute, time.Millisecond)
	storedAt(t, resultsFolder(t, server.Dir), 2, time.Now().Add(time.Hour))
	server.Restart(t)
	require.Eventually(t, q.Conn.Connected, time.Minute, time.Millisecond)
	stored, err := q.Results().Get(t.Context(), []uint64{2, 3})
	require.NoError(t, err)
	require.True(t, stored[0].Time.After(stored[1].Time))

	stop := run(t, newTestSender(t, q, e.URL))
	e.await(t, map[string]string{"A-1": "accepted", "A-2": "accepted", "A-3": "accepted"})
	require.Eventually(t, func() bool { return kept(t, q).Position.Seq == 3 }, time.Minute, time.Millisecond)
	stop()
	from, err := resume(t.Context(), q, kept(t, q).Position)
	require.NoError(t, err)
	require.EqualValues(t, 3, from.Seq)
	b.put("A-4", "accepted")
	run(t, newTestSender(t, q, e.URL))
	e.await(t, map[string]string{"A-4": "accepted"})
	_, all := e.last()
	require.Len(t, all, 4)
}

// storedAt changes when a message of a stream was stored, in the file of the broker that stopped.
func storedAt(t *testing.T, folder string, seq uint64, at time.Time) {
	t.Helper()
	path := filepath.Join(folder, "msgs", "1.blk")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	key := sha256.Sum256([]byte(filepath.Base(folder) + "-1"))
	hash, err := highwayhash.New64(key[:])
	require.NoError(t, err)
	const head, headers = 22, 1 << 31 // nats-server 2.15: length, sequence, time, length of the subject
	for left, le := data, binary.LittleEndian; ; {
		require.Greater(t, len(left), head, "there is no message %d", seq)
		size := le.Uint32(left)
		record := left[:size&^headers]
		left = left[len(record):]
		if le.Uint64(record[4:]) != seq {
			continue
		}
		le.PutUint64(record[12:], uint64(at.UnixNano()))
		body, sum := record[head:len(record)-8], record[len(record)-8:]
		hash.Write(record[4:20])
		subject := int(le.Uint16(record[20:]))
		hash.Write(body[:subject])
		if body = body[subject:]; size&headers != 0 {
			body = body[4:]
		}
		hash.Write(body)
		copy(sum, hash.Sum(nil))
		break
	}
	require.NoError(t, os.WriteFile(path, data, 0o600))
	require.NoError(t, os.Remove(filepath.Join(folder, "msgs", "index.db"))) // made anew
}
