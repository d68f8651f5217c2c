package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/patient"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

func TestMain(m *testing.M) { patient.Main(m) }

// startBroker runs an embedded server for one test.
func startBroker(t *testing.T) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// node is a worker's connection and its access to the fleet.
type node struct {
	*queue.Queue
	*Control
	name string
}

// tryOpen connects a worker of the given name to the broker.
func tryOpen(t *testing.T, s *embedded.Server, name string, change ...func(*queue.Config)) (*node, error) {
	t.Helper()
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Present = s.URL, s.Token, name, true, Present
	for _, c := range change {
		c(&cfg)
	}
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	t.Cleanup(q.Close)
	return &node{q, New(q), name}, nil
}

func open(t *testing.T, s *embedded.Server, name string, change ...func(*queue.Config)) *node {
	t.Helper()
	n, err := tryOpen(t, s, name, change...)
	require.NoError(t, err)
	return n
}

// claim claims an API for the worker.
func (n *node) claim(t *testing.T, want Identity) error {
	t.Helper()
	return n.ClaimIdentity(t.Context(), want, n.name, zerolog.Nop())
}

// publish stores an intent for each order_no.
func (n *node) publish(t *testing.T, numbers ...string) {
	t.Helper()
	var in []settle.Intent
	for _, no := range numbers {
		in = append(in, settle.Intent{OrderNo: no, ID: "i:" + no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"qty":"1"}`, no)})
	}
	for _, r := range n.PublishMany(t.Context(), in) {
		require.NoError(t, r.Err)
		require.Equal(t, settle.Stored, r.Status)
	}
}

// pull takes the only pending intent.
func (n *node) pull(t *testing.T) *settle.Delivery {
	t.Helper()
	var got []*settle.Delivery
	require.NoError(t, n.Pull(t.Context(), 1, 10*time.Second, func(ds []*settle.Delivery) { got = append(got, ds...) }))
	require.Len(t, got, 1)
	return got[0]
}
