package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/sandbox"
	"orderpost/internal/testing/smalldisk"
	"orderpost/proof/overlay"
)

const (
	apiKey    = "chaos-key"
	apiSecret = "chaos-secret"
)

// ackWait is short, so the orders of a killed worker are redelivered soon.
const ackWait = 3 * time.Second

// rig holds everything that a run needs: real processes, and a sandbox in this process,
// because its ledger must survive.
type rig struct {
	o   *options
	dir string
	out io.Writer

	api      *sandbox.Server
	poison   *poison // with --usual: in front of the sandbox
	apiProxy *proxy
	apiURL   string // of apiProxy
	// nodes are the brokers' processes; none if the first worker runs the broker.
	nodes   []*process
	listens []string // addresses of the brokers
	workers []*member
	bin     map[string]string // paths of the programs by name

	doors    *doors  // nil = the run has none
	people   *people // nil = nobody approves
	intents  *intents
	history  *history   // with --history
	soaks    bool       // processes show their profiles, and results are kept for a minute
	profiles []string   // addresses of the brokers' profiles, for a soak
	monitors []string   // addresses at which the brokers say what they hold, with --bit-rot
	link     *nats.Conn // the run's own connection to the broker
	js       jetstream.JetStream

	runs  commandRuns
	batch atomic.Value // name of the last import

	inFlight atomic.Int64 // at the last sample
	revived  atomic.Int64 // number of processes that ended by themselves
	stores   sync.RWMutex // write-locked while the stores are replaced
	rotten   atomic.Bool  // a server is damaged
	rots     rotTally     // written while rotten

	disk     *smalldisk.Disk // small disk of the broker's store; nil = none
	diskSize int64
}

// member is a worker with a proxy to each broker.
type member struct {
	*process
	ways []*proxy // none if it runs the broker itself
	ops  string   // address of its metrics
}

func (r *rig) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, time.Now().UTC().Format("15:04:05 ")+format+"\n", args...)
}

// prepare builds and starts everything. The caller calls cleanUp, also after an error.
func (r *rig) prepare(ctx context.Context) (err error) {
	r.dir = r.o.keep
	if r.dir == "" {
		r.dir, err = os.MkdirTemp("", "orderpost-chaos-*")
	} else {
		err = os.MkdirAll(r.dir, 0o700)
	}
	if err != nil {
		return err
	}
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return err
	}
	if old, err := os.ReadDir(r.dir); err != nil || len(old) > 0 {
		return errors.Join(err, fmt.Errorf("--keep: %s must be empty: an earlier run's orders would be taken for this one's", r.dir))
	}
	if err := r.buildAll(ctx); err != nil {
		return err
	}
	if err := r.openHistory(); err != nil {
		return err
	}
	if err := r.startAPI(); err != nil {
		return err
	}
	if err := r.mountDisk(); err != nil {
		return err
	}
	if err := r.startBrokers(); err != nil {
		return err
	}
	if err := r.startWorkers(ctx); err != nil {
		return err
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	if err := r.makeLane(ctx); err != nil {
		return err
	}
	if err := r.openDoors(); err != nil {
		return err
	}
	if err := r.openPeople(); err != nil {
		return err
	}
	return r.history.listen(ctx, r.js, r.link)
}

// buildAll compiles the one program, which is worker, enqueue and deadletter by their names, as
// the packages install it, and the broker.
func (r *rig) buildAll(ctx context.Context) (err error) {
	patched := overlay.Files{}
	if r.o.clocks {
		if err = clocks(ctx, patched); err != nil {
			return err
		}
	}
	if err = plant(ctx, patched, r.o.plant); err != nil {
		return err
	}
	list, err := patched.Write(r.dir)
	if err != nil {
		return err
	}
	r.bin = make(map[string]string)
	if r.bin["orderpost"], err = build(ctx, r.dir, "orderpost", "orderpost/cmd/orderpost", list); err != nil {
		return err
	}
	for _, name := range []string{"worker", "enqueue", "deadletter"} {
		r.bin[name] = filepath.Join(r.dir, name)
		if err := os.Symlink("orderpost", r.bin[name]); err != nil {
			return err
		}
	}
	switch {
	case r.o.broker == embeddedBroker:
	case len(r.o.servers) > 0: // each node runs them in turn
	default:
		r.bin["nats-server"], err = build(ctx, r.dir, "nats-server", "github.com/nats-io/nats-server/v2", list)
	}
	return err
}

