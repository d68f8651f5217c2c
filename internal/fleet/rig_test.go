package fleet

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

var startBroker = queuetest.Start

// node is a worker's connection and its access to the fleet.
type node struct {
	*queue.Queue
	*Control
	name string
}

// tryOpen connects a worker of the given name to the broker.
func tryOpen(t *testing.T, s *queuetest.Broker, name string, change ...func(*queue.Config)) (*node, error) {
	t.Helper()
	cfg := s.Config(name)
	cfg.Living = Living
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

func open(t *testing.T, s *queuetest.Broker, name string, change ...func(*queue.Config)) *node {
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

// pull takes the only pending intent.
func (n *node) pull(t *testing.T) *settle.Delivery { return queuetest.Pull(t, n.Queue, 1)[0] }

// publish stores an intent for each order_no.
func (n *node) publish(t *testing.T, numbers ...string) {
	t.Helper()
	for _, no := range numbers {
		queuetest.Publish(t, n.Queue, queuetest.Intent(no, "i:"+no))
	}
}
