package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"orderpost/internal/order/schema"
	"orderpost/internal/queue"
)

// Option changes how Connect connects.
type Option func(*settings)

type settings struct {
	queue   queue.Config
	dataDir string
	schema  schema.Config
}

// defaultPatience is how long a request waits for a broker that went away.
const defaultPatience = 30 * time.Second

func newSettings(url string) *settings {
	s := &settings{queue: queue.DefaultConfig()}
	s.queue.URL, s.queue.Name, s.queue.BrokerWait, s.queue.Missing = url, "client", defaultPatience, queue.RefuseMissing
	if host, err := os.Hostname(); err == nil {
		s.queue.Name = "client@" + host
	}
	return s
}

// DataDir connects to the broker that a worker on this machine runs in its data folder,
// also after it was restarted at another address.
func DataDir(dir string) Option { return func(s *settings) { s.dataDir = dir } }

// NKeyFile names the file with the seed of a NATS user nkey.
func NKeyFile(path string) Option { return func(s *settings) { s.queue.NKeyFile = path } }

// CredentialsFile names a NATS credentials file (.creds).
func CredentialsFile(path string) Option { return func(s *settings) { s.queue.Creds = path } }

// Token gives the token of a broker that asks for one.
func Token(token string) Option { return func(s *settings) { s.queue.Token = token } }

// CAFile names a PEM file of the authorities that the broker's certificate is checked
// against, in place of the system's.
func CAFile(path string) Option { return func(s *settings) { s.queue.CAFile = path } }

// Certificate names the PEM files of a client certificate and its key.
func Certificate(certFile, keyFile string) Option {
	return func(s *settings) { s.queue.CertFile, s.queue.KeyFile = certFile, keyFile }
}

// InboxPrefix is the subject prefix of the broker's answers, where the NATS user may
// subscribe to no others.
func InboxPrefix(prefix string) Option { return func(s *settings) { s.queue.InboxPrefix = prefix } }

// Prefix is the fleet's ORDERPOST_PREFIX.
func Prefix(prefix string) Option { return func(s *settings) { s.queue.Prefix = prefix } }

// Name names this client in the broker's monitoring and in the journal. The default is
// "client@" and the host.
func Name(name string) Option { return func(s *settings) { s.queue.Name = name } }

// Patience is how long a request waits for a broker that went away, within its context. 0
// means that it fails at once. The default is 30 seconds.
func Patience(d time.Duration) Option { return func(s *settings) { s.queue.BrokerWait = d } }

// OrderSchema names the file of a JSON Schema. An order that breaks it is refused with an
// InvalidError, and is not stored. The file is read again when it changes.
func OrderSchema(path string) Option { return func(s *settings) { s.schema.File = path } }

// check completes the settings.
func (s *settings) check() error {
	switch {
	case s.dataDir != "" && s.queue.URL != "":
		return fmt.Errorf("both the address %q and the data folder %q are given; give one of them", queue.RedactURL(s.queue.URL), s.dataDir)
	case s.dataDir != "":
		s.queue.Locate = func() (url, token string, err error) { return locate(s.dataDir) }
		var err error
		s.queue.URL, s.queue.Token, err = s.queue.Locate()
		return err
	case s.queue.URL == "":
		return errors.New("no address is given; give that of a NATS server, or DataDir")
	}
	return nil
}

// endpointFile is where a worker's broker writes its address (docs/producers.md).
const endpointFile = "nats.json"

// locate reads the address of the broker of a data folder.
func locate(dir string) (url, token string, err error) {
	var at struct{ URL, Token string }
	text, err := os.ReadFile(filepath.Join(dir, endpointFile))
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: no worker runs a broker in the data folder %q; start one there", ErrUnavailable, dir)
	}
	return at.URL, at.Token, err
}
