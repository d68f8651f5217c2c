// Package broker connects the command-line programs to the streams: at the configured
// NATS, at the embedded broker that a worker runs in the data folder, or, for some
// commands, in a store that no worker has open. A command whose broker goes away waits
// for it.
package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/service"
	"orderpost/internal/order/schema"
	"orderpost/internal/platform/duration"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// Config holds the settings with which a command-line program finds the streams.
type Config struct {
	Queue   queue.Config
	DataDir string `env:"DATA_DIR" envDefault:"data" desc:"data folder of the embedded broker"`
	Schema  schema.Config
}

// Options says how Open connects.
type Options struct {
	// Name is the connection's name in the broker's monitoring.
	Name string
	// StartStopped says that Open may start the embedded broker on the data folder if no
	// worker runs. The broker ends with the program.
	StartStopped bool
	// Incomplete says that Open also accepts a broker that lacks streams.
	Incomplete bool
	Stderr     io.Writer
	// Tell receives lines that say what the program waits for; nil = Stderr.
	Tell func(line string)
}

// Open connects to the broker. It creates no streams: a broker without them is
// probably the wrong one. The error has the exit code ExitUnreachable if no broker is
// in reach, or if it lacks streams. close is never nil.
func Open(ctx context.Context, cfg Config, o Options) (q *queue.Queue, close func(), err error) {
	close = func() {}
	cfg.Queue.Name, cfg.Queue.Tell, cfg.Queue.Missing = o.Name, o.Tell, queue.RefuseMissing
	if o.Tell == nil {
		cfg.Queue.Tell = func(line string) { _, _ = fmt.Fprintln(o.Stderr, line) }
	}
	if o.Incomplete {
		cfg.Queue.Missing = queue.LeaveMissing
	}
	if cfg.Queue.URL == "" {
		var stop func()
		if stop, err = join(ctx, &cfg, o); err == nil {
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
			err = &cli.ExitError{Code: cli.ExitUnreachable, Err: &unopened{err}}
		}
		return nil, func() {}, err
	}
	stop := close
	return q, func() { q.Close(); stop() }, nil
}

// Connect is Open with the settings of the environment. wrong is what else is wrong with how the command was used: its
// error, with the exit code ExitUsage, then names every mistake.
func Connect(ctx context.Context, environ map[string]string, o Options, wrong ...error) (q *queue.Queue, close func(), err error) {
	var cfg Config
	if err := errors.Join(cli.ReadEnv(&cfg, environ), cfg.Queue.Validate(), errors.Join(wrong...)); err != nil {
		return nil, func() {}, &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	return Open(ctx, cfg, o)
}

// unopened is the error of Open: the command has asked for nothing yet.
type unopened struct{ error }

func (e *unopened) Unwrap() error { return e.error }

// storeRetry is how often join tries to open the store.
const storeRetry = 100 * time.Millisecond

// join finds the embedded broker of the data folder, or starts it if o.StartStopped is
// set. If the folder has a store but no broker, queue.Open waits for one. A folder
// without a store is an error.
func join(ctx context.Context, cfg *Config, o Options) (stop func(), err error) {
	stop = func() {}
	for began := time.Now(); o.StartStopped && embedded.HasStore(cfg.DataDir); {
		server, err := embedded.Start(embedded.Config{Dir: cfg.DataDir, Listen: "127.0.0.1:0", Temporary: true})
		if err == nil {
			cfg.Queue.URL, cfg.Queue.Token, cfg.Queue.Locate = server.URL, server.Token, nil
			if server.Renewed != "" {
				_, _ = fmt.Fprintf(o.Stderr, "warning: %s: the broker has a new token\n", server.Renewed)
			}
			return server.Stop, nil
		}
		if !errors.Is(err, embedded.ErrInUse) {
			return stop, err
		}
		if service.JoinEmbedded(&cfg.Queue, cfg.DataDir) == nil || time.Since(began) > cfg.Queue.ConnectTimeout {
			break
		}
		if err := settle.Sleep(ctx, storeRetry); err != nil { // the other program is about to publish its address, or about to release the store
			return stop, err
		}
	}
	err = service.JoinEmbedded(&cfg.Queue, cfg.DataDir)
	if errors.Is(err, queue.ErrUnreachable) && embedded.HasStore(cfg.DataDir) {
		err = nil // queue.Open waits for it
	}
	return stop, err
}

// waitVariable is the setting that --broker-wait overrides.
const waitVariable = cli.EnvPrefix + "BROKER_WAIT"

// The effect of running a command again, by the kind of command.
const (
	// AgainLook: the command changes nothing.
	AgainLook = ""
	// AgainWrite: the command records a person's decision, which may be repeated.
	AgainWrite = "; it may have taken effect, and doing it twice does no harm"
	// AgainOrders: the command goes through many orders.
	AgainOrders = "; it goes on where it stopped, and neither loses nor doubles an order"
	// AgainOutput: the command writes to standard output.
	AgainOutput = "; what it wrote so far is not complete"
	// AgainFollow: the command only watches orders.
	AgainFollow = "; the orders go on without this program"
)

// Patient adds the flag --broker-wait to a command. If the broker stays out of reach,
// the command ends with ExitUnreachable and prints the command line to run again.
// again says what effect that has.
func Patient(cmd *cobra.Command, environ map[string]string, again string) *cobra.Command {
	cmd.Flags().Func("broker-wait", "wait for `duration` if the broker goes away, 0 = not at all (default $"+waitVariable+", 2m)",
		func(text string) error {
			if _, err := duration.Parse(text); err != nil {
				return err
			}
			environ[waitVariable] = text
			return nil
		})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if !errors.Is(err, queue.ErrUnreachable) {
			return err
		}
		again := again
		if _, nothing := errors.AsType[*unopened](err); nothing && again == AgainWrite {
			again = "; nothing was changed"
		}
		return &cli.ExitError{Code: cli.ExitUnreachable,
			Err: fmt.Errorf("%w\nRun it again when the broker is back%s:\n  %s", err, again, cli.CommandLine(cmd.Context()))}
	}
	return cmd
}

// TempDir returns the folder for copies of files: TMPDIR, or else the data folder if one can
// write there, or else the system's folder, which may be small.
func TempDir(environ map[string]string, dataDir string) string {
	if dir := environ["TMPDIR"]; dir != "" {
		return dir
	}
	if dataDir == "" {
		return os.TempDir()
	}
	probe, err := os.CreateTemp(dataDir, ".probe-*")
	if err != nil {
		return os.TempDir()
	}
	_, _ = probe.Close(), os.Remove(probe.Name())
	return dataDir
}
