// Package embedded runs a NATS server with JetStream inside the process: on
// loopback, file-backed, every write fsynced, guarded by a random token that is
// kept in the data folder (0600) for the other programs of this machine.
package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// DefaultListen is the usual address of a NATS server, on loopback.
const DefaultListen = "127.0.0.1:4222"

// endpointFile is where a running embedded server says how it is reached.
const endpointFile = "nats.json"

// readyTimeout bounds the start; recovering a store of a million messages
// takes about a second.
const readyTimeout = 60 * time.Second

// ErrInUse is returned by Start where another process already runs the
// embedded server of this data folder: join it with ReadEndpoint.
var ErrInUse = errors.New("another process runs the embedded broker of this data folder")

// Config says where the embedded server lives.
type Config struct {
	// Dir is the data folder; it is created (0700) when missing. Required.
	Dir string
	// Listen is host:port on loopback; port 0 takes a free one. Default
	// DefaultListen.
	Listen string
	// NoSync leaves fsync to the operating system's pace. Only for benchmarks
	// and throw-away runs: a power cut loses acknowledged orders.
	NoSync bool
	// MaxPayload bounds a message; 0 is 8 MiB, room for a dead letter that
	// carries a 1 MiB body.
	MaxPayload int32
	// Passing: the program opens the store for a while only, and the server
	// ends with it. Workers wait for that instead of joining.
	Passing bool
}

// Endpoint is how the programs of this machine reach an embedded server.
type Endpoint struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	PID   int    `json:"pid"`
	// Passing is as in Config.
	Passing bool `json:"passing,omitempty"`
}

// Server is a running embedded server.
type Server struct {
	Endpoint
	// Renewed says why the data folder got a new token; "" = it has the one that
	// it had. Programs that joined with the old one read the new one when they
	// reconnect.
	Renewed string
	cfg     Config
	lock    *flock.Flock

	mu      sync.Mutex // guards what follows
	nats    *server.Server
	log     *faultLog
	stopped bool
}

// Start runs the embedded server of a data folder. It returns ErrInUse where
// another process does so already, *PortTakenError where the address belongs to
// somebody else, and an error naming the folder where that cannot be written.
func Start(cfg Config) (*Server, error) {
	if cfg.Dir == "" {
		return nil, errors.New("embedded broker: no data folder given") // an empty one would fall back to the temp dir
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
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
	_, renewed, err := keptToken(cfg.Dir) // before its address goes, which may have shown the token to others
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	// What a server that was killed left there is true no more: whoever finds the
	// folder in use must not take it for ours.
	if err := os.Remove(filepath.Join(cfg.Dir, endpointFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("embedded broker: %w", err), lock.Unlock())
	}
	s, err := start(cfg)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	s.lock, s.Renewed = lock, renewed
	if err := s.writeEndpoint(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func start(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	token, err := s.boot()
	if err != nil {
		return nil, err
	}
	s.cfg.Listen = s.nats.Addr().String() // Revive takes the same port again
	s.Endpoint = Endpoint{URL: s.nats.ClientURL(), Token: token, PID: os.Getpid(), Passing: cfg.Passing}
	return s, nil
}

// boot starts nats-server with s.cfg and returns the token that it demands.
func (s *Server) boot() (token string, err error) {
	token, _, err = keptToken(s.cfg.Dir)
	if err != nil {
		return "", err
	}
	opts, err := options(s.cfg, token)
	if err != nil {
		return "", err
	}
	if err := checkFree(opts.Host, opts.Port); err != nil {
		return "", err
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return "", fmt.Errorf("embedded broker: %w", err)
	}
	faults := &faultLog{}
	ns.SetLoggerV2(faults, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(readyTimeout) || !ns.JetStreamEnabled() {
		ns.Shutdown()
		ns.WaitForShutdown()
		return "", fmt.Errorf("embedded broker: not ready in %s with data folder %s: %s", readyTimeout, s.cfg.Dir, faults.last())
	}
	s.nats, s.log = ns, faults
	return token, nil
}

func options(cfg Config, token string) (*server.Options, error) {
	listen := cfg.Listen
	if listen == "" {
		listen = DefaultListen
	}
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("embedded broker: listen address %q: %w", listen, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("embedded broker: listen address %q is not a loopback address; run a NATS server of your own and set ORDERPOST_NATS_URL to share orders between machines", listen)
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return nil, fmt.Errorf("embedded broker: listen address %q has no port between 0 and 65535", listen)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	payload := cfg.MaxPayload
	if payload == 0 {
		payload = 8 << 20
	}
	return &server.Options{
		ServerName:    "orderpost-embedded-" + strconv.Itoa(os.Getpid()),
		Host:          host,
		Port:          port,
		NoSigs:        true,
		Authorization: token,
		JetStream:     true,
		StoreDir:      filepath.Join(cfg.Dir, "jetstream"),
		SyncAlways:    !cfg.NoSync,
		MaxPayload:    payload,
		// By default the server takes no message for any stream once it holds
		// three quarters of what was free at its start: results would be refused
		// with intents, however much the disk has grown since. Workers limit the
		// intents instead.
		JetStreamMaxStore: maxStore(),
	}, nil
}

// maxStore is 0, the server's own estimate, where Disk cannot tell what is free.
func maxStore() int64 {
	if _, err := statDisk("."); err != nil {
		return 0
	}
	return 1 << 60
}

// replaceFile writes a file (0600) in one step, so that a reader never sees
// half of it.
func replaceFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // CreateTemp makes it 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already when the rename succeeded
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// writeEndpoint makes the server findable.
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

// HasStore says whether an embedded server has kept its streams in a data folder.
func HasStore(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "jetstream"))
	return err == nil && info.IsDir()
}

// ReadEndpoint reads how the embedded server of a data folder is reached. The
// error wraps os.ErrNotExist where none runs, or one is about to. A file that others can change may
// lead to a server of theirs, and one that they can read has told them the
// token: both are refused.
func ReadEndpoint(dir string) (Endpoint, error) {
	var e Endpoint
	path := filepath.Join(dir, endpointFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return e, err
	}
	if why, err := exposed(path); err != nil || why != "" {
		if err == nil {
			err = fmt.Errorf("%s, and the token of the broker stands in it: restart the worker that runs the broker, which makes a new one", why)
		}
		return e, err
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// InProcess connects without a socket; pass it to nats.Connect.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s) }

// InProcessConn implements nats.InProcessConnProvider. It leads to the server
// that runs now, which Revive may have exchanged.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	ns := s.nats
	s.mu.Unlock()
	return ns.InProcessConn()
}

// Stop shuts the server down and waits until its files are closed. The clients
// must have drained before. It may be called more than once.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	if s.lock != nil && s.lock.Locked() {
		_ = os.Remove(filepath.Join(s.cfg.Dir, endpointFile)) // best effort: readers cope with a stale one
		_ = s.lock.Unlock()
	}
}
