// Package gateway is the command orderpost gateway: its flags, settings and exit codes
// around internal/gateway.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/cli/traces"
	"orderpost/internal/gateway"
	"orderpost/internal/gateway/fileimport"
	"orderpost/internal/ops"
	"orderpost/internal/order/schema"
	"orderpost/internal/queue"
)

// settings are those of the HTTP door and of the broker.
type settings struct {
	Gateway gateway.Config
	Broker  broker.Config

	OpsAddr      string        `env:"OPS_ADDR" envDefault:"127.0.0.1:9464" empty:"kept" desc:"address of /metrics; empty = none"`
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" envDefault:"30s" desc:"how long requests under way may take after SIGTERM"`
	LogLevel     string        `env:"LOG_LEVEL" envDefault:"info" desc:"debug, info, warn or error"`
	LogFormat    string        `env:"LOG_FORMAT" envDefault:"auto" desc:"json, console, or auto: console on a terminal"`
}

// defaultOpsAddr is the default of settings.OpsAddr. If it is in use, as beside a worker,
// the gateway goes without.
const defaultOpsAddr = "127.0.0.1:9464"

// brokerWait bounds how long a request waits for a broker that restarts.
const brokerWait = 10 * time.Second

// Run runs the program and returns the exit code.
func Run(ctx context.Context, args []string, environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Execute(ctx, NewCommand(environ, stderr), args, stdin, stdout, stderr)
}

// NewCommand returns the command gateway.
func NewCommand(environ map[string]string, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Take orders over HTTP, and tell what became of them",
		Long: "gateway lets programs POST orders, GET their outcomes, follow all outcomes, and withdraw orders. It works on the\n" +
			"broker that the other commands use. `orderpost help gateway.md` explains it, /openapi.yaml describes it.\n\n" +
			"It listens on " + gateway.DefaultListen + ", where any program of this machine may do everything. To let other machines\n" +
			"in, it needs a file of clients, and TLS (its own, or a proxy's). A worker with ORDERPOST_GATEWAY_LISTEN has the\n" +
			"same door in itself.\n\n" +
			"On SIGTERM or Ctrl-C it takes no new requests and finishes those under way.\n\n" +
			"Exit codes: 0 stopped; 1 failed; 2 wrong usage or configuration; 4 broker out of reach.\n\n" +
			"Settings, besides those of the broker (orderpost worker --help):\n" + cli.SettingsHelp(gateway.Config{}),
		Example: "  orderpost gateway\n" +
			"  curl --json '{\"order_no\":\"A-1\",\"timeout\":30}' http://" + gateway.DefaultListen + "/v1/orders\n" +
			"  orderpost gateway client shop --scopes submit,read >> clients.yaml",
		Args: cli.OnlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), environ, stderr)
		},
	}
	cli.NoJSON(cmd, "it serves until it is stopped")
	cmd.AddCommand(newClientCommand(stderr))
	return cmd
}

func serve(ctx context.Context, environ map[string]string, stderr io.Writer) error {
	var cfg settings
	err := cli.ReadEnv(&cfg, environ)
	cfg.Gateway.Listen = cmp.Or(cfg.Gateway.Listen, gateway.DefaultListen)
	err = errors.Join(err, cfg.Gateway.Validate(), cfg.Broker.Queue.Validate())
	if cfg.DrainTimeout <= 0 {
		err = errors.Join(err, fmt.Errorf("ORDERPOST_DRAIN_TIMEOUT: %s is not positive", cfg.DrainTimeout))
	}
	log, logErr := cli.NewLogger(stderr, cfg.LogLevel, cfg.LogFormat, environ)
	if err := errors.Join(err, logErr); err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	schema, err := cfg.Broker.Schema.Load(log)
	if err != nil {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	connect := cfg.Broker
	connect.Queue.BrokerWait = min(connect.Queue.BrokerWait, brokerWait)
	q, done, err := broker.Open(ctx, connect, broker.Options{Name: "gateway", Stderr: stderr, Tell: func(line string) { log.Warn().Msg(line) }})
	if err != nil {
		return err
	}
	defer done()
	tracing := traces.Start(ctx, "gateway", "", environ, log)
	defer tracing.Stop()
	return open(ctx, cfg, q, schema, tracing.Tracer(), log)
}

// open serves until ctx ends.
func open(ctx context.Context, cfg settings, q *queue.Queue, schema *schema.Schema, tracer trace.Tracer, log zerolog.Logger) error {
	reg := ops.NewRegistry()
	metrics := ops.NewGateway(reg, gateway.MetricsOptions())
	stopMetrics, err := broker.ServeMetrics(ctx, ops.ServerOptions{Addr: cfg.OpsAddr, Metrics: reg, Log: log}, defaultOpsAddr,
		"working without /metrics: cannot listen on its default address; give the gateway another one (ORDERPOST_OPS_ADDR)", q)
	if err != nil {
		return err
	}
	defer stopMetrics()
	stop, err := gateway.Open(ctx, cli.ProcessName("gateway"), gateway.Options{Config: cfg.Gateway, Files: fileimport.Open, Metrics: metrics, Log: log, DrainTimeout: cfg.DrainTimeout,
		Queue: q, DataDir: cfg.Broker.DataDir, Schema: schema, Version: cli.Version(), Trace: tracer})
	if errors.Is(err, gateway.ErrConfig) {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	stop()
	log.Info().Msg("the HTTP door is closed; no request is under way")
	return nil
}
