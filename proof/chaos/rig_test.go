package chaos

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestADeadFirstWorkerEndsTheStart: nothing restarts a worker before the run begins, so
// that the rig must not wait for the streams that this worker would have made.
func TestADeadFirstWorkerEndsTheStart(t *testing.T) {
	dir := t.TempDir()
	worker := filepath.Join(dir, "worker")
	require.NoError(t, os.WriteFile(worker, []byte("#!/bin/sh\necho no key\nexit 2\n"), 0o700)) //nolint:gosec // it is run
	listens, err := freeAddrs(1)
	require.NoError(t, err)
	r := &rig{o: &options{broker: embeddedBroker, workers: 1}, dir: dir, bin: map[string]string{"worker": worker}, listens: listens}
	defer r.cleanUp()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.ErrorContains(t, r.startWorkers(ctx), "worker-1 ended before it served")
	require.NoError(t, ctx.Err())
	require.ErrorContains(t, r.lastWords(), "no key")
}
