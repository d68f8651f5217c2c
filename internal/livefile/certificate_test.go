package livefile

import (
	"crypto/x509"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/authority"
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
	var told []string
	open := func() (*Certificate, error) {
		return OpenCertificate("SETTING", certFile, keyFile, func(err error) { told = append(told, err.Error()) })
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
	require.Empty(t, told)

	renew(t, 2, now.Add(-time.Hour), now.Add(time.Hour), certFile, "") // its key is still to come
	shows(1)
	require.Len(t, told, 1)
	require.Contains(t, told[0], "private key does not match public key; the last good certificate is shown on")

	require.NoError(t, os.Remove(keyFile))
	shows(1)
	require.Len(t, told, 2)
	require.Contains(t, told[1], "SETTING: its key: open ")

	renew(t, 3, now.Add(-time.Hour), now.Add(time.Hour), certFile, keyFile)
	shows(3)
	require.Len(t, told, 2)

	renew(t, 4, now.Add(-2*time.Hour), now.Add(-time.Hour), certFile, keyFile)
	shows(4)
	require.Len(t, told, 3)
	require.Contains(t, told[2], "SETTING: "+certFile+" expired on ")

	renew(t, 5, now.Add(time.Hour), now.Add(2*time.Hour), certFile, keyFile)
	c, err = open()
	require.NoError(t, err, "this machine's clock may be wrong")
	require.Len(t, told, 4)
	require.Contains(t, told[3], "is not valid before ")
	shows(5)
	require.Len(t, told, 4)
}
