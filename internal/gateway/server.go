package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/fleet"
	"orderpost/internal/gateway/door"
	"orderpost/internal/ops"
	"orderpost/internal/order/schema"
	"orderpost/internal/platform/livefile"
	"orderpost/internal/queue"
)

// The server's limits.
const (
	// headerTimeout bounds the arrival of a request's header, bodyTimeout that of an
	// order, or of one line of a stream.
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	// restTimeout and restBytes bound what is read of a request after its answer.
	restTimeout = 5 * time.Second
	restBytes   = 4 << 20
	// writeTimeout bounds each write of an answer, or of a part of it: a client that
	// does not read loses its connection.
	writeTimeout = 30 * time.Second
	maxHeader    = 16 << 10
	// storeTimeout bounds the wait for the broker's confirmation, lookTimeout that for an
	// answer to a look-up.
	storeTimeout = 20 * time.Second
	lookTimeout  = 10 * time.Second
)

// Options are what a gateway needs. Queue and Metrics are required.
type Options struct {
	Config
	Queue   *queue.Queue
	Metrics *ops.Gateway
	Log     zerolog.Logger
	// Files and DataDir are for imports; without them the door takes no files.
	Files   door.OpenFiles
	DataDir string
	// Schema is what orders must fulfil; nil = none.
	Schema  *schema.Schema
	Version string
	// Trace makes spans; nil = no traces.
	Trace trace.Tracer
	// DrainTimeout is how long requests may take once Stop was called.
	DrainTimeout time.Duration

	mostConns    int           // 0 = mostConns, or what the system allows
	minIdle      time.Duration // 0 = headerTimeout; a test shortens these
	bodyTimeout  time.Duration // 0 = bodyTimeout
	writeTimeout time.Duration // 0 = writeTimeout
	storeTimeout time.Duration // 0 = storeTimeout
	lookTimeout  time.Duration // 0 = lookTimeout
	recheckEvery time.Duration // 0 = recheckEvery
	beatEvery    time.Duration // 0 = beatEvery
}

// Server is the HTTP door. The caller must call Stop.
type Server struct {
	Options
	door    *door.Door
	clients *clients // nil = every program of this machine is local
	local   *client

	// files is nil if the door takes none; noFiles says why.
	files   door.Files
	noFiles string

	connections *connections
	url         string
	http        *http.Server
	done        chan struct{}
	underWay    sync.Map // a context.CancelCauseFunc by *call: the requests of clients that are being served
	// drain ends when Stop is called: waits and feeds end with it.
	drain     context.Context
	stopWaits context.CancelFunc
	stopOnce  sync.Once
}

// ErrConfig is wrapped by errors that a changed setting can fix.
var ErrConfig = door.ErrConfig

// Open opens the door on the queue, and orderpost fleet shows it by this name. Once ctx ends it takes nothing new.
// close waits for the last request, for at most Options.DrainTimeout; the queue must outlive it. The error wraps
// ErrConfig if a changed setting can fix it.
func Open(ctx context.Context, name string, o Options) (close func(), err error) {
	s, err := Listen(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Log.Info().Str("url", s.URL()).Str("version", o.Version).Msg("the HTTP door is open")
	forget := context.AfterFunc(ctx, s.Stop)
	show, hide := context.WithCancel(ctx)
	started := time.Now().UTC()
	var shown sync.WaitGroup
	shown.Go(func() {
		fleet.New(o.Queue).ShowDoor(show, o.Log, func() fleet.Door {
			return fleet.Door{Kind: fleet.DoorGateway, Name: name, Since: started, Version: o.Version, Done: o.Metrics.Brought()}
		})
	})
	return func() {
		forget()
		s.Stop()
		hide()
		shown.Wait()
	}, nil
}

// Listen opens the door. The error wraps ErrConfig if a changed setting can fix it.
func Listen(ctx context.Context, o Options) (_ *Server, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	o.bodyTimeout, o.writeTimeout = cmp.Or(o.bodyTimeout, bodyTimeout), cmp.Or(o.writeTimeout, writeTimeout)
	o.storeTimeout, o.lookTimeout = cmp.Or(o.storeTimeout, storeTimeout), cmp.Or(o.lookTimeout, lookTimeout)
	o.recheckEvery, o.beatEvery = cmp.Or(o.recheckEvery, recheckEvery), cmp.Or(o.beatEvery, beatEvery)
	s := &Server{Options: o, done: make(chan struct{})}
	if o.Clients == "" {
		s.local = localClient()
	} else if s.clients, err = openClients(o.Clients, o.Log); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	l, err := s.listen(ctx)
	if err != nil {
		return nil, err
	}
	s.door = door.New(o.Queue, o.Schema)
	s.openFiles(ctx)
	s.drain, s.stopWaits = context.WithCancel(context.WithoutCancel(ctx))
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: o.KeepAlive, MaxHeaderBytes: maxHeader,
		ConnContext: connContext, ConnState: s.connections.connState, ErrorLog: log.New(complaints{o.Log}, "", 0)}
	if s.clients != nil {
		go s.recheckAll()
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error().Err(err).Msg("the HTTP door takes no more connections")
		}
	}()
	return s, nil
}

