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
	mu     sync.Mutex
	file   *File
	looked time.Time
	pool   *x509.CertPool
	teller teller
}

// OpenAuthorities reads the file that a setting names. Errors begin with the setting's name. report
// is told once of a file that changed and cannot be read: the authorities before stay.
func OpenAuthorities(setting, path string, report func(error)) (*Authorities, error) {
	a := &Authorities{looked: time.Now(), file: &File{setting: setting, path: path}, teller: teller{report: report}}
	_, err := a.file.read(a.take)
	return a, err
}

func (a *Authorities) take(text []byte) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s: %s has no certificate in PEM", a.file.setting, a.file.path)
	}
	a.pool = pool
	return nil
}

// Get returns the authorities for a handshake.
func (a *Authorities) Get() *x509.CertPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.looked) < certificateAge {
		return a.pool
	}
	a.looked = time.Now()
	_, err := a.file.Reload(a.take)
	if err != nil {
		err = fmt.Errorf("%w; the authorities before stay", err)
	}
	a.teller.say(err)
	return a.pool
}