func (r *rig) startAPI() (err error) {
	cfg := sandbox.Config{Keys: map[string]string{apiKey: apiSecret}, TLS: r.o.tls, Logger: zerolog.Nop()}
	cfg.Settings = r.manners()
	if r.history != nil {
		cfg.Witness = r.history.witness
	}
	if r.api, err = sandbox.New(cfg); err != nil {
		return err
	}
	url, err := r.api.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	if r.o.lookup {
		if err := os.WriteFile(r.rulesFile(), []byte(lookupRules), 0o600); err != nil {
			return err
		}
	}
	if r.o.usual {
		if err := os.WriteFile(r.rulesFile(), []byte(noRules), 0o600); err != nil {
			return err
		}
		if r.poison, url, err = newPoison(url); err != nil {
			return err
		}
	}
	scheme, addr, _ := strings.Cut(url, "://")
	if r.apiProxy, err = newProxy(addr); err != nil {
		return err
	}
	r.apiURL = scheme + "://" + r.apiProxy.addr()
	if r.o.tls {
		err = os.WriteFile(r.caFile(), r.api.CA(), 0o600)
	}
	return err
}

// caFile returns the file of the sandbox's certificate authority, with --tls.
func (r *rig) caFile() string { return filepath.Join(r.dir, "sandbox-ca.pem") }

// rulesFile returns the workers' file of rules, in a run with the usual settings.
func (r *rig) rulesFile() string { return filepath.Join(r.dir, "rules.yaml") }

// manners returns the sandbox's settings without faults. With the policy park the
// sandbox creates a repeated order_no again, which reveals a second POST.
func (r *rig) manners() sandbox.Settings {
	s := sandbox.Settings{Seed: r.o.seed, Latency: 5 * time.Millisecond, Jitter: 20 * time.Millisecond}
	if r.o.policy == parkPolicy {
		s.Duplicates = sandbox.CreateTwice
	}
	if !r.o.calm {
		s.Faults = sandbox.Faults{Unavailable: 0.01, UnavailableAfter: 0.01, DropBefore: 0.01, DropAfter: 0.01,
			Slow: 0.005, SlowDelay: 300 * time.Millisecond, Refuse: 0.02}
	}
	if r.o.lookup {
		s.Window, s.LookupLag, s.Faults.Late, s.Faults.LateDelay = lookupWindow, 500*time.Millisecond, 0.02, lookupWindow-2*time.Second
	}
	return s
}

// lookupWindow is how far a timestamp may be from the API's clock in a run with lookups.
const lookupWindow = 10 * time.Second

// lookupRules are those of a run with lookups. An absent order is posted again under park, too.
const lookupRules = `lookup:
  request: GET /v1/order/{order_no}
  first: 1s
  absent_for: 22s
  timestamp_window: 10s
  repost: true
  rules:
    - {when: status == 200 && body.data.order_no == order_no && body.data.status == "created", verdict: exists}
    - {when: status == 200 && body.data.order_no == order_no && body.data.status == "declined", verdict: rejected}
    - {when: status == 404 && body.code == 300404, verdict: absent}
`

func (r *rig) startBrokers() (err error) {
	n := map[string]int{embeddedBroker: 1, externalBroker: 1, clusterBroker: 3}[r.o.broker]
	if r.listens, err = freeAddrs(n); err != nil || r.o.broker == embeddedBroker {
		return err
	}
	var routes []string
	if n > 1 {
		if routes, err = freeAddrs(n); err != nil {
			return err
		}
	}
	if r.soaks {
		if r.profiles, err = freeAddrs(n); err != nil {
			return err
		}
	}
	if r.o.bitRot {
		if r.monitors, err = freeAddrs(n); err != nil {
			return err
		}
	}
	for i, listen := range r.listens {
		name := fmt.Sprintf("node-%d", i+1)
		conf := filepath.Join(r.dir, name+".conf")
		if err := os.WriteFile(conf, []byte(r.brokerConf(name, listen, i, routes)), 0o600); err != nil {
			return err
		}
		node := &process{name: name, history: r.history, broker: true, path: r.bin["nats-server"], turn: slices.Clone(r.o.servers), args: []string{"-c", conf}, log: filepath.Join(r.dir, name+".log")}
		r.nodes = append(r.nodes, node)
		if err := r.giveClock(node); err != nil {
			return err
		}
		if err := node.start(); err != nil {
			return err
		}
	}
	return nil
}

