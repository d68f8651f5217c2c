package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func serve(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// A token that others could read opens the broker to them. It is replaced.
func TestATokenThatOthersCouldReadIsRenewed(t *testing.T) {
	dir := t.TempDir()
	first := serve(t, dir)
	first.Stop()
	kept := serve(t, dir)
	require.Equal(t, first.Token, kept.Token, "it outlives a restart")
	require.Empty(t, kept.Renewed)
	kept.Stop()

	path := filepath.Join(dir, tokenFile)
	for _, mode := range []os.FileMode{0o644, 0o660, 0o604, 0o620} {
		require.NoError(t, os.Chmod(path, mode))
		next := serve(t, dir)
		require.NotEqual(t, kept.Token, next.Token, "mode %o", mode)
		require.Contains(t, next.Renewed, path+" can be read or changed by others")
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		next.Stop()
		kept = next
	}
}

// A worker that was killed leaves the endpoint file behind, which holds the
// token.
func TestAnEndpointThatOthersCanReadIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	end, err := ReadEndpoint(dir)
	require.NoError(t, err)
	require.Equal(t, s.Endpoint, end)
	path := filepath.Join(dir, endpointFile)
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = ReadEndpoint(dir)
	require.ErrorContains(t, err, path+" can be read or changed by others (mode 0644)")
	require.ErrorContains(t, err, "restart the worker")
	require.NotContains(t, err.Error(), s.Token)
	left, err := os.ReadFile(path)
	require.NoError(t, err)
	s.Stop()
	require.NoError(t, os.WriteFile(path, left, 0o644)) //nolint:gosec // it is what the test is about
	next := serve(t, dir)
	require.NotEqual(t, s.Token, next.Token)
	_, err = ReadEndpoint(dir)
	require.NoError(t, err)
}
