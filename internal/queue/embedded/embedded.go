// Package embedded runs a NATS server with JetStream inside the process: on
// loopback, file-backed, every write fsynced, guarded by a random token that is
// kept in the data folder (0600) for the other programs of this machine.
package embedded

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"

	"orderpost/internal/platform/durable"
)

// DefaultListen is the default address: the usual port of a NATS server, on
// loopback.
const DefaultListen = "127.0.0.1:4222"

// endpointFile is the file in which a running embedded server publishes its
// address and token.
const endpointFile = "nats.json"

// readyTimeout bounds the start. Recovering a store of a million messages takes
// about a second.
const readyTimeout = 60 * time.Second

// ErrInUse is returned by Start if another process runs the embedded server of
// this data folder. Join it with ReadEndpoint.
var ErrInUse = errors.New("another process runs the embedded broker of this data folder")

// Version is that of the nats-server that is compiled in.
const Version = server.VERSION

// Config configures the embedded server.
type Config struct {
	// Dir is the data folder. It is required, and created (0700) if it is
	// missing.
	Dir string
	// Listen is host:port on loopback. Port 0 chooses a free one. "" is DefaultListen, or
	// a free port if another program uses that one.
	Listen string
	// NoSync leaves fsync to the operating system. It is for benchmarks and
	// throw-away runs only: a power cut loses acknowledged orders.
	NoSync bool
	// MaxPayload bounds a message. 0 means 8 MiB, room for a dead letter with a
	// body of 1 MiB.
	MaxPayload int32
	// Streams names the streams that will be created. Their folders are made first,
	// so that a power cut on any file system leaves them.
	Streams []string
	// Without names protections to leave out, where a test shows that power cuts are
	// found to lose something then: "sync", "folders", "meta".
	Without []string
	// Temporary says that the program opens the store only for a while and the
	// server ends with it. Workers wait for that end instead of joining.
	Temporary bool
	// Tell receives the server's warnings and errors, and must not block; nil = nobody
	// wants to know.
	Tell func(text string, isError bool)
}

// Endpoint is what a program of this machine needs to reach an embedded server.
type Endpoint struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	PID   int    `json:"pid"`
	// Temporary is that of Config.
	Temporary bool `json:"passing,omitempty"`
}

// Server is a running embedded server.
type Server struct {
	Endpoint
	// Renewed says why the data folder got a new token; "" if it kept its
	// token. Programs that joined with the old token read the new one when they
	// reconnect.
	Renewed string
	// Taken says who uses DefaultListen, so that the server listens on a free port; nil = nobody, or
	// Config.Listen was given.
	Taken *PortTakenError
	// Mended lists the streams and consumers ("stream/consumer") whose
	// configuration a crash had left without its checksum. The configuration reads back as
	// this version of the server writes it; whether it is the wanted one, package queue
	// checks.
	Mended []string
	cfg    Config
	lock   *flock.Flock

	mu      sync.Mutex // guards what follows
	nats    *server.Server
	log     *faultLog
	stopped bool
	// staging is the folder in memory in which batches are staged; "" = none. memoryFailed
	// says that they were, and that the memory was full.
	staging      string
	memoryFailed bool
}