// listen opens the address, with TLS if there is a certificate.
func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	conf, _, err := s.tls(s.Log)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return nil, fmt.Errorf("%w: ORDERPOST_GATEWAY_LISTEN: %w; choose another address, or stop the program that has this one", ErrConfig, err)
	}
	most := cmp.Or(s.mostConns, affordable(mostConns))
	s.connections, s.url = &connections{Listener: l, most: int64(most), minIdle: cmp.Or(s.minIdle, headerTimeout)}, "http://"+l.Addr().String()
	if conf == nil {
		return s.connections, nil
	}
	s.url = "https://" + l.Addr().String()
	return tls.NewListener(s.connections, conf), nil
}

// CheckFiles returns what is wrong with the files that a valid configuration names: clients and
// certificates.
func (c Config) CheckFiles() error {
	if !c.Enabled() || c.Validate() != nil {
		return nil
	}
	var wrong, invalid error
	if c.Clients != "" {
		_, wrong = openClients(c.Clients, zerolog.Nop())
	}
	_, cert, err := c.tls(zerolog.Nop())
	if cert != nil {
		invalid = cert.Invalid()
	}
	return errors.Join(wrong, invalid, err)
}

// tls returns how the door ends TLS, and its certificate; nil = it does not. log hears of a
// certificate that clients will refuse.
func (c Config) tls(log zerolog.Logger) (*tls.Config, *livefile.Certificate, error) {
	if c.TLSCert == "" {
		return nil, nil, nil
	}
	cert, err := livefile.OpenCertificate("ORDERPOST_GATEWAY_TLS_CERT_FILE", c.TLSCert, c.TLSKey, log)
	if err != nil {
		return nil, nil, err
	}
	conf := &tls.Config{GetCertificate: cert.Get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if c.TLSClientCA == "" {
		return conf, cert, nil
	}
	authorities, err := livefile.OpenAuthorities("ORDERPOST_GATEWAY_TLS_CLIENT_CA_FILE", c.TLSClientCA, log)
	if err != nil {
		return nil, cert, err
	}
	conf.ClientAuth = tls.VerifyClientCertIfGiven
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := conf.Clone()
		now.ClientCAs = authorities.Get()
		return now, nil
	}
	return conf, cert, nil
}

// openFiles opens the folder of imports. Without it the door does everything else.
func (s *Server) openFiles(ctx context.Context) {
	if s.Files == nil {
		s.noFiles = "this program does not read files; orderpost worker and orderpost gateway do"
		return
	}
	var err error
	if s.files, err = s.Files(ctx, door.FilesOptions{Dir: s.DataDir, Total: s.ImportTotal << 20, Queue: s.Queue, Schema: s.Schema, Version: s.Version, Log: s.Log}); err != nil {
		s.noFiles = err.Error()
		s.Log.Info().Err(err).Msg("the HTTP door takes no files")
	}
}

// URL returns the door's address with its actual port.
func (s *Server) URL() string { return s.url }

// Stop takes no new requests, ends waits and feeds, and lets the other requests finish
// for at most Options.DrainTimeout. It may be called more than once.
func (s *Server) Stop() {
	s.stopOnce.Do(func() {
		s.stopWaits()
		ctx, cancel := context.WithTimeout(context.Background(), s.DrainTimeout)
		defer cancel()
		if s.http.Shutdown(ctx) != nil {
			_ = s.http.Close()
		}
		if s.files != nil {
			s.files.Close()
		}
		s.door.Close()
	})
	<-s.done
}

// complaints passes what net/http complains about to the log. It names addresses, and
// neither headers nor bodies.
type complaints struct{ log zerolog.Logger }

// Write implements io.Writer.
func (c complaints) Write(text []byte) (int, error) {
	c.log.Debug().Str("detail", strings.TrimSpace(string(text))).Msg("HTTP door")
	return len(text), nil
}
