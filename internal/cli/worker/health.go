package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/ops"
)

// healthTimeout is well below the usual timeouts of health checks.
const healthTimeout = 3 * time.Second

// newHealthCommand returns the command health, for containers: the image has no shell
// and no curl.
func newHealthCommand(environ map[string]string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the worker of this machine whether it lives (/livez)",
		Long: "health asks /livez on ORDERPOST_OPS_ADDR. The exit code is 0 if a worker answers, otherwise 1.\n" +
			"It does not check the broker and the API: ask /readyz for those.",
		Example: "  orderpost worker health\n  ORDERPOST_OPS_ADDR=127.0.0.1:9465 orderpost worker health",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var cfg struct {
				OpsAddr string `env:"OPS_ADDR" envDefault:"127.0.0.1:9464" empty:"kept"`
			}
			if err := cli.ReadEnv(&cfg, environ); err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			err := ops.Probe(ctx, cfg.OpsAddr)
			if asJSON {
				if err := cli.PrintJSON(cmd.OutOrStdout(), healthy{err == nil, cfg.OpsAddr}); err != nil {
					return err
				}
			}
			if err != nil {
				return fmt.Errorf("not healthy: %w", err)
			}
			return nil
		},
	}
	cli.JSONFlag(cmd, &asJSON, "health")
	return cmd
}

// healthy is the JSON output of health.
type healthy struct {
	Healthy bool   `json:"healthy"`
	Address string `json:"address"`
}
