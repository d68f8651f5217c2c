package service

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/cli"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/gateway" // room: gateway
	"orderpost/internal/notify"  // room: notify
	"orderpost/internal/order"
	"orderpost/internal/order/schema"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/submit"
)

// Config holds the settings of the worker program.
type Config struct {
	Submit  submit.Config
	Keys    submit.KeyConfig
	Queue   queue.Config
	Gateway gateway.Config // room: gateway
	Notify  notify.Config  // room: notify
	Schema  schema.Config

	Approvals string `env:"APPROVALS" desc:"what needs a second person, comma-separated: imports, imports.rows=N (more rows), imports.sum.COLUMN=N (a larger sum), resubmit-unknown, resolve, limit; lapse=168h is how long an approval may take and holds; none ends it; empty = as the fleet has it"`

	AccountLabel string `env:"ACCOUNT_LABEL" desc:"name of the account at the API, the same for all workers of a fleet; empty = they need the same API URL"`
	Preflight    bool   `env:"PREFLIGHT" envDefault:"true" desc:"ask GET /v1/account at start, and exit if the API refuses the key"`

	DataDir    string `env:"DATA_DIR" envDefault:"data" desc:"data folder of the embedded broker"`
	NATSListen string `env:"NATS_LISTEN" desc:"loopback address of the embedded broker; empty = 127.0.0.1:4222, or a free port if another program uses that one"`

	Name         string        `env:"WORKER_NAME" desc:"name of this worker in results and presence; default host and process id"`
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" envDefault:"30s" desc:"how long orders in flight may take after SIGTERM"`

	OpsAddr   string `env:"OPS_ADDR" envDefault:"127.0.0.1:9464" empty:"kept" desc:"address of /metrics, /livez and /readyz; empty = none"`
	PProf     bool   `env:"PPROF" envDefault:"false" desc:"serve Go profiles below /debug/pprof/ on ORDERPOST_OPS_ADDR"`
	LogLevel  string `env:"LOG_LEVEL" envDefault:"info" desc:"debug, info, warn or error"`
	LogSample int    `env:"LOG_SAMPLE" envDefault:"100" desc:"accepted orders per second that get a log line each (0 = all); other outcomes always get one"`
	LogFormat string `env:"LOG_FORMAT" envDefault:"auto" desc:"json, console, or auto: console on a terminal"`
}

// Normalize returns the settings with those filled in that follow from others.
func (c Config) Normalize() Config {
	if c.Name == "" {
		c.Name = cli.ProcessName("worker")
	}
	c.Queue.Name, c.Queue.Worker, c.Queue.Living = c.Name, true, fleet.Living
	c.Notify.PlainHTTPHosts = c.Submit.PlainHTTPHosts // room: notify
	c.Queue.AttemptTimeout, c.Queue.LongestDelay = c.Submit.RequestTimeout, c.Submit.RetryDelayMax
	return c
}

// Identity returns the API and the account that a worker with these settings posts to.
func (c Config) Identity() fleet.Identity {
	return fleet.Identity{URL: c.Submit.URL, Label: c.AccountLabel}
}

// Validate reports every bad setting at once, by the name of its variable.
func (c Config) Validate() error {
	errs := []error{c.Submit.Validate(), c.Keys.Validate(), c.Queue.Validate(),
		c.Gateway.Validate(), // room: gateway
		c.Notify.Validate(),  // room: notify
		c.validateOps()}
	if c.DrainTimeout <= 0 {
		errs = append(errs, fmt.Errorf("ORDERPOST_DRAIN_TIMEOUT: %s is not positive", c.DrainTimeout))
	}
	if _, err := imports.ParseApprovalRule(c.Approvals); err != nil {
		errs = append(errs, fmt.Errorf("ORDERPOST_APPROVALS: %w", err))
	}
	if c.LogSample < 0 {
		errs = append(errs, errors.New("ORDERPOST_LOG_SAMPLE: cannot be below 0"))
	}
	if c.Queue.URL == "" && c.DataDir == "" {
		errs = append(errs, errors.New("ORDERPOST_DATA_DIR: is required if ORDERPOST_NATS_URL is empty"))
	}
	if c.Queue.URL == "" && c.Queue.Replicas > 1 {
		errs = append(errs, fmt.Errorf("ORDERPOST_REPLICAS: %d needs a NATS cluster (ORDERPOST_NATS_URL); the broker in the worker is one server", c.Queue.Replicas))
	}
	if _, _, err := embedded.ParseListen(c.NATSListen); err != nil && c.Queue.URL == "" {
		errs = append(errs, fmt.Errorf("ORDERPOST_NATS_LISTEN: %w", err))
	}
	if most := queue.MaxAckPending; c.Submit.Concurrency > most/2 {
		errs = append(errs, fmt.Errorf("ORDERPOST_CONCURRENCY: %d leaves no room for delayed orders, of which the fleet holds %d at most; keep it at half of that or less", c.Submit.Concurrency, most))
	}
	if c.Submit.OnUnsure == order.Park && c.Queue.AckWait < time.Second {
		errs = append(errs, errors.New("ORDERPOST_ACK_WAIT: is below 1s"))
	}
	return errors.Join(errs...)
}

// broker returns the configuration of the embedded broker, whose warnings and errors go
// to log.
func (c Config) broker(log zerolog.Logger) embedded.Config {
	tell := func(text string, isError bool) {
		if isError {
			log.Error().Str("what", text).Msg("the embedded broker reports an error")
		} else {
			log.Warn().Str("what", text).Msg("the embedded broker warns")
		}
	}
	return embedded.Config{Dir: c.DataDir, Listen: c.NATSListen, Streams: c.Queue.StreamNames(), Tell: tell}
}
