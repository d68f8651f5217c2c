package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	commands "orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/orderpost"
	"orderpost/internal/cli/worker"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/contract/producer"
)

var roles = []string{"publisher", "producer", "gateway", "notify", "worker", "operator", "viewer", "admin"}

// secured is a server that was started from deployments/nats/nats.conf, with
// the settings that each role's programs need for it.
type secured struct {
	ca       *certificates
	conf     conf // the server's
	server   *server.Server
	url      string
	settings map[string]map[string]string // by role
}

func startSecured(t *testing.T, change ...func(*conf)) *secured {
	t.Helper()
	ca := newCertificates(t)
	serverCert, serverKey := ca.issue("server")
	s := &secured{ca: ca, settings: make(map[string]map[string]string), conf: conf{file: "../../../deployments/nats/nats.conf",
		vars: map[string]string{"NATS_CERT_FILE": serverCert, "NATS_KEY_FILE": serverKey, "NATS_CA_FILE": ca.file, "NATS_STORE_DIR": t.TempDir()}}}
	for _, role := range roles {
		cert, key := ca.issue(role)
		pair, err := nkeys.CreateUser()
		require.NoError(t, err)
		public, err := pair.PublicKey()
		require.NoError(t, err)
		seed, err := pair.Seed()
		require.NoError(t, err)
		seedFile := filepath.Join(t.TempDir(), role+".nk")
		require.NoError(t, os.WriteFile(seedFile, seed, 0o600))
		s.conf.vars[strings.ToUpper(role)+"_NKEY"] = public
		s.settings[role] = map[string]string{
			"ORDERPOST_NATS_CA_FILE": ca.file, "ORDERPOST_NATS_CERT_FILE": cert, "ORDERPOST_NATS_KEY_FILE": key,
			"ORDERPOST_NATS_NKEY_FILE": seedFile, "ORDERPOST_NATS_INBOX_PREFIX": "_INBOX_" + role,
		}
	}
	for _, c := range change {
		c(&s.conf)
	}
	s.startServer(t)
	return s
}

