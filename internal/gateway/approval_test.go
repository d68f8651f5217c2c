package gateway

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/approval"
	"orderpost/internal/queue"
)

// TestAFileThatNeedsApproval is held like an upload, and says where people approve. The
// token of a program stands for no login.
func TestAFileThatNeedsApproval(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit, Read, Cancel}})
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Clients = path })
	approval.SetRule(t.Context(), r.worker, "imports", "w1", "test", zerolog.Nop())
	as := []string{"Authorization", bearer("shop")}
	i := r.becomes(r.bringFile(file("F", 5), "", as...), "stored", as...)
	require.Equal(t, "it needs approval (every import): people approve or refuse it in the console, on the page "+approval.Address(i.Batch), i.Held)
	i = r.becomes(r.bringFile(file("G", 5), "?direct", as...), "failed", as...)
	require.Contains(t, i.Error, "imports need approval here, and wait for it in the waiting room")
	require.Zero(t, r.stored(), "nothing is in the queue")
}
