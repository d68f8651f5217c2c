package embedded

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// openTest starts the broker of a folder, without some protections.
func openTest(t *testing.T, dir string, without ...string) (*Server, jetstream.JetStream) {
	t.Helper()
	s, err := Start(Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true, Without: without})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	nc, err := nats.Connect(s.URL, nats.Token(s.Token), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return s, js
}

// nats-server writes a stream's configuration, then its checksum. A kill between the two
// hides the stream with all its messages from the next start, unless the checksum is
// mended.
func TestAnInterruptedUpdateHidesNoStream(t *testing.T) {
	dir := t.TempDir()
	stream := filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "S")
	s, js := openTest(t, dir)
	require.Empty(t, s.Mended)
	cfg := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}
	made, err := js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s.1", []byte("confirmed"))
	require.NoError(t, err)
	_, err = made.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "C"})
	require.NoError(t, err)
	before, err := os.ReadFile(filepath.Join(stream, sumFile))
	require.NoError(t, err)
	cfg.MaxMsgs = 1000
	_, err = js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	s.Stop()
	after, err := os.ReadFile(filepath.Join(stream, sumFile))
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	interrupt := func() {
		require.NoError(t, os.WriteFile(filepath.Join(stream, sumFile), before, 0o600))
		require.NoError(t, os.Remove(filepath.Join(stream, "obs", "C", sumFile)))
	}

	interrupt()
	s, js = openTest(t, dir, "meta")
	_, err = js.Stream(t.Context(), "S")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "nats-server finds the stream by itself: mendMeta would be needless")
	s.Stop()

	s, js = openTest(t, dir)
	require.Equal(t, []string{"S", "S/C"}, s.Mended)
	found, err := js.Stream(t.Context(), "S")
	require.NoError(t, err)
	require.EqualValues(t, 1000, found.CachedInfo().Config.MaxMsgs)
	msg, err := found.GetLastMsgForSubject(t.Context(), "s.1")
	require.NoError(t, err)
	require.Equal(t, "confirmed", string(msg.Data))
	_, err = found.Consumer(t.Context(), "C")
	require.NoError(t, err)
	s.Stop()
	mended, err := os.ReadFile(filepath.Join(stream, sumFile))
	require.NoError(t, err)
	require.Equal(t, after, mended)

	s, _ = openTest(t, dir)
	require.Empty(t, s.Mended)
}

// A stream and a consumer that were made while the clock was ahead are mended once it is right.
func TestAClockThatWasAheadHidesNoStream(t *testing.T) {
	dir := t.TempDir()
	s, js := openTest(t, dir)
	made, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s.1", []byte("confirmed"))
	require.NoError(t, err)
	_, err = made.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "C"})
	require.NoError(t, err)
	s.Stop()
	stream := filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "S")
	for _, folder := range []string{stream, filepath.Join(stream, "obs", "C")} { // the checksums are those of the former times
		path := filepath.Join(folder, metaFile)
		meta, err := os.ReadFile(path)
		require.NoError(t, err)
		ahead := regexp.MustCompile(`"(Created|created)":"20`).ReplaceAll(meta, []byte(`"$1":"60`))
		require.NotEqual(t, meta, ahead)
		require.NoError(t, os.WriteFile(path, ahead, 0o600))
	}
	s, js = openTest(t, dir)
	require.Equal(t, []string{"S", "S/C"}, s.Mended)
	found, err := js.Stream(t.Context(), "S")
	require.NoError(t, err)
	require.Greater(t, found.CachedInfo().Created.Year(), 6000)
	consumer, err := found.Consumer(t.Context(), "C")
	require.NoError(t, err)
	msg, err := consumer.Next()
	require.NoError(t, err)
	require.Equal(t, "confirmed", string(msg.Data()))
}

// A server that is killed while it tries its folder leaves a file, which its health check
// takes for an account.
func TestALeftProbeIsNoFault(t *testing.T) {
	dir := t.TempDir()
	s, _ := openTest(t, dir)
	s.Stop()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "jetstream", "jetstream", "_test_123"), nil, 0o600))
	s, _ = openTest(t, dir, "meta")
	require.ErrorContains(t, s.Fault(), "_test_123", "nats-server ignores it by itself: removeProbes would be needless")
	s.Stop()

	s, _ = openTest(t, dir)
	require.NoError(t, s.Fault())
}

// cutTail leaves what may be the end of a record.
func TestCutTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.blk")
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	for before, after := range map[string]string{
		"": "", "record": "record", "record" + zeros(7): "record" + zeros(7), "record" + zeros(8): "record" + zeros(7),
		"record" + zeros(9000): "record" + zeros(7), zeros(9000): "", zeros(5000) + "record" + zeros(5000): zeros(5000) + "record" + zeros(7),
	} {
		require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
		require.NoError(t, cutTail(path))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, after, string(got))
	}
}

// A configuration that is not whole, or another stream's, was not left by a crash.
func TestADamagedConfigurationIsLeftAlone(t *testing.T) {
	store := t.TempDir()
	dir := filepath.Join(store, "jetstream", "$G", "streams", "S")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	whole, err := json.Marshal(server.FileStreamInfo{Created: time.Now().UTC(), StreamConfig: server.StreamConfig{Name: "S", Subjects: []string{"s.*"}, Storage: server.FileStorage}})
	require.NoError(t, err)
	flipped := strings.Replace(string(whole), `"subjects"`, `"subjectr"`, 1) // one bit
	require.NotEqual(t, string(whole), flipped)
	for _, meta := range []string{`{"name":"S"`, `{"name":"T"}`, "\x00\x00", `{"name":"S"}`, flipped} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, metaFile), []byte(meta), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, sumFile), []byte("0123456789abcdef"), 0o600))
		mended, err := mendMeta(store)
		require.NoError(t, err)
		require.Empty(t, mended)
	}
}

// Every folder that a confirmed message needs is there, and synced, before the server
// starts; where the file system can, it writes new blocks' names at once.
func TestFoldersAreMadeFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := Start(Config{Dir: dir, Listen: "127.0.0.1:0", Streams: []string{"S"}})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	blocks := filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "S", "msgs")
	require.DirExists(t, blocks)
	require.Equal(t, canDirsync(t, t.TempDir()), hasDirsync(t, blocks))

	nc, err := nats.Connect(s.URL, nats.Token(s.Token), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s.1", nil)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(blocks, "1.blk"))
}

// A token of zeros is what a power cut left of a token file of earlier versions.
func TestATokenThatIsNotWholeIsReplaced(t *testing.T) {
	for _, left := range []string{"", strings.Repeat("\x00", 2*tokenBytes), strings.Repeat("z", 2*tokenBytes)} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, tokenFile), []byte(left), 0o600))
		token, _, err := keptToken(dir)
		require.NoError(t, err)
		require.NotEqual(t, left, token)
		require.True(t, isToken([]byte(token)))
		again, _, err := keptToken(dir)
		require.NoError(t, err)
		require.Equal(t, token, again)
	}
}
