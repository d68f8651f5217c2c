package embedded

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// Disk is the file system of the data folder, in bytes.
type Disk struct {
	// Free is what this process may still write, Size all that there is.
	Free, Size int64
}

// Disk measures the file system of the data folder. The error wraps
// errors.ErrUnsupported where the operating system does not say.
func (s *Server) Disk() (Disk, error) {
	d, err := statDisk(s.cfg.Dir)
	if err != nil {
		return d, fmt.Errorf("data folder %s: %w", s.cfg.Dir, err)
	}
	return d, nil
}

// Fault says why the server does not store messages any more; nil while it
// does. nats-server gives a stream up after one write that failed (a full disk,
// most often): it answers no publisher of that stream until it is started
// anew. A folder that it may not write to makes it end JetStream altogether.
func (s *Server) Fault() error {
	s.mu.Lock()
	ns, log := s.nats, s.log
	s.mu.Unlock()
	if text := log.critical(); text != "" {
		return errors.New(text)
	}
	if h := ns.Healthz(&server.HealthzOptions{}); h.Error != "" {
		return errors.New(h.Error)
	}
	return nil
}

// Revive starts the server anew on the same files and the same address, as
// Fault requires. Clients reconnect. Where it fails nothing runs, and Revive can
// be called again.
func (s *Server) Revive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errors.New("embedded broker: it was stopped")
	}
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	_, err := s.boot()
	return err
}
