package embedded

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAStaleAddressGoesFirst: a server that was killed leaves its endpoint
// file. A program that finds the folder in use while another server starts
// would take it for that server's.
func TestAStaleAddressGoesFirst(t *testing.T) {
	dir := t.TempDir()
	killed := &Server{cfg: Config{Dir: dir}, Endpoint: Endpoint{URL: "nats://127.0.0.1:1", PID: 1}}
	require.NoError(t, killed.writeEndpoint())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	_, err = Start(Config{Dir: dir, Listen: taken.Addr().String()})
	require.Error(t, err)
	_, err = ReadEndpoint(dir)
	require.ErrorIs(t, err, os.ErrNotExist)

	s, err := Start(Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	defer s.Stop()
	end, err := ReadEndpoint(dir)
	require.NoError(t, err)
	require.Equal(t, s.Endpoint, end)
	require.True(t, HasStore(dir))
}

// Without a setting, whoever uses the usual port ends no worker: programs find the server by its folder.
func TestADefaultAddressThatIsTakenIsLeft(t *testing.T) {
	t.Parallel()
	if other, err := net.Listen("tcp", DefaultListen); err == nil { // else another program of this machine uses it
		t.Cleanup(func() { _ = other.Close() })
	}
	for range 2 {
		dir := t.TempDir()
		s, err := Start(Config{Dir: dir, NoSync: true})
		require.NoError(t, err)
		t.Cleanup(s.Stop)
		require.Equal(t, DefaultListen, s.Taken.Addr)
		require.NotEqual(t, "nats://"+DefaultListen, s.URL)
		end, err := ReadEndpoint(dir)
		require.NoError(t, err)
		require.Equal(t, s.URL, end.URL)
	}
	_, err := Start(Config{Dir: t.TempDir(), Listen: DefaultListen, NoSync: true})
	var taken *PortTakenError
	require.ErrorAs(t, err, &taken, "an address that was given is another matter")
}
