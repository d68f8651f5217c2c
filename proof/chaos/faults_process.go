package chaos

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"
)

// processFaults kill and freeze processes.
func processFaults() []fault {
	all := []fault{
		{name: "kill-worker", what: "SIGKILL to a worker (with the embedded broker the first one takes it along)", weight: 4,
			least: 100 * time.Millisecond, most: 2 * time.Second, inject: stopWorker(syscall.SIGKILL)},
		{name: "stop-worker", what: "SIGTERM to a worker", weight: 1,
			least: 100 * time.Millisecond, most: 2 * time.Second, inject: stopWorker(syscall.SIGTERM)},
		{name: "kill-broker", what: "SIGKILL to a broker (one of the three nodes)", needs: apart, weight: 3,
			least: 100 * time.Millisecond, most: 4 * time.Second, inject: stopBroker(syscall.SIGKILL)},
		{name: "stop-broker", what: "SIGTERM to a broker", needs: apart, weight: 1,
			least: 100 * time.Millisecond, most: 4 * time.Second, inject: stopBroker(syscall.SIGTERM)},
		{name: "kill-cluster", what: "SIGKILL to all three nodes", needs: []string{clusterBroker}, weight: 1,
			least: 100 * time.Millisecond, most: 3 * time.Second, inject: killCluster},
		{name: "power-cut", what: "all workers and the embedded broker end at once, and the end of each stream is torn",
			needs: []string{embeddedBroker}, weight: 2, least: 100 * time.Millisecond, most: time.Second, inject: powerCut},
	}
	if canFreeze {
		all = append(all,
			fault{name: "freeze-worker", what: "SIGSTOP to a worker for less than its claims last", weight: 2,
				least: 300 * time.Millisecond, most: ackWait / 2, inject: freezeWorker},
			fault{name: "freeze-worker-long", what: "SIGSTOP to a worker for longer than its claims last, then SIGCONT", weight: 3,
				least: ackWait * 5 / 4, most: ackWait * 3, inject: freezeWorker},
			fault{name: "freeze-broker", what: "SIGSTOP to a broker, then SIGCONT", needs: apart, weight: 1,
				least: 300 * time.Millisecond, most: 6 * time.Second, inject: freezeBroker},
			fault{name: "lame-duck", what: "one of the three nodes tells its clients to go elsewhere, and ends (lame duck mode)", needs: []string{clusterBroker}, part: turnsPart, weight: 3,
				least: 100 * time.Millisecond, most: 4 * time.Second, inject: stopBroker(lameDuckSignal)})
	}
	return all
}

func (r *rig) anyWorker(draw *rand.Rand) *member { return r.workers[draw.IntN(len(r.workers))] }

func stopWorker(s syscall.Signal) func(context.Context, *rig, *rand.Rand) (heal, error) {
	return func(_ context.Context, r *rig, draw *rand.Rand) (heal, error) {
		w := r.anyWorker(draw)
		r.end(w.process, s)
		return func(context.Context) error { return r.begin(w.process) }, nil
	}
}

func stopBroker(s syscall.Signal) func(context.Context, *rig, *rand.Rand) (heal, error) {
	return func(_ context.Context, r *rig, draw *rand.Rand) (heal, error) {
		node := r.nodes[draw.IntN(len(r.nodes))]
		r.end(node, s)
		return func(context.Context) error { return r.begin(node) }, nil
	}
}

// drainPatience is longer than the workers' ORDERPOST_DRAIN_TIMEOUT, and than the lame duck mode of
// a broker with some ten clients, of which it sends one away each second.
const drainPatience = 15 * time.Second

func (r *rig) end(p *process, s syscall.Signal) {
	r.stores.RLock()
	defer r.stores.RUnlock()
	p.stop(s, drainPatience)
}

func (r *rig) begin(p *process) error {
	r.stores.RLock()
	defer r.stores.RUnlock()
	return p.start()
}

func killCluster(_ context.Context, r *rig, _ *rand.Rand) (heal, error) {
	for _, node := range r.nodes {
		r.end(node, syscall.SIGKILL)
	}
	return func(context.Context) error {
		for _, node := range r.nodes {
			if err := r.begin(node); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func freezeWorker(_ context.Context, r *rig, draw *rand.Rand) (heal, error) {
	thaw := r.anyWorker(draw).freeze()
	return func(context.Context) error { thaw(); return nil }, nil
}

func freezeBroker(_ context.Context, r *rig, draw *rand.Rand) (heal, error) {
	thaw := r.nodes[draw.IntN(len(r.nodes))].freeze()
	return func(context.Context) error { thaw(); return nil }, nil
}
