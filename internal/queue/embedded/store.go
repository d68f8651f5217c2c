package embedded

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// Disk is the file system of the data folder, in bytes.
type Disk struct {
	// Free is the space that this process may still use. Size is the whole
	// space.
	Free, Size int64
}

// Disk measures the file system of the data folder. The error wraps
// errors.ErrUnsupported if the operating system cannot measure it.
func (s *Server) Disk() (Disk, error) {
	d, err := statDisk(s.cfg.Dir)
	if err != nil {
		return d, fmt.Errorf("data folder %s: %w", s.cfg.Dir, err)
	}
	return d, nil
}

// Fault returns why the server does not store messages any more, nil while it
// does. nats-server gives a stream up after one failed write, most often
// because of a full disk. It then answers no publisher of that stream until it
// is restarted. If it may not write to its folder, it stops JetStream
// altogether. Call it now and then: it also makes again what is staged in memory, if that is
// gone.
func (s *Server) Fault() error {
	s.mu.Lock()
	ns, log := s.nats, s.log
	s.keepStaged()
	s.mu.Unlock()
	if text := log.critical(); text != "" {
		return errors.New(text)
	}
	if h := ns.Healthz(&server.HealthzOptions{}); h.Error != "" {
		return errors.New(h.Error)
	}
	return nil
}

// Revive restarts the server on the same files and the same address, as Fault
// requires. Clients reconnect. After an error no server runs, and Revive can be
// called again.
func (s *Server) Revive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errors.New("embedded broker: already stopped")
	}
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	s.memoryFailed = s.memoryFailed || s.failedInMemory()
	_, err := s.boot()
	return err
}