// brokerConf returns a broker's configuration. no_advertise keeps clients on their
// proxies.
func (r *rig) brokerConf(name, listen string, i int, routes []string) string {
	text := fmt.Sprintf("server_name: %s\nlisten: %q\nmax_payload: 8MB\nlame_duck_grace_period: 1s\njetstream { store_dir: %q, sync_interval: always }\n%s",
		name, listen, r.storeDir(name), brokerAccounts)
	if r.soaks {
		_, port, _ := strings.Cut(r.profiles[i], ":")
		text += "prof_port: " + port + "\n"
	}
	if r.o.bitRot {
		text += fmt.Sprintf("http: %q\n", r.monitors[i])
	}
	if routes != nil {
		text += fmt.Sprintf("cluster { name: chaos, listen: %q, no_advertise: true, routes: [nats://%s] }\n",
			routes[i], strings.Join(routes, ", nats://"))
	}
	return text
}

func (r *rig) startWorkers(ctx context.Context) error {
	ops, err := freeAddrs(r.o.workers)
	if err != nil {
		return err
	}
	for i := range r.o.workers {
		name := fmt.Sprintf("worker-%d", i+1)
		m := &member{process: &process{name: name, history: r.history, broker: i == 0 && r.nodes == nil, path: r.bin["worker"], log: filepath.Join(r.dir, name+".log")}, ops: ops[i]}
		r.workers = append(r.workers, m)
		m.env = append(r.workerEnv(name, m.ops), "ORDERPOST_NATS_LISTEN="+r.listens[0])
		if i > 0 || r.nodes != nil {
			urls, err := r.proxied(m)
			if err != nil {
				return err
			}
			m.env = append(m.env, "ORDERPOST_NATS_URL="+urls)
		}
		if err := r.giveClock(m.process); err != nil {
			return err
		}
		if err := m.start(); err != nil {
			return err
		}
		if i == 0 { // it creates the streams, or runs the broker
			alive, cancel := m.whileAlive(ctx)
			q, err := r.open(alive, "chaos")
			cancel()
			if err != nil {
				return err
			}
			q.Close()
		}
	}
	return nil
}

// workerEnv returns a worker's settings, with short claims, timeouts and delays
// unless the run asks for the usual ones.
func (r *rig) workerEnv(name, ops string) []string {
	env := append(os.Environ(),
		"ORDERPOST_API_URL="+r.apiURL, "ORDERPOST_API_KEY="+apiKey, "ORDERPOST_API_SECRET="+apiSecret,
		"ORDERPOST_WORKER_NAME="+name, "ORDERPOST_DATA_DIR="+r.dataDir(), "ORDERPOST_OPS_ADDR="+ops,
		"ORDERPOST_LOG_FORMAT=json", "ORDERPOST_ON_UNSURE="+r.o.policy)
	if r.o.usual {
		return append(env, "ORDERPOST_RULES="+r.rulesFile())
	}
	env = append(env, "ORDERPOST_ACK_WAIT="+ackWait.String(),
		"ORDERPOST_REQUEST_TIMEOUT=1s", "ORDERPOST_RETRY_DELAY_MAX=2s", "ORDERPOST_HOLD_RETRY=1s", "ORDERPOST_DRAIN_TIMEOUT=5s")
	if r.o.lookup {
		env = append(env, "ORDERPOST_RULES="+r.rulesFile())
	}
	if r.history != nil {
		env = append(env, "ORDERPOST_LOG_LEVEL=debug")
	}
	if r.soaks {
		env = append(env, "ORDERPOST_RESULT_RETENTION=1m", "ORDERPOST_PPROF=true") // the disk must be able to be flat
	}
	if r.o.tls {
		env = append(env, "ORDERPOST_API_CA_FILE="+r.caFile())
	}
	if r.o.broker == clusterBroker {
		env = append(env, "ORDERPOST_REPLICAS=3")
	}
	if r.o.approvals {
		env = append(env, "ORDERPOST_APPROVALS=imports")
	}
	if r.o.scenario == replayScenario {
		env = append(env, "ORDERPOST_REFUSAL_RUN=0") // the API first refuses every order on purpose
	}
	return env
}

func (r *rig) dataDir() string { return filepath.Join(r.dir, "data") }

// proxied starts a proxy between a worker and each broker.
func (r *rig) proxied(m *member) (string, error) {
	var urls []string
	for _, listen := range r.listens {
		p, err := newProxy(listen)
		if err != nil {
			return "", err
		}
		m.ways = append(m.ways, p)
		url, err := r.withToken(p.addr())
		if err != nil {
			return "", err
		}
		urls = append(urls, url)
	}
	return strings.Join(urls, ","), nil
}

