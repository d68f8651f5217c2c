package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"orderpost/internal/testing/smalldisk"
)

// stageIn puts what is staged into a folder, for the time of a test.
func stageIn(t *testing.T, root string) {
	t.Helper()
	before := stagingRoot
	stagingRoot = root
	t.Cleanup(func() { stagingRoot = before })
}

// startStaging starts a server with a stream S that takes batches.
func startStaging(t *testing.T, dir string) (*Server, jetstream.JetStream) {
	t.Helper()
	s, err := Start(Config{Dir: dir, Listen: "127.0.0.1:0", Streams: []string{"S"}})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	nc, err := nats.Connect(s.URL, nats.Token(s.Token))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowAtomicPublish: true})
	require.NoError(t, err)
	return s, js
}

func publishBatch(t *testing.T, js jetstream.JetStream, size int) error {
	t.Helper()
	var batch []*nats.Msg
	for range 2 {
		m := nats.NewMsg("s.x")
		m.Data = make([]byte, size)
		batch = append(batch, m)
	}
	_, err := jetstreamext.PublishMsgBatch(t.Context(), js, batch, jetstreamext.BatchFlowControl{AckTimeout: 5 * time.Second})
	return err
}

// Batches are staged in memory, at each start anew, and nothing is left there behind a server
// that ends.
func TestBatchesAreStagedInMemory(t *testing.T) {
	if !staysInMemory(stagingRoot) {
		t.Fatalf("%s is no file system in memory", stagingRoot)
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "S", "batches")
	for range 2 {
		s, js := startStaging(t, dir)
		to, err := os.Readlink(link)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(s.staging, "S"), to)
		info, err := os.Stat(s.staging)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "what is staged holds orders")
		require.NoError(t, publishBatch(t, js, 10))
		s.Stop()
		require.NoFileExists(t, link)
		require.NoDirExists(t, s.staging)
	}
}

// A server that was killed leaves what it staged, with which the next one begins.
func TestStagingOfAKilledServerIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	folder := stagingFolder(dir)
	require.NotEmpty(t, folder)
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "S", "old"), 0o700))
	s, js := startStaging(t, dir)
	require.Equal(t, folder, s.staging)
	require.NoDirExists(t, filepath.Join(folder, "S", "old"))
	require.NoError(t, publishBatch(t, js, 10))
}

// mountMemory puts a small file system in memory in the place of the machine's.
func mountMemory(t *testing.T, size int64) (root string) {
	t.Helper()
	root = t.TempDir()
	disk, err := smalldisk.Mount(root, size)
	if errors.Is(err, fs.ErrPermission) {
		return ""
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, disk.Unmount()) })
	stageIn(t, root)
	return root
}

// If that memory is full, a batch is refused and the server keeps what it has of it. So the
// server is to be revived, and stages on the disk from then on.
func TestStagingThatIsFullMovesToTheDisk(t *testing.T) {
	root := mountMemory(t, 2*stagingFree)
	if root == "" {
		t.Log("NO FULL MEMORY: this process must not mount one")
		return
	}
	s, js := startStaging(t, t.TempDir())
	require.NotEmpty(t, s.staging)
	require.NoError(t, publishBatch(t, js, 900_000))
	foreign := filepath.Join(root, "foreign")
	require.NoError(t, os.WriteFile(foreign, make([]byte, 2*stagingFree-1<<20), 0o600))
	require.Error(t, publishBatch(t, js, 900_000))
	_, err := js.Publish(t.Context(), "s.x", make([]byte, 900_000))
	require.NoError(t, err)
	require.ErrorContains(t, s.Fault(), "no space left")
	require.NoError(t, os.Remove(foreign))
	require.NoError(t, s.Revive())
	require.NoError(t, s.Fault())
	require.Empty(t, s.staging)
	require.False(t, isLink(s.batches("S")))
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.Eventually(t, func() bool { return publishBatch(t, js, 900_000) == nil }, time.Minute, 10*time.Millisecond)
}

func TestStagingNeedsRoom(t *testing.T) {
	if mountMemory(t, stagingFree/2) == "" {
		t.Log("NO SMALL MEMORY: this process must not mount one")
		return
	}
	s, js := startStaging(t, t.TempDir())
	require.Empty(t, s.staging)
	require.False(t, isLink(s.batches("S")))
	require.NoError(t, publishBatch(t, js, 10))
}

// Somebody may empty the folder, such as systemd at the end of a session. A look at the server
// makes what is missing again.
func TestStagingThatIsGoneIsMadeAgain(t *testing.T) {
	s, js := startStaging(t, t.TempDir())
	require.NoError(t, os.RemoveAll(s.staging))
	require.Error(t, publishBatch(t, js, 10))
	require.NoError(t, s.Fault())
	require.NoError(t, publishBatch(t, js, 10))

	require.NoError(t, os.RemoveAll(s.staging))
	folder := s.staging
	require.NoError(t, os.Symlink(t.TempDir(), folder), "another user's")
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, s.Fault())
	require.False(t, isLink(s.batches("S")))
	require.NoError(t, publishBatch(t, js, 10))
}

// A folder that somebody else may read, or a link, is not used.
func TestStagingNeedsAFolderOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	folder := stagingFolder(dir)
	require.NotEmpty(t, folder)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.Equal(t, folder, stagingFolder(dir))
	require.NoError(t, os.Chmod(folder, 0o755))
	require.Empty(t, stagingFolder(dir))
	require.NoError(t, os.Remove(folder))
	require.NoError(t, os.Symlink(t.TempDir(), folder))
	require.Empty(t, stagingFolder(dir))
}

// A server that is stopped twice leaves the next one alone.
func TestASecondStopLeavesTheNextServersStaging(t *testing.T) {
	dir := t.TempDir()
	first, _ := startStaging(t, dir)
	first.Stop()
	next, js := startStaging(t, dir)
	first.Stop()
	require.DirExists(t, next.staging)
	require.True(t, isLink(next.batches("S")))
	require.NoError(t, publishBatch(t, js, 10))
}

// A client that was first has its batch in the folder that the link is to replace.
func TestTheLinkWaitsForABatch(t *testing.T) {
	dir := t.TempDir()
	link, target := filepath.Join(dir, "batches"), filepath.Join(dir, "target")
	require.NoError(t, os.MkdirAll(filepath.Join(link, "x"), 0o700))
	time.AfterFunc(50*time.Millisecond, func() { _ = os.Remove(filepath.Join(link, "x")) })
	replaceByLink(link, target)
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, target, to)
}
