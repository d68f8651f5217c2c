package livefile

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAuthoritiesAreReadAgain(t *testing.T) {
	path, key := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "ca.key")
	var told []string
	open := func() (*Authorities, error) {
		return OpenAuthorities("SETTING", path, func(err error) { told = append(told, err.Error()) })
	}
	_, err := open()
	require.ErrorContains(t, err, "SETTING: open "+path)
	require.NoError(t, os.WriteFile(path, []byte("nothing"), 0o600))
	_, err = open()
	require.ErrorContains(t, err, "SETTING: "+path+" has no certificate in PEM")

	now := time.Now()
	change := func(serial int64) *x509.CertPool { // the file is at rest, as one that was written a while ago
		t.Helper()
		renew(t, serial, now.Add(-time.Hour), now.Add(time.Hour), path, key)
		at := now.Add(time.Duration(serial-100) * time.Second)
		require.NoError(t, os.Chtimes(path, at, at))
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
	require.True(t, first.Equal(a.Get()), "it looks every few seconds")
	a.looked = time.Time{}
	require.True(t, second.Equal(a.Get()))
	require.Empty(t, told)

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Chtimes(path, now.Add(-time.Minute), now.Add(-time.Minute)))
	for range 2 {
		a.looked = time.Time{}
		require.True(t, second.Equal(a.Get()))
	}
	require.Len(t, told, 1)
	require.Contains(t, told[0], "has no certificate in PEM; the authorities before stay")
}
