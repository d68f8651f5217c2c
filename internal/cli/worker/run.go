// Package worker is the worker program: its commands, settings and exit codes around
// internal/cli/service.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/cli/traces"
	"orderpost/internal/gateway/door"
	"orderpost/internal/queue"
)

// Run runs the program and returns the exit code. Its HTTP door takes no files.
func Run(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Execute(ctx, NewCommand(environ, stderr, nil), args, stdin, stdout, stderr)
}

// NewCommand returns the program's command. files opens what its HTTP door does with files of
// orders; nil = it takes none.
func NewCommand(environ map[string]string, stderr io.Writer, files door.OpenFiles) *cobra.Command {
	var noPreflight bool
	root := &cobra.Command{
		Use:   "worker",
		Short: "Take orders from the queue to the API and account for every one of them",
		Long: "worker pulls order intents from NATS JetStream, signs them and posts them to the API.\n\n" +
			"It is configured by environment variables. Required are ORDERPOST_API_URL, ORDERPOST_API_KEY\n" +
			"and ORDERPOST_API_SECRET (or the last two with _FILE). Without ORDERPOST_NATS_URL it runs a\n" +
			"broker in the data folder, where enqueue and other workers find it.\n\n" +
			"On SIGTERM, SIGHUP or Ctrl-C it takes no new orders, finishes those in flight, and hands back the rest.\n\n" +
			"Exit codes: 0 stopped, with nothing in flight, or done; 1 failed; 2 wrong usage or configuration, the\n" +
			"API refused the key, or the fleet posts elsewhere; 4 broker out of reach; 130 interrupted before it worked.\n\n" +
			"It exports traces if OTEL_EXPORTER_OTLP_ENDPOINT is set.\n\n" +
			"Settings:\n" + cli.SettingsHelp(pool.Config{}) + "\n",
		Example: "  ORDERPOST_API_URL=https://api.example.com ORDERPOST_API_KEY_FILE=key ORDERPOST_API_SECRET_FILE=secret orderpost worker\n" +
			"  orderpost worker check\n" +
			"  orderpost hold --for 30m --note 'maintenance of the API'\n" +
			"  orderpost fleet",
		Args: cli.OnlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return work(cmd.Context(), environ, noPreflight, stderr, files)
		},
	}
	cli.NoJSON(root, "it runs until it is stopped; ORDERPOST_LOG_FORMAT=json makes its log JSON")
	root.Flags().BoolVar(&noPreflight, "no-preflight", false, "do not ask GET /v1/account at start")
	root.AddCommand(NewFleetCommands(environ, stderr)...)
	root.AddCommand(newCheckCommand(environ), newHealthCommand(environ), newAdoptCommand(environ, stderr), newRepairCommand(environ, stderr))
	cli.WarnUnknown(root, environ, cli.Settings(pool.Config{}), "worker", "health") // the worker logs them
	return root
}

func work(ctx context.Context, environ map[string]string, noPreflight bool, stderr io.Writer, files door.OpenFiles) error {
	var cfg pool.Config
	if err := readConfig(&cfg, environ); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	cfg.Preflight = cfg.Preflight && !noPreflight
	log, err := cli.NewLogger(stderr, cfg.LogLevel, cfg.LogFormat, environ)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	cli.TakeStandardLog(log)
	for _, u := range cli.UnknownSettings(environ, cli.Settings(cfg)) {
		log.Warn().Str("variable", u.Name).Msg(u.String())
	}
	tracing := traces.Start(ctx, "worker", cfg.Name, environ, log)
	defer tracing.Stop()
	return exitError(pool.Run(ctx, cfg, pool.Env{Version: cli.Version(), Log: log, Trace: tracing.Tracer(), Files: files}))
}

// readConfig reads and checks the settings. Its error names every mistake.
func readConfig(cfg *pool.Config, environ map[string]string) error {
	readErr := cli.ReadEnv(cfg, environ)
	*cfg = cfg.Normalize()
	_, logErr := cli.NewLogger(io.Discard, cfg.LogLevel, cfg.LogFormat, environ)
	err := errors.Join(readErr, cfg.Validate(), logErr)
	if err == nil {
		return nil
	}
	return fmt.Errorf("the configuration cannot be used:\n  %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))
}

// exitError adds the exit code to an error of the worker.
func exitError(err error) error {
	code := cli.ExitFailed
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pool.ErrConfig):
		code = cli.ExitUsage
	case errors.Is(err, queue.ErrUnreachable):
		code = cli.ExitUnreachable
	}
	return &cli.ExitError{Code: code, Err: err}
}
