package livefile

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestAuthoritiesAreReadAgain(t *testing.T) {
	path, key := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "ca.key")
	var log strings.Builder
	open := func() (*Live[*x509.CertPool], error) { return OpenAuthorities("SETTING", path, zerolog.New(&log)) }
	_, err := open()
	require.ErrorContains(t, err, "SETTING: open "+path)
	require.NoError(t, os.WriteFile(path, []byte("nothing"), 0o600))
	_, err = open()
	require.ErrorContains(t, err, "SETTING: "+path+": there is no certificate in PEM")

	now := time.Now()
	change := func(serial int64) *x509.CertPool {
		t.Helper()
		renew(t, serial, now.Add(-time.Hour), now.Add(time.Hour), path, key)
		rest(t, path, time.Duration(serial-100)*time.Second)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		block, _ := pem.Decode(text)
		cert, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		pool := x509.NewCertPool()
		pool.AddCert(cert)
		return pool
	}
	first := change(1)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append([]byte("\ufeff"), text...), 0o600)) // as editors on Windows save it
	a, err := open()
	require.NoError(t, err)
	require.True(t, first.Equal(a.Get()))

	second := change(2)
	require.True(t, second.Equal(a.Get()))
	require.Empty(t, log.String())

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	rest(t, path, -time.Minute)
	for range 2 {
		require.True(t, second.Equal(a.Get()))
	}
	require.Equal(t, 1, strings.Count(log.String(), "there is no certificate in PEM; what was read before stays in force"))
	third := change(3)
	require.True(t, third.Equal(a.Get()))
	require.Contains(t, log.String(), "a file of settings is right again")
}

// rest makes a file look as if it had been written so long ago (below 0).
func rest(t *testing.T, path string, ago time.Duration) {
	t.Helper()
	at := time.Now().Add(ago)
	require.NoError(t, os.Chtimes(path, at, at))
}

// TestAFileThatAnybodyMayWrite is refused, with the command that mends it.
func TestAFileThatAnybodyMayWrite(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // the mode says nothing there
	}
	path := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(path, []byte("anna"), 0o600))
	var log strings.Builder
	open := func() (*Live[string], error) {
		return OpenLive(Options{Setting: "SETTING", Path: path, Guard: true, Log: zerolog.New(&log)}, func(text []byte) (string, error) {
			if len(text) == 0 {
				return "", errors.New("it names nobody")
			}
			return string(text), nil
		})
	}
	l, err := open()
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o646))
	_, err = open()
	want := "SETTING: anybody on this machine may write " + path + " (mode 0646) and let themselves in; run chmod o-w " + path
	require.EqualError(t, err, want)
	require.NoError(t, os.WriteFile(path, []byte("a stranger"), 0o600))
	rest(t, path, -time.Minute)
	require.Equal(t, "anna", l.Get(), "what was read before stays in force")
	require.Contains(t, log.String(), want)

	folder := filepath.Dir(path)
	require.NoError(t, os.Chmod(path, 0o664))
	require.NoError(t, os.Chmod(folder, 0o777))
	_, err = open()
	require.ErrorContains(t, err, "because its folder is open to all (mode 0777); run chmod o-w "+folder)
	require.NoError(t, os.Chmod(folder, 0o777|os.ModeSticky))
	_, err = open()
	require.NoError(t, err, "in a sticky folder nobody replaces another's file")
}
