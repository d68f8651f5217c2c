// Package traces joins OpenTelemetry's traces to the programs. Programs that make no spans do not link it.
package traces

import (
	"context"

	"github.com/rs/zerolog"

	"orderpost/internal/cli"         // room: tracing
	"orderpost/internal/ops/tracing" // room: tracing
	"orderpost/internal/ops/tracing/span"
)

// Start starts exporting traces if the variables OTEL_* ask for it. Otherwise it returns nil.
// instance distinguishes the workers of one fleet.
func Start(ctx context.Context, program, instance string, environ map[string]string, log zerolog.Logger) (t *span.Tracing) {
	t = tracing.Start(ctx, tracing.Options{Program: program, Version: cli.Version(), Instance: instance, Environ: environ, Log: log}) // room: tracing
	return t
}
