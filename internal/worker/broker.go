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
			cfg.Queue.URL, cfg.Queue.Token = server.URL, server.Token
			if server.Renewed != "" {
				log.Warn().Msg(server.Renewed + ": the broker has a new token. Find out who read it, or gave the folder these permissions")
			}
			log.Info().Str("url", server.URL).Str("data_dir", cfg.DataDir).Msg("embedded broker is running")
			return server, nil
		}
		if !errors.Is(err, embedded.ErrInUse) {
			return nil, err
		}
		end, err := embedded.ReadEndpoint(cfg.DataDir)
		leaving := told && errors.Is(err, os.ErrNotExist) // it takes its address back before it lets go of the store
		if !leaving && (err != nil || !end.Passing) {
			return nil, JoinEmbedded(&cfg.Queue, cfg.DataDir)
		}
		if !told {
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
// process runs. The error wraps queue.ErrUnreachable where none does.
func JoinEmbedded(cfg *queue.Config, dataDir string) error {
	end, err := embedded.ReadEndpoint(dataDir)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: no worker runs an embedded broker in the data folder %q; start one there (cmd/worker), or set ORDERPOST_NATS_URL or ORDERPOST_DATA_DIR", queue.ErrUnreachable, dataDir)
	}
	if err != nil {
		return fmt.Errorf("data folder %q: %w", dataDir, err)
	}
	cfg.URL, cfg.Token = end.URL, end.Token
	cfg.TokenNow = func() string { // the worker that runs the broker may come back with another one
		if now, err := embedded.ReadEndpoint(dataDir); err == nil {
			return now.Token
		}
		return end.Token
	}
	return nil
}
