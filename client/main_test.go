package client_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"orderpost/client"
	"orderpost/internal/cli"
	"orderpost/internal/cli/service"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/sandbox"
	"orderpost/internal/submit"
)

// dataDir is the data folder of a worker that posts to a sandbox.
var dataDir string

func TestMain(m *testing.M) {
	code, err := withFleet(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withFleet runs do beside a broker, a sandbox and a worker.
func withFleet(do func() int) (code int, err error) {
	if dataDir, err = os.MkdirTemp("", "orderpost-client-*"); err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dataDir) }()
	broker, err := embedded.Start(embedded.Config{Dir: dataDir, Listen: "127.0.0.1:0", NoSync: true})
	if err != nil {
		return 0, err
	}
	defer broker.Stop()
	api, err := sandbox.New(sandbox.Config{Keys: map[string]string{"key": "secret"}, Logger: zerolog.Nop()})
	if err != nil {
		return 0, err
	}
	defer func() { _ = api.Close() }()
	url, err := api.Start("127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(context.Background())
	worked := make(chan error, 1)
	go func() { worked <- work(ctx, broker, url) }()
	if err = started(worked); err == nil {
		code = do()
	}
	stop()
	if ended := <-worked; err == nil {
		err = ended
	}
	return code, err
}

func work(ctx context.Context, broker *embedded.Server, url string) error {
	var cfg service.Config
	if err := cli.ReadEnv(&cfg, map[string]string{}); err != nil {
		return err
	}
	cfg.Submit.URL, cfg.Keys = url, submit.KeyConfig{Key: "key", Secret: "secret"}
	cfg.Queue.URL, cfg.Queue.Token = broker.URL, broker.Token
	cfg.Name, cfg.OpsAddr = "w1", ""
	cfg = cfg.Normalize()
	if err := cfg.Validate(); err != nil {
		return err
	}
	return service.Run(ctx, cfg, service.Env{Version: "test", Log: zerolog.Nop()})
}

// started waits until the worker has made the streams.
func started(worked chan error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := client.Connect(context.Background(), "", client.DataDir(dataDir))
		if err == nil {
			c.Close()
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case ended := <-worked:
			worked <- ended
			return fmt.Errorf("the worker ended early: %w", ended)
		case <-tick.C:
		}
	}
}
