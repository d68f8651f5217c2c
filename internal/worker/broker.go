package worker

import (
	"errors"
	"fmt"
	"os"

	"github.com/rs/zerolog"

	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
)

// startBroker runs the embedded broker where no NATS URL is set, or joins the
// one that another process runs on the same data folder. stop is never nil.
func startBroker(cfg *Config, log zerolog.Logger) (stop func(), err error) {
	if cfg.Queue.URL != "" {
		return func() {}, nil
	}
	server, err := embedded.Start(cfg.broker())
	if errors.Is(err, embedded.ErrInUse) {
		return func() {}, JoinEmbedded(&cfg.Queue, cfg.DataDir)
	}
	if err != nil {
		return func() {}, err
	}
	cfg.Queue.URL, cfg.Queue.Token = server.URL, server.Token
	log.Info().Str("url", server.URL).Str("data_dir", cfg.DataDir).Msg("embedded broker is running")
	return server.Stop, nil
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
	return nil
}
