package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"orderpost/internal/queue"
)

// brokerSettings are the same for all contenders.
func (o *options) brokerSettings() string {
	interval := "default sync interval"
	if o.sync {
		interval = "sync_interval: always"
	}
	return "file store, " + interval + ", max_payload 8MB"
}

// clusterSize is the number of servers of the cluster case.
const clusterSize = 3

// broker is a nats-server, or a cluster of them, with stores of their own.
type broker struct {
	nodes    []*process
	replicas int
	url      string // of all nodes, separated by commas
	dir      string
	sync     bool     // every write
	profiled bool     // the nodes serve their profiles
	profiles []string // addresses of those
	monitors []string // where the nodes tell what they have done
}

// startBroker starts n servers in a folder of their own.
func (r *rig) startBroker(n int, profiled bool) (b *broker, err error) {
	b = &broker{replicas: n, sync: r.sync, profiled: profiled}
	if b.dir, err = os.MkdirTemp(r.store, "broker-*"); err != nil {
		return b, err
	}
	return b, b.start(func(name, conf string) (*process, error) {
		return start(r.dir, name, r.nats, os.Environ(), "-c", conf)
	})
}

// start writes the configuration of each server, and has it launched.
func (b *broker) start(launch func(name, conf string) (*process, error)) error {
	n := b.replicas
	addrs, err := freeAddrs(4 * n)
	if err != nil {
		return err
	}
	clients, routes, profiles := addrs[:n], addrs[n:2*n], addrs[2*n:3*n]
	b.monitors = addrs[3*n:]
	b.url = "nats://" + strings.Join(clients, ",nats://")
	if b.profiled {
		b.profiles = profiles
	}
	interval := ""
	if b.sync {
		interval = ", sync_interval: always"
	}
	for i := range n {
		name := fmt.Sprintf("nats-server-%d", i+1)
		text := fmt.Sprintf("server_name: %s\nlisten: %q\nhttp: %q\nmax_payload: 8MB\njetstream { store_dir: %q%s }\n", name, clients[i], b.monitors[i], filepath.Join(b.dir, name), interval)
		if n > 1 {
			text += fmt.Sprintf("cluster { name: bench, listen: %q, routes: [nats://%s] }\n", routes[i], strings.Join(routes, ", nats://"))
		}
		if b.profiled {
			_, port, _ := strings.Cut(profiles[i], ":")
			text += fmt.Sprintf("prof_port: %s\n", port)
		}
		conf := filepath.Join(b.dir, name+".conf")
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			return err
		}
		p, err := launch(name, conf)
		if err != nil {
			return err
		}
		b.nodes = append(b.nodes, p)
	}
	return nil
}

// freeAddrs gives loopback addresses that nobody listens on.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all are held until all are known, so that they differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func (b *broker) stop() error {
	if b == nil {
		return nil
	}
	for _, p := range b.nodes {
		p.interrupt() // all at once: one alone would first give its leaders away
	}
	var errs []error
	for _, p := range b.nodes {
		errs = append(errs, p.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// cpu is what all nodes used between mark and freeze.
func (b *broker) cpu() (used time.Duration) {
	for _, p := range b.nodes {
		used += p.cpu()
	}
	return used
}

func (b *broker) mark() {
	for _, p := range b.nodes {
		p.mark()
	}
}

func (b *broker) freeze() {
	for _, p := range b.nodes {
		p.freeze()
	}
}

// clusterPatience is how long a cluster may take to elect its leaders.
const clusterPatience = 30 * time.Second

// open connects to the broker's streams, and makes them, with a replica on
// each node.
func (b *broker) open(ctx context.Context) (q *queue.Queue, err error) {
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Name, cfg.Replicas = b.url, "bench", b.replicas
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	err = b.untilElected(ctx, func(ctx context.Context) error {
		q, err = queue.Open(ctx, cfg, zerolog.Nop())
		return err
	})
	return q, err
}

// ready waits until a cluster has a leader of its own: requests before that go
// unanswered, and each costs a timeout.
func (b *broker) ready(ctx context.Context) error {
	if b.replicas == 1 {
		return nil
	}
	return b.untilElected(ctx, func(ctx context.Context) error {
		nc, js, err := b.connect()
		if err != nil {
			return err
		}
		defer nc.Close()
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err = js.AccountInfo(ctx)
		return err
	})
}

// connect opens a connection of the bench's own.
func (b *broker) connect() (*nats.Conn, jetstream.JetStream, error) { return connect(b.url, "") }

func connect(url, token string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(url, nats.Name("bench"), nats.Token(token))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc) // fails for bad options only
	return nc, js, err
}

// askPatience is how long one request may take. One that was lost would otherwise wait for
// as long as the trial may take.
const askPatience = 10 * time.Second

// untilElected repeats what a cluster refuses, or leaves unanswered, before it has its leaders.
func (b *broker) untilElected(ctx context.Context, do func(context.Context) error) error {
	for end := time.Now().Add(clusterPatience); ; {
		once, cancel := context.WithTimeout(ctx, askPatience)
		err := do(once)
		cancel()
		if err == nil || b.replicas == 1 || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// The stream in which contenders other than ours store outcomes. It has no
// feature that costs anything and that they do not use; direct reads cost nothing
// until somebody reads.
const (
	outcomesStream = "OUTCOMES"
	outcomesPrefix = "outcomes."
)

// makeOutcomes makes the contenders' stream of outcomes.
func (b *broker) makeOutcomes(ctx context.Context) error {
	return b.withOutcomes(ctx, func(js jetstream.JetStream) error {
		cfg := jetstream.StreamConfig{Name: outcomesStream, Subjects: []string{outcomesPrefix + "*"}, Storage: jetstream.FileStorage, Replicas: b.replicas, AllowDirect: true}
		return b.untilElected(ctx, func(ctx context.Context) error {
			_, err := js.CreateOrUpdateStream(ctx, cfg)
			return err
		})
	})
}

// countOutcomes is how many outcomes are stored.
func (b *broker) countOutcomes(ctx context.Context) (n uint64, err error) {
	err = b.withOutcomes(ctx, func(js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, outcomesStream)
		if err == nil {
			n = stream.CachedInfo().State.Msgs
		}
		return err
	})
	return n, err
}

func (b *broker) withOutcomes(ctx context.Context, do func(jetstream.JetStream) error) error {
	nc, js, err := b.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := do(js); err != nil {
		return fmt.Errorf("stream %s: %w", outcomesStream, err)
	}
	return nil
}
