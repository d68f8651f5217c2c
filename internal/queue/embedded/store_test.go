package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue/embedded"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/smalldisk"
)

func TestMain(m *testing.M) { patient.Main(m) }

// breakable returns a data folder whose writes a test can make fail and succeed
// again: by a disk of 3 MB that is filled and enlarged, or, if this process
// must not mount one, by a file in place of the folder of the stream's blocks.
func breakable(t *testing.T) (dir string, spoil, mend func()) {
	t.Helper()
	dir = t.TempDir()
	disk, err := smalldisk.Mount(dir, 3<<20)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		t.Logf("NO FULL DISK: %v; the folder of the stream's blocks is replaced instead", err)
		blocks := filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "S", "msgs")
		return dir, func() {
				require.NoError(t, os.Rename(blocks, blocks+".away"))
				require.NoError(t, os.WriteFile(blocks, nil, 0o600))
			}, func() {
				require.NoError(t, os.Remove(blocks))
				require.NoError(t, os.Rename(blocks+".away", blocks))
			}
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, disk.Unmount()) })
	return dir, func() {
			f, err := os.Create(filepath.Join(dir, "foreign"))
			require.NoError(t, err)
			for block := make([]byte, 4096); err == nil; {
				_, err = f.Write(block)
			}
			require.NoError(t, f.Close())
		},
		func() { require.NoError(t, disk.Resize(64<<20)) }
}

// nats-server gives up a stream after a failed write and never answers its
// publishers again. Fault reports that. After Revive, the broker serves
// everything that it has confirmed, and clients reconnect by themselves.
func TestAServerThatCannotWriteIsRevived(t *testing.T) {
	dir, spoil, mend := breakable(t)
	s, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	nc, err := nats.Connect(s.URL, nats.Token(s.Token), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}})
	require.NoError(t, err)
	confirmed := 0
	publish := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := js.Publish(ctx, fmt.Sprint("s.", confirmed), make([]byte, 8<<10))
		if err == nil {
			confirmed++
		}
		return err
	}
	for range 20 {
		require.NoError(t, publish(time.Minute))
	}
	require.NoError(t, s.Fault())

	spoil()
	for s.Fault() == nil {
		_ = publish(500 * time.Millisecond) // what fits into the current block is still stored
		require.Less(t, confirmed, 10_000, "the disk never fills")
	}
	t.Logf("after %d messages: %v", confirmed, s.Fault())
	require.Error(t, publish(500*time.Millisecond))
	mend()
	require.Error(t, publish(500*time.Millisecond), "it does not recover by itself: Revive would be needless")

	before := s.Endpoint
	require.NoError(t, s.Revive())
	require.Equal(t, before, s.Endpoint)
	require.NoError(t, s.Fault())
	require.Eventually(t, func() bool { return publish(500*time.Millisecond) == nil }, time.Minute, 10*time.Millisecond)
	stream, err := js.Stream(t.Context(), "S")
	require.NoError(t, err)
	for i := range confirmed {
		_, err := stream.GetLastMsgForSubject(t.Context(), fmt.Sprint("s.", i))
		require.NoError(t, err, "message %d was confirmed", i)
	}

	inside, err := nats.Connect(s.URL, nats.Token(s.Token), nats.Timeout(time.Minute))
	require.NoError(t, err)
	inside.Close()
	s.Stop()
	require.ErrorContains(t, s.Revive(), "stopped")
}

func TestDiskOfTheDataFolder(t *testing.T) {
	dir := t.TempDir()
	s, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	d, err := s.Disk()
	if errors.Is(err, errors.ErrUnsupported) {
		require.Zero(t, d)
		return
	}
	require.NoError(t, err)
	require.Positive(t, d.Free)
	require.GreaterOrEqual(t, d.Size, d.Free)
}
