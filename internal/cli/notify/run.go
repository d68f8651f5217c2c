// Package notify is the command orderpost notify: its flags, settings and exit codes around
// internal/notify.
package notify

import (
	"context"
	"errors"
	"io"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/notify"
	"orderpost/internal/ops"
)

// settings are those of the sender and of the broker.
type settings struct {
	Notify notify.Config
	Broker broker.Config

	PlainHTTPHosts []string `env:"PLAIN_HTTP_HOSTS"`
	OpsAddr        string   `env:"OPS_ADDR" envDefault:"127.0.0.1:9466" empty:"kept"`
	LogLevel       string   `env:"LOG_LEVEL" envDefault:"info"`
	LogFormat      string   `env:"LOG_FORMAT" envDefault:"auto"`
}

// defaultOpsAddr is the default of settings.OpsAddr. If it is in use, the process sends
// without metrics.
const defaultOpsAddr = "127.0.0.1:9466"

// NewCommand returns the command notify.
func NewCommand(environ map[string]string, stdout, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Tell another system what became of orders, by webhooks",
		Long: "notify posts each outcome to the address ORDERPOST_NOTIFY_URL, signed as Standard Webhooks says. It reads\n" +
			"the results in their order from a position that the broker keeps, and tries again until the receiver\n" +
			"has each of them. Of several processes one sends, and another takes over.\n\n" +
			"A worker does the same if ORDERPOST_NOTIFY_URL is set for it. `orderpost help notify.md` says more.\n\n" +
			"Exit codes: 0 stopped; 1 failed; 2 wrong usage or configuration; 4 broker out of reach.\n\n" +
			"Settings, besides those of the broker (orderpost worker --help):\n" + cli.SettingsHelp(notify.Config{}),
		Example: "  orderpost notify secret > secret\n" +
			"  ORDERPOST_NOTIFY_URL=https://shop.example/hooks ORDERPOST_NOTIFY_SECRET_FILE=secret orderpost notify\n" +
			"  orderpost notify parked",
		Args: cli.OnlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), environ, stderr) },
	}
	cli.NoJSON(cmd, "it runs until it is stopped; ORDERPOST_LOG_FORMAT=json makes its log JSON")
	s := &surroundings{environ, stdout, stderr}
	cmd.AddCommand(broker.Patient(newParkedCommand(s), environ, broker.AgainLook),
		broker.Patient(newRetryCommand(s), environ, broker.AgainWrite), newSecretCommand(stdout))
	return cmd
}

func serve(ctx context.Context, environ map[string]string, stderr io.Writer) error {
	cfg, log, err := readSettings(environ, stderr)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	cli.TakeStandardLog(log)
	q, done, err := broker.Open(ctx, cfg.Broker, broker.Options{Name: "notify", Stderr: stderr, Tell: func(line string) { log.Warn().Msg(line) }})
	if err != nil {
		return err
	}
	defer done()
	sender, err := notify.NewSender(notify.Options{Config: cfg.Notify, Queue: q, Name: cli.ProcessName("notify"), Version: cli.Version(), Log: log})
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	reg := ops.NewRegistry()
	ops.RegisterNotify(reg, sender.Stats)
	stop, err := broker.ServeMetrics(ctx, ops.ServerOptions{Addr: cfg.OpsAddr, Metrics: reg, Log: log}, defaultOpsAddr,
		"sending without /metrics, /livez and /readyz: cannot listen on their default address; give this process another one (ORDERPOST_OPS_ADDR)", q)
	if err != nil {
		return err
	}
	defer stop()
	sender.Run(ctx)
	return nil
}

func readSettings(environ map[string]string, stderr io.Writer) (cfg settings, log zerolog.Logger, err error) {
	err = cli.ReadEnv(&cfg, environ)
	cfg.Notify.PlainHTTPHosts = cfg.PlainHTTPHosts
	if !cfg.Notify.On() {
		err = errors.Join(err, errors.New("ORDERPOST_NOTIFY_URL: is required: the address to which outcomes are posted"))
	}
	err = errors.Join(err, cfg.Notify.Validate(), cfg.Broker.Queue.Validate())
	log, logErr := cli.NewLogger(stderr, cfg.LogLevel, cfg.LogFormat, environ)
	return cfg, log, errors.Join(err, logErr)
}
