package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// storeRetry is how often a worker tries to open a store that another program has open.
const storeRetry = 200 * time.Millisecond

// startBroker starts the embedded broker if no NATS URL is set, or joins the one that
// another worker runs on the same data folder. A short-lived program, such as
// deadletter or enqueue cancel, ends its broker when it exits. In that case
// startBroker waits until the store is free or ctx ends. It returns a nil server if
// another process runs the broker.
func startBroker(ctx context.Context, cfg *Config, log zerolog.Logger) (*embedded.Server, error) {
	if cfg.Queue.URL != "" {
		return nil, nil
	}
	for told := false; ; told = true {
		server, err := embedded.Start(cfg.broker(log))
		if err == nil {
			cfg.Queue.URL, cfg.Queue.Token, cfg.Queue.Locate = server.URL, server.Token, nil
			if server.Renewed != "" {
				log.Warn().Msg(server.Renewed + ": the broker has a new token. Find out who read it, or gave the folder these permissions")
			}
			if server.Taken != nil {
				log.Warn().Str("url", server.URL).Str("data_dir", cfg.DataDir).
					Msg(server.Taken.Addr + " is taken by " + server.Taken.Who() + ", which was not joined: the embedded broker listens on " + strings.TrimPrefix(server.URL, "nats://") +
						". Commands find it by the data folder. Set ORDERPOST_NATS_LISTEN if other programs connect to it")
			}
			if len(server.Mended) > 0 {
				log.Warn().Strs("mended", server.Mended).Str("data_dir", cfg.DataDir).
					Msg("the checksums of these streams' configurations did not fit: a crash interrupted a change, or the disk is damaged. The configurations can be read, and their checksums are written again. If this worker also reports a stream that is not as it should be, the disk is damaged")
			}
			log.Debug().Str("url", server.URL).Str("data_dir", cfg.DataDir).Msg("embedded broker is running")
			return server, nil
		}
		if !errors.Is(err, embedded.ErrInUse) {
			return nil, err
		}
		end, err := embedded.ReadEndpoint(cfg.DataDir)
		moving := errors.Is(err, os.ErrNotExist) // the other program is about to publish its address, or about to release the store
		if !moving && (err != nil || !end.Temporary) {
			if err = JoinEmbedded(&cfg.Queue, cfg.DataDir); !errors.Is(err, queue.ErrUnreachable) {
				return nil, err
			}
			moving = true
		}
		switch {
		case told:
		case moving:
			log.Warn().Str("data_dir", cfg.DataDir).Msg("another program has the store open, and its broker is starting or stopping; waiting")
		default:
			log.Warn().Int("pid", end.PID).Str("data_dir", cfg.DataDir).Msg("another program has the store open; waiting until it ends")
		}
		if err := settle.Sleep(ctx, storeRetry); err != nil {
			return nil, err
		}
	}
}

// JoinEmbedded points cfg to the embedded broker that another process runs on a data
// folder. cfg finds it again after a restart at another address. If no process runs
// it, the error wraps queue.ErrUnreachable, and cfg still finds one that starts later.
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

// noBroker is the error for a data folder without a running broker.
type noBroker string

func (dir noBroker) Error() string {
	return fmt.Sprintf("no worker runs an embedded broker in the data folder %q; start one there (orderpost worker), or set ORDERPOST_NATS_URL or ORDERPOST_DATA_DIR", string(dir))
}