// Start runs the embedded server of a data folder. It returns ErrInUse if
// another process already does, *PortTakenError if another program uses an
// address that was given, and an error that names the folder if it cannot write there.
func Start(cfg Config) (*Server, error) {
	if cfg.Dir == "" {
		return nil, errors.New("embedded broker: no data folder given") // nats-server would use the temporary folder
	}
	if err := durable.MakeFolder(cfg.Dir, durable.SyncFolder); err != nil {
		return nil, fmt.Errorf("embedded broker: data folder: %w", err)
	}
	lock := flock.New(filepath.Join(cfg.Dir, "lock"))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("embedded broker: data folder %s: %w", cfg.Dir, err)
	}
	if !held {
		return nil, ErrInUse
	}
	_, renewed, err := keptToken(cfg.Dir) // before the endpoint file is removed, which may have exposed the token
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	// A server that was killed left its endpoint file behind. Programs that find the
	// folder in use must not take that endpoint for ours.
	if err := os.Remove(filepath.Join(cfg.Dir, endpointFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("embedded broker: %w", err), lock.Unlock())
	}
	s := &Server{cfg: cfg, lock: lock, Renewed: renewed}
	token, err := s.boot()
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	s.cfg.Listen = s.nats.Addr().String() // Revive takes the same port again
	s.Endpoint = Endpoint{URL: s.nats.ClientURL(), Token: token, PID: os.Getpid(), Temporary: cfg.Temporary}
	if err := s.writeEndpoint(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// boot starts nats-server with s.cfg and returns the token that it requires.
func (s *Server) boot() (token string, err error) {
	token, _, err = keptToken(s.cfg.Dir)
	if err != nil {
		return "", err
	}
	opts, err := options(s.cfg, token)
	if err != nil {
		return "", err
	}
	err = checkFree(opts.Host, opts.Port)
	if s.cfg.Listen == "" && errors.As(err, &s.Taken) {
		opts.Port, err = server.RANDOM_PORT, nil
	}
	if err != nil {
		return "", err
	}
	if err := s.prepareStore(); err != nil {
		return "", err
	}
	bare := bareFolders(s.cfg.Dir, s.cfg.Streams)
	ns, err := server.NewServer(opts)
	if err != nil {
		return "", fmt.Errorf("embedded broker: %w", err)
	}
	faults := newFaultLog(s.cfg.Tell, bare)
	ns.SetLoggerV2(faults, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(readyTimeout) || !ns.JetStreamEnabled() {
		ns.Shutdown()
		ns.WaitForShutdown()
		return "", fmt.Errorf("embedded broker: not ready in %s with data folder %s: %s", readyTimeout, s.cfg.Dir, faults.last())
	}
	s.nats, s.log = ns, faults
	s.stage()
	return token, nil
}

// prepareStore makes the store safe for a start and for the next power cut.
func (s *Server) prepareStore() (err error) {
	if s.cfg.protects("meta") {
		if s.Mended, err = mendMeta(filepath.Join(s.cfg.Dir, "jetstream")); err != nil {
			return err
		}
		if err = errors.Join(cutTails(filepath.Join(s.cfg.Dir, "jetstream")), removeProbes(filepath.Join(s.cfg.Dir, "jetstream"))); err != nil {
			return err
		}
	}
	if s.cfg.NoSync || !s.cfg.protects("folders") {
		return nil
	}
	if err := openStore(s.cfg.Dir, s.cfg.Streams); err != nil {
		return fmt.Errorf("embedded broker: data folder %s: %w", s.cfg.Dir, err)
	}
	return nil
}

func (c Config) protects(name string) bool {
	return !slices.Contains(c.Without, name)
}

// ParseListen reads the broker's address, which must be of loopback; "" = DefaultListen.
func ParseListen(listen string) (host string, port int, err error) {
	if listen == "" {
		listen = DefaultListen
	}
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("embedded broker: listen address %q: %w", listen, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", 0, fmt.Errorf("embedded broker: listen address %q is not a loopback address; run a NATS server of your own and set ORDERPOST_NATS_URL to share orders between machines", listen)
	}
	port, err = strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("embedded broker: listen address %q has no port between 0 and 65535", listen)
	}
	return host, port, nil
}

// options returns nats-server's options for a configuration.
func options(cfg Config, token string) (*server.Options, error) {
	host, port, err := ParseListen(cfg.Listen)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	maxStore := int64(1 << 60) // no real limit; 0 is the server's own estimate, where nobody can measure the free space
	if _, err := statDisk("."); err != nil {
		maxStore = 0
	}
	return &server.Options{
		ServerName:    "orderpost-embedded-" + strconv.Itoa(os.Getpid()),
		Host:          host,
		Port:          port,
		NoSigs:        true,
		Authorization: token,
		JetStream:     true,
		StoreDir:      filepath.Join(cfg.Dir, "jetstream"),
		SyncAlways:    !cfg.NoSync && cfg.protects("sync"),
		MaxPayload:    cmp.Or(cfg.MaxPayload, 8<<20),
		// By default the server refuses messages for all streams once it holds
		// three quarters of the space that was free at its start. It would then
		// refuse results as well as intents, even if the disk has grown since.
		// Workers limit the intents instead.
		JetStreamMaxStore: maxStore,
	}, nil
}

// replaceFile writes a file in one step (durable.Write).
func replaceFile(path string, data []byte) error {
	return durable.Write(path, os.Rename, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// writeEndpoint writes the endpoint file.
func (s *Server) writeEndpoint() error {
	data, err := json.Marshal(s.Endpoint)
	if err == nil {
		err = replaceFile(filepath.Join(s.cfg.Dir, endpointFile), data)
	}
	if err != nil {
		return fmt.Errorf("embedded broker: %w", err)
	}
	return nil
}

// HasStore reports whether an embedded server has stored streams in a data
// folder.
func HasStore(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "jetstream"))
	return err == nil && info.IsDir()
}

// ReadEndpoint reads the endpoint of a data folder's embedded server. The error
// wraps os.ErrNotExist if no server runs or one is starting. ReadEndpoint
// refuses a file that others can write, because it may lead to a server of
// theirs, and one that others can read, because they know the token then.
func ReadEndpoint(dir string) (Endpoint, error) {
	var e Endpoint
	path := filepath.Join(dir, endpointFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return e, err
	}
	if why, err := exposed(path); err != nil || why != "" {
		if err == nil {
			err = fmt.Errorf("%s, and it holds the broker's token: restart the worker that runs the broker, which creates a new token", why)
		}
		return e, err
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// Stop shuts the server down and waits until its files are closed. Clients must
// drain first. Stop may be called more than once.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	if s.lock != nil && s.lock.Locked() { // else another server may run in the folder by now
		s.unstage()
		_ = os.Remove(filepath.Join(s.cfg.Dir, endpointFile)) // best effort: readers tolerate a stale one
		_ = s.lock.Unlock()
	}
}
