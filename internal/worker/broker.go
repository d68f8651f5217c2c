package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
)

// storeLook is how often a worker looks whether a store that a passing program
// has opened is free.
const storeLook = 200 * time.Millisecond

// startBroker runs the embedded broker where no NATS URL is set, or joins the
// one that another worker runs on the same data folder. A program that only
// passes by (deadletter, enqueue cancel) takes its broker along when it ends:
// the worker waits for that, until ctx ends. The server is nil where another
// process runs it.
func startBroker(ctx context.Context, cfg *Config, log zerolog.Logger) (*embedded.Server, error) {
	if cfg.Queue.URL != "" {
		return nil, nil
	}
	for told := false; ; told = true {
		server, err := embedded.Start(cfg.broker())
		if err == nil {
			cfg.Queue.URL, cfg.Queue.Token, cfg.Queue.Locate = server.URL, server.Token, nil
			if server.Renewed != "" {
				log.Warn().Msg(server.Renewed + ": the broker has a new token. Find out who read it, or gave the folder these permissions")
			}
			log.Debug().Str("url", server.URL).Str("data_dir", cfg.DataDir).Msg("embedded broker is running")
			return server, nil
		}
		if !errors.Is(err, embedded.ErrInUse) {
			return nil, err
		}
		end, err := embedded.ReadEndpoint(cfg.DataDir)
		moving := errors.Is(err, os.ErrNotExist) // it has not said its address yet, or has taken it back and lets go of the store
		if !moving && (err != nil || !end.Temporary) {
			if err = JoinEmbedded(&cfg.Queue, cfg.DataDir); !errors.Is(err, queue.ErrUnreachable) {
				return nil, err
			}
			moving = true
		}
		switch {
		case told:
		case moving:
			log.Warn().Str("data_dir", cfg.DataDir).Msg("another program has the store, and its broker has no address at this moment; waiting")
		default:
			log.Warn().Int("pid", end.PID).Str("data_dir", cfg.DataDir).Msg("another program has opened the store; waiting until it ends")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(storeLook):
		}
	}
}

// JoinEmbedded points cfg at the embedded broker of a data folder that another
// process runs, wherever that listens after a restart. The error wraps
// queue.ErrUnreachable where none runs; cfg finds it nevertheless once one does.
func JoinEmbedded(cfg *queue.Config, dataDir string) (err error) {
	cfg.Locate = func() (url, token string, err error) {
		end, err := embedded.ReadEndpoint(dataDir)
		if errors.Is(err, os.ErrNotExist) {
			return "", "", noBroker(dataDir)
		}
		if err != nil {
			return "", "", fmt.Errorf("data folder %q: %w", dataDir, err)
		}
		return end.URL, end.Token, nil
	}
	cfg.URL, cfg.Token, err = cfg.Locate()
	if errors.As(err, new(noBroker)) {
		err = fmt.Errorf("%w: %w", queue.ErrUnreachable, err)
	}
	return err
}

// noBroker names a data folder whose broker does not run.
type noBroker string

func (dir noBroker) Error() string {
	return fmt.Sprintf("no worker runs an embedded broker in the data folder %q; start one there (cmd/worker), or set ORDERPOST_NATS_URL or ORDERPOST_DATA_DIR", string(dir))
}
