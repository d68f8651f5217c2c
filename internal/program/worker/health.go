package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/ops"
	"orderpost/internal/program"
)

// healthTimeout is well below the patience of whoever asks.
const healthTimeout = 3 * time.Second

// newHealthCommand is a container's health check: the image has no shell and
// no curl.
func newHealthCommand(environ map[string]string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the worker of this machine whether it lives (/livez)",
		Long: "health asks /livez on ORDERPOST_OPS_ADDR. It ends with exit code 0 where a worker answers, else with 1.\n" +
			"It says nothing of the broker and of the API: ask /readyz for those.",
		Example: "  worker health\n  ORDERPOST_OPS_ADDR=127.0.0.1:9465 worker health",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var cfg struct {
				OpsAddr string `env:"OPS_ADDR" envDefault:"127.0.0.1:9464" empty:"kept"`
			}
			if err := program.ReadEnv(&cfg, environ); err != nil {
				return &program.ExitError{Code: program.ExitUsage, Err: err}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			err := ops.Probe(ctx, cfg.OpsAddr)
			if asJSON {
				if err := program.PrintJSON(cmd.OutOrStdout(), healthy{err == nil, cfg.OpsAddr}); err != nil {
					return err
				}
			}
			if err != nil {
				return fmt.Errorf("not healthy: %w", err)
			}
			return nil
		},
	}
	program.JSONFlag(cmd, &asJSON, "health")
	return cmd
}

// healthy is what health prints for programs.
type healthy struct {
	Healthy bool   `json:"healthy"`
	Address string `json:"address"`
}
