// Package console is the command orderpost console: its flags, settings and exit codes
// around internal/console.
package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/console"
	"orderpost/internal/queue"
)

// settings are those of the console and of the broker.
type settings struct {
	Console console.Config
	Broker  broker.Config

	LogLevel  string `env:"LOG_LEVEL" envDefault:"info" desc:"debug, info, warn or error"`
	LogFormat string `env:"LOG_FORMAT" envDefault:"auto" desc:"json, console, or auto: console on a terminal"`
}

// Run runs the program and returns the exit code.
func Run(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Execute(ctx, NewCommand(environ, stdin, stderr), args, stdin, stdout, stderr)
}

// NewCommand returns the command console.
func NewCommand(environ map[string]string, stdin io.Reader, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve a web page that shows the installation and lets people act",
		Long: "console serves a web page for people who import files and people on call: what is pending, what was\n" +
			"settled, what needs a person, and what the fleet does. It works on the broker that the other commands use.\n\n" +
			"It listens on " + "127.0.0.1:9465" + " and prints a link that lets you in once. To let other machines in, it needs\n" +
			"people whom it knows (a file of users, or an authenticating proxy) and TLS (its own, or the proxy's).\n\n" +
			"Exit codes: 0 stopped; 1 failed; 2 wrong usage or configuration; 4 broker out of reach.\n\n" +
			"Settings, besides those of the broker (orderpost worker --help):\n" + cli.SettingsHelp(console.Config{}),
		Example: "  orderpost console\n  orderpost console user anna --role operator >> users",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), environ, stderr)
		},
	}
	cli.NoJSON(cmd, "it serves pages until it is stopped")
	cmd.AddCommand(newUserCommand(stdin, stderr))
	return cmd
}

// indexGC makes the index of a million dead letters and the counts of a million results,
// which live long, cost a fifth of themselves in garbage and not as much again.
const indexGC = 20

func serve(ctx context.Context, environ map[string]string, stderr io.Writer) error {
	var cfg settings
	err := errors.Join(cli.ReadEnv(&cfg, environ), cfg.Console.Validate(), cfg.Broker.Queue.Validate())
	log, logErr := cli.NewLogger(stderr, cfg.LogLevel, cfg.LogFormat, environ)
	if err := errors.Join(err, logErr); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	schema, err := cfg.Broker.Schema.Load(log)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	debug.SetGCPercent(indexGC)
	q, done, err := broker.Open(ctx, cfg.Broker, broker.Options{Name: "console", Incomplete: true, Stderr: stderr,
		Tell: func(line string) { log.Warn().Msg(line) }})
	if err != nil {
		return err
	}
	defer done()
	var viewers *queue.Queue // nil: viewers are served by the same connection
	if only, own := cfg.Console.ForViewers(cfg.Broker.Queue); own {
		var closeViewers func()
		if viewers, closeViewers, err = broker.Open(ctx, broker.Config{Queue: only, DataDir: cfg.Broker.DataDir}, broker.Options{Name: "console viewers",
			Incomplete: true, Stderr: stderr, Tell: func(string) {}}); err != nil {
			return fmt.Errorf("the connection for viewers (ORDERPOST_CONSOLE_VIEWER_NKEY_FILE): %w", err)
		}
		defer closeViewers()
	}
	s, err := console.Listen(ctx, console.Options{Config: cfg.Console, Queue: q, Viewers: viewers, DataDir: cfg.Broker.DataDir, Schema: schema, Version: cli.Version(), Starter: cmp.Or(environ["USER"], environ["LOGNAME"]), Log: log,
		Announce: func(line string) { _, _ = fmt.Fprintln(stderr, line) }})
	if errors.Is(err, console.ErrConfig) {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	s.Stop()
	return nil
}
