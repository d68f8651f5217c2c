// Package broker connects the command-line programs to the streams: to the
// configured NATS, to the embedded broker that a worker runs in the data
// folder, or, for programs that only look, to that folder's store itself.
package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"orderpost/internal/program"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/worker"
)

// Config is what a command-line program reads from its environment to find the
// streams.
type Config struct {
	Queue   queue.Config
	DataDir string `env:"DATA_DIR" envDefault:"data" desc:"data folder of the embedded broker"`
}

// Options say how Open may connect.
type Options struct {
	// Name tells the connection apart in the broker's monitoring.
	Name string
	// StartStopped: where no worker runs, open the store that an earlier one
	// left in the data folder. For programs that look and leave.
	StartStopped bool
	// Incomplete: open a broker that lacks streams, too. For programs that look
	// at what is there.
	Incomplete bool
	Stderr     io.Writer
}

// Open connects, and makes nothing: a broker without orderpost's streams is not
// ours. Errors carry their exit code: 4 where no broker is in reach, or the one
// that is has no streams, with the address. close is never nil.
func Open(ctx context.Context, cfg Config, o Options) (q *queue.Queue, close func(), err error) {
	close = func() {}
	cfg.Queue.Name, cfg.Queue.Missing = o.Name, queue.RefuseMissing
	if o.Incomplete {
		cfg.Queue.Missing = queue.LeaveMissing
	}
	if cfg.Queue.URL == "" {
		var stop func()
		if stop, err = join(&cfg, o); err == nil {
			close = stop
		}
	}
	if err == nil {
		log := zerolog.New(zerolog.ConsoleWriter{Out: o.Stderr, NoColor: true, PartsExclude: []string{"time"}}).Level(zerolog.WarnLevel)
		q, err = queue.Open(ctx, cfg.Queue, log)
	}
	if err != nil {
		close()
		var missing *queue.MissingError
		if errors.Is(err, queue.ErrUnreachable) || errors.As(err, &missing) {
			err = &program.ExitError{Code: program.ExitUnreachable, Err: err}
		}
		return nil, func() {}, err
	}
	stop := close
	return q, func() { q.Close(); stop() }, nil
}

// join finds the embedded broker of the data folder.
func join(cfg *Config, o Options) (stop func(), err error) {
	stop = func() {}
	if o.StartStopped && hasStore(cfg.DataDir) {
		server, err := embedded.Start(embedded.Config{Dir: cfg.DataDir, Listen: "127.0.0.1:0", Passing: true})
		if err == nil {
			cfg.Queue.URL, cfg.Queue.Token = server.URL, server.Token
			if server.Renewed != "" {
				_, _ = fmt.Fprintf(o.Stderr, "warning: %s: the broker has a new token\n", server.Renewed)
			}
			return server.Stop, nil
		}
		if !errors.Is(err, embedded.ErrInUse) {
			return stop, err
		}
	}
	return stop, worker.JoinEmbedded(&cfg.Queue, cfg.DataDir)
}

// hasStore: only a store that is there is opened. A mistyped folder must not
// become an empty one.
func hasStore(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "jetstream"))
	return err == nil && info.IsDir()
}