// startServer starts it with what NATS_STORE_DIR holds.
func (s *secured) startServer(t *testing.T) {
	t.Helper()
	ns, err := server.NewServer(s.conf.options(t))
	require.NoError(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	require.True(t, ns.ReadyForConnections(patience))
	s.url = strings.Replace(ns.ClientURL(), "nats://", "tls://", 1)
	for _, settings := range s.settings {
		settings["ORDERPOST_NATS_URL"] = s.url
	}
	s.server = ns
}

// as adds a role's settings to a program's.
func (s *secured) as(role string, more map[string]string) map[string]string {
	out := make(map[string]string, len(more)+len(s.settings[role]))
	for _, m := range []map[string]string{more, s.settings[role]} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// queue opens the streams as a role's programs do.
func (s *secured) queue(t *testing.T, role string) *queue.Queue {
	t.Helper()
	var cfg queue.Config
	require.NoError(t, cli.ReadEnv(&cfg, s.settings[role]))
	cfg.Name = "test-" + role
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
}

// connect is a bare connection with a role's rights.
func (s *secured) connect(t *testing.T, role string) *nats.Conn {
	t.Helper()
	return connectAs(t, s.settings[role], s.url)
}

// connectAs is a bare connection with the rights that settings give.
func connectAs(t *testing.T, set map[string]string, url string) *nats.Conn {
	t.Helper()
	seed, err := nats.NkeyOptionFromSeed(set["ORDERPOST_NATS_NKEY_FILE"])
	require.NoError(t, err)
	nc, err := nats.Connect(url, seed, nats.Timeout(time.Minute), nats.RootCAs(set["ORDERPOST_NATS_CA_FILE"]),
		nats.ClientCert(set["ORDERPOST_NATS_CERT_FILE"], set["ORDERPOST_NATS_KEY_FILE"]),
		nats.CustomInboxPrefix(set["ORDERPOST_NATS_INBOX_PREFIX"]), nats.Timeout(patience),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the test asks for them itself
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// TestRolesDoTheirJobs: import, work to the end, look, put back; each program
// with its own role's rights alone.
func TestRolesDoTheirJobs(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	settings, url := api(t, "--fault-refuse", "1")
	settings["ORDERPOST_REFUSAL_RUN"] = "0" // refusals are the point here
	w := startWorker(t, s.as("worker", settings))
	file := writeOrders(t, 20)
	// The second time every order is known and looked up; those that the API
	// has refused by then are told, with the exit code for it.
	for i, codes := range [][]int{{cli.ExitDone}, {cli.ExitDone, cli.ExitPartial}} {
		code, _, errOut := importFile(t, s.as("producer", nil), file)
		require.Contains(t, codes, code, "import %d: %s", i+1, errOut)
		require.NotContains(t, errOut, "ermission")
	}
	operator := s.queue(t, "operator")
	drained(t, operator)
	var letters []*settle.Letter
	require.NoError(t, deadletter.EachLetter(t.Context(), operator, func(l *settle.Letter) error {
		letters = append(letters, l)
		return nil
	}))
	require.Len(t, letters, 20, "the API refuses every order")
	requireBalanced(t, operator, 20)

	as := s.as("operator", nil)
	do := func(name string, run cli.RunFunc, args ...string) string {
		t.Helper()
		code, out, errOut := runProgram(t, run, as, args...)
		require.Equal(t, cli.ExitDone, code, "%s %s: %s %s", name, args, out, errOut)
		require.NotContains(t, errOut, "ermission", "%s %s", name, args)
		return out
	}
	require.Contains(t, do("enqueue", enqueue.Run, "order", letters[0].OrderNo), order.OutcomeRejected.String())
	require.Contains(t, do("deadletter", commands.Run, "list"), letters[0].OrderNo)
	do("worker", worker.Run, "hold", "--reason", "exercise")
	do("worker", worker.Run, "limit", "500/s")
	require.Eventually(t, func() bool {
		return strings.Contains(do("worker", worker.Run, "fleet"), "\n  held by ")
	}, patience, pause, "the worker itself says that it is held")
	require.Contains(t, do("worker", worker.Run, "fleet"), "Nothing is sent since ")
	s.waitForNoPull(t)
	held := writeFile(t, "order_no,timeout\nHELD-1,30\nHELD-2,30\n")
	code, _, errOut := runProgram(t, enqueue.Run, s.as("producer", nil), held, "--batch", "wrong", "--direct")
	require.Equal(t, cli.ExitDone, code, errOut)
	for _, role := range []string{"viewer", "operator"} {
		code, out, errOut := runProgram(t, orderpost.Run, s.as(role, nil), "pending", "--batch", "wrong")
		require.Equal(t, cli.ExitDone, code, "%s: %s", role, errOut)
		require.Contains(t, out, "Nothing is sent since ", role)
		require.Contains(t, out, "HELD-1", role)
	}
	code, out, errOut := runProgram(t, enqueue.Run, s.as("producer", nil), "status", "wrong")
	require.Equal(t, cli.ExitPartial, code, errOut)
	require.Contains(t, out, "nothing is sent since ", "a producer may read why")
	require.Contains(t, do("enqueue", enqueue.Run, "cancel", "wrong"), "2")
	do("worker", worker.Run, "limit", "none")
	do("worker", worker.Run, "resume")
	change(t, url, `{"fault-refuse":0}`)
	do("deadletter", commands.Run, "replay", "--all")
	drained(t, operator)
	for _, r := range collect(t, operator) {
		want := order.OutcomeAccepted
		if strings.HasPrefix(r.OrderNo, "HELD-") {
			want = order.OutcomeCancelled
		}
		require.Equal(t, want, r.Outcome(), r.OrderNo)
	}
	counts, err := operator.Census.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, counts.Letters, "an acceptance removes its letter")
	require.Len(t, ledger(t, url), 20)
	workers, err := fleet.New(operator).Workers(t.Context())
	require.NoError(t, err)
	require.Len(t, workers, 1)
	require.Equal(t, cli.ExitDone, w.end())
	require.NotContains(t, w.errOut.String(), "ermissions violation", "the worker tried what its role may not do")
}

// waitUntilHeld waits until there are workers, they know that they are held, and their last
// pull, which takes a second, is over: none has orders in hand from then on.
func waitUntilHeld(t *testing.T, q *queue.Queue, js jetstream.JetStream) {
	t.Helper()
	require.Eventually(t, func() bool {
		workers, err := fleet.New(q).Workers(t.Context())
		return err == nil && len(workers) > 0 && !slices.ContainsFunc(workers, func(w fleet.Presence) bool { return w.Open })
	}, patience, pause)
	const pull = time.Second // how long one lasts; a worker that saw the gate open may only be about to send one
	var since time.Time
	require.Eventually(t, func() bool {
		c, err := js.Consumer(t.Context(), "ORDERS", "workers")
		if since.IsZero() || err != nil || c.CachedInfo().NumWaiting > 0 {
			since = time.Now()
		}
		return time.Since(since) > pull
	}, patience, pause)
}

// waitForNoPull is waitUntilHeld for the shipped roles.
func (s *secured) waitForNoPull(t *testing.T) {
	t.Helper()
	q := s.queue(t, "operator")
	defer q.Close()
	js, err := jetstream.New(s.connect(t, "operator"))
	require.NoError(t, err)
	waitUntilHeld(t, q, js)
}

// build compiles a program of this repository.
func build(t *testing.T, folder string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program.exe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../../"+folder).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// TestProducersAgainstTheShippedServer: the Go example, and a program that speaks NATS as
// docs/producers.md says, publish and learn the outcome with the rights of a role alone.
func TestProducersAgainstTheShippedServer(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	settings, _ := api(t)
	w := startWorker(t, s.as("worker", settings))
	environ := func(role string) map[string]string {
		set := s.settings[role]
		return map[string]string{"NATS_URL": s.url, "NATS_NKEY": set["ORDERPOST_NATS_NKEY_FILE"], "NATS_CA": set["ORDERPOST_NATS_CA_FILE"],
			"NATS_CERT": set["ORDERPOST_NATS_CERT_FILE"], "NATS_KEY": set["ORDERPOST_NATS_KEY_FILE"], "NATS_INBOX_PREFIX": set["ORDERPOST_NATS_INBOX_PREFIX"]}
	}
	bare := func(role string, args ...string) string {
		t.Helper()
		var out strings.Builder
		require.NoError(t, producer.Run(t.Context(), args, func(name string) string { return environ(role)[name] }, &out))
		return out.String()
	}
	require.Equal(t, "stored\n", bare("producer", "publish", "id-1", `{"order_no":"P-1","timeout":30}`))
	require.Contains(t, bare("producer", "await", "P-1", "id-1"), "created: yes")
	require.Eventually(t, func() bool { // until the settled intent is trimmed, it is stored
		return bare("producer", "publish", "id-1", `{"order_no":"P-1","timeout":30}`) == "settled before\n"
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, "stored\n", bare("publisher", "publish", "id-2", `{"order_no":"P-2","timeout":30}`))
	require.Contains(t, bare("producer", "await", "P-2", "id-2"), "created: yes")

	example := build(t, "examples/producers/go")
	for _, status := range []string{"stored", "same"} {
		cmd := exec.CommandContext(t.Context(), example, "id-3", `{"order_no":"P-3","timeout":30}`)
		for name, value := range environ("producer") {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, status+": accepted, created: yes\n", string(out))
	}
	require.Equal(t, 0, w.end())
}

// TestTheGoExampleIsShort: what a Go program needs fits on one screen.
func TestTheGoExampleIsShort(t *testing.T) {
	files, err := filepath.Glob("../../../examples/producers/go/*.go")
	require.NoError(t, err)
	require.Len(t, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Less(t, strings.Count(string(text), "\n"), 40)
}

// TestTheOtherExamplesNameTheDoor: whoever opens one of them learns that HTTP would do.
func TestTheOtherExamplesNameTheDoor(t *testing.T) {
	for _, file := range []string{"cli/orders.sh", "java/PublishOrder.java", "node/main.js", "python/orders.py"} {
		text, err := os.ReadFile("../../../examples/producers/" + file)
		require.NoError(t, err)
		require.Contains(t, string(text), "Or HTTP, without NATS (docs/gateway.md): curl --json '{\"order_no\":\"A-1001\",\"timeout\":30}' http://127.0.0.1:8080/v1/orders", file)
	}
}

// TestRolesDoNothingElse tries every action as every role.
func TestRolesDoNothingElse(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	settings, _ := api(t)
	w := startWorker(t, s.as("worker", settings)) // makes the streams
	require.Equal(t, cli.ExitDone, w.end())
	publish := []struct{ subject, allowed string }{
		{"orders.new.X", "publisher producer gateway worker operator"}, // a worker's come out of the waiting room, or through its HTTP door
		{"orders.waiting.bulk.march", "publisher producer gateway worker"},
		{"orders.waiting.at.20261123.0700.00.bulk.march", "publisher producer gateway worker"},
		{"orders.journal.hold.all.-.X.intention", "worker operator"},
		{"orders.journal.import.batch.b.X.intention", "producer gateway worker operator"},
		{"orders.journal.cancel.order.b.X.intention", "gateway worker operator"},
		{"$JS.API.DIRECT.GET.ORDERS_JOURNAL", "worker operator viewer"},
		{"$JS.API.STREAM.MSG.GET.ORDERS_JOURNAL", ""},
		{"$JS.API.STREAM.INFO.ORDERS_JOURNAL", "producer gateway notify worker operator viewer"},
		{"$JS.API.STREAM.CREATE.ORDERS_JOURNAL", "worker"},
		{"$JS.API.STREAM.UPDATE.ORDERS_JOURNAL", "worker"},
		{"$JS.API.STREAM.MSG.DELETE.ORDERS_JOURNAL", ""},
		{"$JS.API.STREAM.PURGE.ORDERS_JOURNAL", ""},
		{"$JS.API.STREAM.DELETE.ORDERS_JOURNAL", ""},
		{"$JS.API.STREAM.INFO.ORDERS", "producer gateway notify worker operator viewer"},
		{"orders.results.X", "worker operator"},
		{"orders.dead.X", "worker operator"},
		{"$KV.ORDERPOST.presence.X", "worker operator"},
		{"$JS.API.STREAM.MSG.GET.ORDERS", "producer gateway worker operator viewer"},
		{"$JS.API.STREAM.MSG.GET.ORDERS_RESULTS", "producer gateway notify worker operator viewer"},
		{"$JS.API.DIRECT.GET.ORDERS_RESULTS", "producer gateway notify worker operator viewer"},
		{"$JS.API.STREAM.MSG.GET.ORDERS_DEAD", "worker operator viewer"},
		{"$JS.API.DIRECT.GET.ORDERS_DEAD", "worker operator viewer"},
		{"$JS.API.CONSUMER.MSG.NEXT.ORDERS.workers", "worker"},
		{"$JS.ACK.ORDERS.workers.1.1.1.1.1", "worker"},
		{"$JS.API.STREAM.MSG.DELETE.ORDERS", "worker"},
		{"$JS.API.STREAM.MSG.DELETE.ORDERS_DEAD", "worker operator"},
		{"$JS.API.STREAM.MSG.DELETE.ORDERS_RESULTS", ""},
		{"$JS.API.STREAM.MSG.DELETE.ORDERS_WAITING", "worker"},
		{"$JS.API.STREAM.INFO.ORDERS_WAITING", "producer gateway notify worker operator viewer"},
		{"$JS.API.DIRECT.GET.ORDERS_WAITING", "producer gateway worker operator viewer"},
		{"$JS.API.CONSUMER.CREATE.ORDERS_WAITING.mine", ""},
		{"$JS.API.CONSUMER.CREATE.ORDERS_WAITING.mine.orders.waiting.bulk.march", ""},
		{"$JS.API.STREAM.PURGE.ORDERS_WAITING", "worker"},
		{"$JS.API.STREAM.DELETE.ORDERS_WAITING", ""},
		{"$JS.API.STREAM.PURGE.ORDERS_DEAD", "worker operator"},
		{"$JS.API.STREAM.PURGE.ORDERS", "worker"},
		{"$JS.API.STREAM.PURGE.ORDERS_RESULTS", "worker"},
		{"$JS.API.STREAM.CREATE.ORDERS", "worker"},
		{"$JS.API.STREAM.CREATE.ELSE", ""},
		{"$JS.API.STREAM.UPDATE.ORDERS", "worker"},
		{"$JS.API.STREAM.DELETE.ORDERS", ""},
		{"$JS.API.STREAM.DELETE.ORDERS_RESULTS", ""},
		{"$JS.API.STREAM.DELETE.ORDERS_DEAD", ""},
		{"$JS.API.STREAM.DELETE.KV_ORDERPOST", ""},
		{"$JS.API.STREAM.SNAPSHOT.ORDERS", ""},
		{"$JS.API.STREAM.NAMES", ""},
		{"$JS.API.CONSUMER.CREATE.ORDERS.workers", "worker"},
		{"$JS.API.CONSUMER.DELETE.ORDERS.workers", "worker"},
		{"$JS.API.CONSUMER.CREATE.ORDERS.mine", ""},
		{"$JS.API.CONSUMER.CREATE.ORDERS_RESULTS.mine.orders.results.X", ""},
		{"$JS.API.CONSUMER.CREATE.KV_ORDERPOST.mine.$KV.ORDERPOST.fleet.>", "worker"},
		{"$JS.API.CONSUMER.CREATE.KV_ORDERPOST.mine.$KV.ORDERPOST.>", ""},
		{"$JS.API.CONSUMER.CREATE.KV_ORDERPOST.mine", ""},
		{"$JS.API.STREAM.PURGE.KV_ORDERPOST", "worker"},
		{"$KV.ORDERPOST.import.X", "producer gateway worker operator"},
		{"$KV.ORDERPOST.fleet.hold", "worker operator"},
		{"$KV.ORDERPOST.fleet.limit", "worker operator"},
		{"$KV.ORDERPOST.fleet.cancelled", "gateway worker operator"},
		{"$KV.ORDERPOST.waiting.holds", "gateway worker operator"},
		{"$KV.ORDERPOST.waiting.feeder", "worker operator"},
		{"$KV.ORDERPOST.notify.sender", "notify worker operator"},
		{"$KV.ORDERPOST.notify.aside.1", "notify worker operator"},
		{"$KV.ORDERPOST.door.gateway.0", "gateway worker operator"},
		{"$KV.ORDERPOST.door.notify.0", "notify worker operator"},
		{"$KV.ORDERPOST.door.watch.0", "producer worker operator"},
		{"$JS.API.DIRECT.GET.KV_ORDERPOST", "producer gateway notify worker operator viewer"},
		{"$JS.API.DIRECT.GET.KV_ORDERPOST.$KV.ORDERPOST.fleet.cancelled", "gateway worker operator viewer"},
		{"$JS.API.DIRECT.GET.KV_ORDERPOST.$KV.ORDERPOST.notify.sender", "notify worker operator viewer"},
		{"$JS.API.CONSUMER.PAUSE.ORDERS.workers", ""},
		{"_INBOX_worker.X", ""}, // a forged answer
		{"$SYS.REQ.SERVER.PING", ""},
	}
	subscribe := []struct{ subject, allowed string }{
		{">", ""}, {"orders.>", ""}, {"orders.new.*", ""}, {"$JS.>", ""}, {"$KV.>", ""}, {"_INBOX.>", ""},
		{"_INBOX_publisher.>", "publisher"}, {"_INBOX_producer.>", "producer"},
		{"_INBOX_gateway.>", "gateway"}, {"_INBOX_notify.>", "notify"},
		{"_INBOX_worker.>", "worker"}, {"_INBOX_operator.>", "operator"}, {"_INBOX_viewer.>", "viewer"},
	}
	for _, role := range []string{"publisher", "producer", "gateway", "notify", "worker", "operator", "viewer"} { // an admin may do everything
		nc := s.connect(t, role)
		for _, c := range publish {
			require.NoError(t, nc.Publish(c.subject, []byte("{}")))
			requireAllowed(t, nc, role, fmt.Sprintf("Publish to %q", c.subject), strings.Contains(c.allowed, role))
		}
		for _, c := range subscribe {
			_, err := nc.SubscribeSync(c.subject)
			require.NoError(t, err)
			requireAllowed(t, nc, role, fmt.Sprintf("Subscription to %q", c.subject), strings.Contains(c.allowed, role))
		}
		nc.Close()
	}
}

// requireAllowed asks the server whether it took what was sent before: its
// refusal, which names that, comes ahead of its answer to the flush.
func requireAllowed(t *testing.T, nc *nats.Conn, role, what string, allowed bool) {
	t.Helper()
	require.NoError(t, nc.Flush())
	err := nc.LastError()
	refused := errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), what)
	require.Equal(t, allowed, !refused, "%s: %s: %v", role, what, err)
}

// TestStrangersStayOutside: no certificate, no nkey, or a nkey of somebody
// else opens nothing.
func TestStrangersStayOutside(t *testing.T) {
	s := startSecured(t)
	good := s.settings["producer"]
	stranger, err := nkeys.CreateUser()
	require.NoError(t, err)
	seed, err := stranger.Seed()
	require.NoError(t, err)
	strangersFile := filepath.Join(t.TempDir(), "stranger.nk")
	require.NoError(t, os.WriteFile(strangersFile, seed, 0o600))
	for name, change := range map[string]map[string]string{
		"no certificate": {"ORDERPOST_NATS_CERT_FILE": "", "ORDERPOST_NATS_KEY_FILE": ""},
		"no nkey":        {"ORDERPOST_NATS_NKEY_FILE": ""},
		"another's nkey": {"ORDERPOST_NATS_NKEY_FILE": strangersFile},
		"unknown server": {"ORDERPOST_NATS_CA_FILE": newCertificates(t).file},
	} {
		t.Run(name, func(t *testing.T) {
			settings := map[string]string{"ORDERPOST_NATS_CONNECT_TIMEOUT": "300ms"}
			for _, m := range []map[string]string{good, change} {
				for k, v := range m {
					settings[k] = v
				}
			}
			code, _, errOut := importFile(t, settings, writeFile(t, "order_no,timeout\nA-1,30\n"))
			require.NotEqual(t, cli.ExitDone, code)
			require.Contains(t, errOut, strings.TrimPrefix(s.url, "tls://"), "the address is named")
		})
	}
}

// TestBrokenSecurityFilesAreNamed: by their variables, all at once, before
// the broker is asked.
func TestBrokenSecurityFilesAreNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	settings, _ := api(t)
	settings["ORDERPOST_NATS_URL"] = "tls://" + closedPort
	for name, value := range map[string]string{
		"ORDERPOST_NATS_CREDS": missing, "ORDERPOST_NATS_NKEY_FILE": missing, "ORDERPOST_NATS_CA_FILE": missing,
		"ORDERPOST_NATS_CERT_FILE": missing, "ORDERPOST_NATS_INBOX_PREFIX": "a.>",
	} {
		settings[name] = value
	}
	p := start(t, "worker", worker.Run, settings)
	require.Equal(t, cli.ExitUsage, p.wait())
	for _, want := range []string{
		"ORDERPOST_NATS_CREDS: ", "ORDERPOST_NATS_NKEY_FILE: give either", "ORDERPOST_NATS_NKEY_FILE: nats: ",
		"ORDERPOST_NATS_CA_FILE: ", "ORDERPOST_NATS_KEY_FILE: is required", "ORDERPOST_NATS_INBOX_PREFIX: ",
	} {
		require.Contains(t, p.errOut.String(), want)
	}
	var cfg queue.Config
	require.NoError(t, cli.ReadEnv(&cfg, map[string]string{"ORDERPOST_NATS_KEY_FILE": missing}))
	require.ErrorContains(t, cfg.Validate(), "ORDERPOST_NATS_CERT_FILE: is required")
	require.NoError(t, os.WriteFile(missing, []byte("no credentials"), 0o600))
	require.NoError(t, cli.ReadEnv(&cfg, map[string]string{"ORDERPOST_NATS_CREDS": missing}))
	require.ErrorContains(t, cfg.Validate(), "ORDERPOST_NATS_CREDS: ")
}

// TestWhoMayNotWriteAccusesNoDisk: a producer who waits while no worker runs may not write
// to the bucket, which says nothing about the broker's disk.
func TestWhoMayNotWriteAccusesNoDisk(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	settings, _ := api(t)
	require.Zero(t, startWorker(t, s.as("worker", settings)).end()) // it makes the bucket
	q := s.queue(t, "producer")
	require.NoError(t, q.Bucket().Stores(t.Context()))
	require.NoError(t, q.Bucket().Stores(t.Context()))
	require.NoError(t, s.queue(t, "operator").Bucket().Stores(t.Context()))
	began := time.Now()
	require.Error(t, s.queue(t, "viewer").Bucket().Offer(t.Context(), "audit.v1", 1))
	require.Less(t, time.Since(began), 2*time.Second, "a viewer's audit does not wait")
	require.NoError(t, s.queue(t, "operator").Bucket().Offer(t.Context(), "audit.v1", 1))
}
