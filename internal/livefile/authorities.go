package livefile

import (
	"crypto/x509"
	"fmt"
	"sync"
	"time"
)

// Authorities are the certificates in a PEM file by which a server knows its clients'. The file is
// read again when it changes, so that an authority may be added or taken away without a restart.
// It is safe for concurrent use.
type Authorities struct {
	report func(error)

	mu     sync.Mutex
	file   *File
	looked time.Time
	pool   *x509.CertPool
	said   string // what report was told last
}

// OpenAuthorities reads the file that a setting names. Errors begin with the setting's name. report
// is told once of a file that changed and cannot be read: the authorities before stay.
func OpenAuthorities(setting, path string, report func(error)) (*Authorities, error) {
	a := &Authorities{report: report, looked: time.Now()}
	var err error
	a.file, err = Open(setting, path, a.take(setting, path))
	return a, err
}

func (a *Authorities) take(setting, path string) func([]byte) error {
	return func(text []byte) error {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s: %s has no certificate in PEM", setting, path)
		}
		a.pool = pool
		return nil
	}
}

// Get returns the authorities for a handshake.
func (a *Authorities) Get() *x509.CertPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.looked) < certificateAge {
		return a.pool
	}
	a.looked = time.Now()
	text := ""
	if _, err := a.file.Reload(a.take(a.file.setting, a.file.path)); err != nil {
		if text = err.Error(); text != a.said {
			a.report(fmt.Errorf("%w; the authorities before stay", err))
		}
	}
	a.said = text
	return a.pool
}