// withToken returns a broker's URL with the token of the embedded broker.
func (r *rig) withToken(addr string) (string, error) {
	if r.nodes != nil {
		return "nats://" + brokerUser + "@" + addr, nil
	}
	end, err := embedded.ReadEndpoint(r.dataDir())
	if err != nil {
		return "", err
	}
	return "nats://" + end.Token + "@" + addr, nil
}

// brokerURL returns the brokers' URLs without proxies.
func (r *rig) brokerURL() (string, error) {
	var urls []string
	for _, listen := range r.listens {
		url, err := r.withToken(listen)
		if err != nil {
			return "", err
		}
		urls = append(urls, url)
	}
	return strings.Join(urls, ","), nil
}

// open connects to any running broker. It waits until one is back.
func (r *rig) open(ctx context.Context, name string) (*queue.Queue, error) {
	for {
		cfg := queue.DefaultConfig()
		cfg.Name, cfg.ConnectTimeout, cfg.Living = name, time.Second, fleet.Living
		if !r.o.usual {
			cfg.AckWait = ackWait // the first to come creates the consumer
		}
		if r.o.broker == clusterBroker {
			cfg.Replicas, cfg.ConnectTimeout = 3, 5*time.Second
		}
		var err error
		if cfg.URL, err = r.brokerURL(); err == nil {
			var q *queue.Queue
			if q, err = queue.Open(ctx, cfg, zerolog.Nop()); err == nil {
				return q, nil
			}
		}
		if waitErr := pause(ctx, 100*time.Millisecond); waitErr != nil {
			return nil, errors.Join(waitErr, err)
		}
	}
}

// connect opens the run's own connection.
func (r *rig) connect(ctx context.Context) error {
	url, err := r.brokerURL()
	if err != nil {
		return err
	}
	r.link, err = nats.Connect(url, nats.Name("chaos rig"), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.IgnoreAuthErrorAbort(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the run cuts connections on purpose
	if err != nil {
		return err
	}
	r.js, err = jetstream.New(r.link, jetstream.WithDefaultTimeout(2*time.Second))
	return err
}

// watch restarts processes that ended by themselves, as a supervisor would, and counts
// the orders in flight, until ctx ends.
func (r *rig) watch(ctx context.Context) {
	for pause(ctx, 250*time.Millisecond) == nil {
		r.reviveAll()
		look, cancel := context.WithTimeout(ctx, time.Second)
		if c, err := r.js.Consumer(look, "ORDERS", "workers"); err == nil {
			r.inFlight.Store(int64(c.CachedInfo().NumAckPending))
		}
		cancel()
	}
}

func (r *rig) reviveAll() {
	r.stores.RLock()
	defer r.stores.RUnlock()
	for _, p := range r.processes() {
		revived, err := p.revive()
		if err != nil {
			r.say("%v", err)
		}
		if revived {
			r.revived.Add(1)
		}
	}
}

func (r *rig) processes() []*process {
	all := append([]*process(nil), r.nodes...)
	for _, w := range r.workers {
		all = append(all, w.process)
	}
	return slices.Concat(all, r.doors.processes(), r.people.processes())
}

// cleanUp stops everything that prepare and the run started.
func (r *rig) cleanUp() {
	if r.link != nil {
		r.link.Close()
	}
	for _, p := range r.processes() {
		p.stop(syscall.SIGKILL, 0)
	}
	for _, w := range r.workers {
		for _, way := range w.ways {
			way.close()
		}
	}
	r.doors.close()
	if r.apiProxy != nil {
		r.apiProxy.close()
	}
	if r.poison != nil {
		_ = r.poison.close()
	}
	if r.api != nil {
		_ = r.api.Close()
	}
	if r.disk != nil {
		_ = r.disk.Unmount() // its files belong to this run
	}
	_ = r.history.close()
	if r.o.keep == "" && r.dir != "" {
		_ = os.RemoveAll(r.dir)
	}
}

// lastWords returns the end of each log, for a failed run.
func (r *rig) lastWords() error {
	var errs []error
	for _, p := range r.processes() {
		errs = append(errs, fmt.Errorf("%s:\n  %s", p.name, p.lastLines(5)))
	}
	return errors.Join(errs...)
}

// pause waits for a time. It returns ctx's error if ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
