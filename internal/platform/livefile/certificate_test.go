package livefile

import (
	"crypto/x509"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/sandbox/authority"
)

// renew writes a certificate of this serial number, or only one of its two files.
func renew(t *testing.T, serial int64, begins, ends time.Time, certFile, keyFile string) {
	t.Helper()
	a, err := authority.New("authority")
	require.NoError(t, err)
	pair, err := a.Sign(x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: begins, NotAfter: ends})
	require.NoError(t, err)
	cert, key, err := authority.PEM(pair)
	require.NoError(t, err)
	if certFile != "" {
		require.NoError(t, os.WriteFile(certFile, cert, 0o600))
	}
	if keyFile != "" {
		require.NoError(t, os.WriteFile(keyFile, key, 0o600))
	}
}

func TestARenewedCertificateIsShown(t *testing.T) {
	certFile, keyFile := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	now := time.Now()
	var log strings.Builder
	open := func() (*Certificate, error) { return OpenCertificate("SETTING", certFile, keyFile, zerolog.New(&log)) }
	told := func(lines int, last string) {
		t.Helper()
		all := strings.SplitAfter(log.String(), "\n")
		require.Len(t, all, lines+1, log.String())
		require.Contains(t, all[lines-1], last)
	}
	_, err := open()
	require.ErrorContains(t, err, "SETTING: open "+certFile)

	renew(t, 1, now.Add(-time.Hour), now.Add(time.Hour), certFile, keyFile)
	c, err := open()
	require.NoError(t, err)
	shows := func(serial int64) {
		t.Helper()
		for range 2 { // what is wrong is told once
			c.looked = time.Time{}
			pair, err := c.Get(nil)
			require.NoError(t, err)
			require.Equal(t, serial, pair.Leaf.SerialNumber.Int64())
		}
	}
	shows(1)
	require.Empty(t, log.String())

	renew(t, 2, now.Add(-time.Hour), now.Add(time.Hour), certFile, "") // its key is still to come
	shows(1)
	told(1, "private key does not match public key; the last good certificate is shown on")

	require.NoError(t, os.Remove(keyFile))
	shows(1)
	told(2, "SETTING: its key: open ")

	renew(t, 3, now.Add(-time.Hour), now.Add(time.Hour), certFile, keyFile)
	shows(3)
	told(3, "a file of settings is right again")

	renew(t, 4, now.Add(-2*time.Hour), now.Add(-time.Hour), certFile, keyFile)
	shows(4)
	told(4, "SETTING: "+certFile+" expired on ")

	renew(t, 5, now.Add(time.Hour), now.Add(2*time.Hour), certFile, keyFile)
	c, err = open()
	require.NoError(t, err, "this machine's clock may be wrong")
	shows(5)
	told(5, "is not valid before ")
}
