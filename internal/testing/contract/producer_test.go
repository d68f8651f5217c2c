package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/contract/producer"
)

// startServer runs a broker of somebody's own, as operators do.
func startServer(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.Port, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(opts)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(20*time.Second))
	return s
}

// guardedServer has the users and permissions of deployments/nats/producers.conf.
func guardedServer(t *testing.T) (login func(user string) string) {
	t.Helper()
	const password = "only-here"
	t.Setenv("ORDERPOST_PASSWORD", password)
	t.Setenv("PRODUCER_PASSWORD", password)
	opts, err := server.ProcessConfigFile(root + "deployments/nats/producers.conf")
	require.NoError(t, err)
	opts.JetStream, opts.StoreDir = true, t.TempDir()
	s := startServer(t, opts)
	return func(user string) string {
		u, err := url.Parse(s.ClientURL())
		require.NoError(t, err)
		u.User = url.UserPassword(user, password)
		return u.String()
	}
}

// example does what docs/producers.md says; it returns what it printed and whether it
// ended well.
func example(t *testing.T, brokerURL string, args ...string) (out string, ok bool) {
	t.Helper()
	var stdout bytes.Buffer
	err := producer.Run(t.Context(), args, func(name string) string { return map[string]string{"NATS_URL": brokerURL}[name] }, &stdout)
	t.Logf("%q: %s%v", args, &stdout, err)
	return strings.TrimSpace(stdout.String()), err == nil
}

// TestAProducer runs the program with a producer's permissions, through every
// answer that a broker with one replica gives.
func TestAProducer(t *testing.T) {
	login := guardedServer(t)
	cfg := queue.DefaultConfig()
	cfg.URL = login("orderpost")
	q := openQueue(t, cfg)
	says := func(want string, args ...string) {
		t.Helper()
		out, ok := example(t, login("producer"), args...)
		require.True(t, ok)
		if args[0] == "publish" {
			require.Equal(t, want, out)
		}
		require.Contains(t, out, want)
	}
	const body, other = `{"order_no":"A.1","timeout":30}`, `{"order_no":"B","timeout":30}`

	says("stored", "publish", "id-1", body)
	says("stored before", "publish", "id-1", body)
	says("already pending", "publish", "id-2", body)
	says("id taken", "publish", "id-1", other)
	says("no result", "result", "A.1")

	ends(order.Report{End: order.EndSubmissionBudget, Verdict: order.Retry, Status: 429, Delay: time.Millisecond}, order.Facts{})(t, q, pull(t, q))
	says(`settled: false, created: nobody knows, {"order_no":"A.1","outcome":"retrying","intent_id":"id-1"`, "result", "A.1")

	ends(order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200}, order.Facts{})(t, q, pull(t, q))
	gone(t, q, "A.1")
	says(`settled: true, created: yes`, "await", "A.1", "id-1")
	says("settled before", "publish", "id-1", body)
	says("id taken", "publish", "id-1", other)

	says("stored", "publish", "id-3", other)
	ends(order.Report{End: order.EndAnswer, Verdict: order.Rejected, Status: 422}, order.Facts{})(t, q, pull(t, q))
	says(`settled: true, created: no`, "await", "B", "id-3")

	_, ok := example(t, login("producer"), "publish", "id-4", `{"order_no":"","timeout":30}`)
	require.False(t, ok, "an order_no without a subject")
	require.Equal(t, uint64(2), count(t, q).LastIntent, "intents that were stored")
}

func count(t *testing.T, q *queue.Queue) queue.Counts {
	t.Helper()
	c, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	return c
}

// TestAProducerWaitsForItsOwnOutcome: the outcome of an earlier submission of
// the order_no is not the one that is waited for.
func TestAProducerWaitsForItsOwnOutcome(t *testing.T) {
	login := guardedServer(t)
	cfg := queue.DefaultConfig()
	cfg.URL = login("orderpost")
	q := openQueue(t, cfg)
	submit := func(id string) *settle.Delivery {
		gone(t, q, "A")
		out, ok := example(t, login("producer"), "publish", id, `{"order_no":"A","timeout":30}`)
		require.True(t, ok)
		require.Equal(t, "stored", out)
		return pull(t, q)
	}
	ends(order.Report{End: order.EndAnswer, Verdict: order.Rejected, Status: 422}, order.Facts{})(t, q, submit("first"))
	second := submit("second")
	answer := make(chan string, 1)
	go func() {
		out, _ := example(t, login("producer"), "await", "A", "second")
		answer <- out
	}()
	ends(order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200}, order.Facts{})(t, q, second)
	require.Contains(t, <-answer, `"outcome":"accepted","intent_id":"second"`)
}

// TestAProducerIsToldOfAConflict: another body for an accepted order_no is not
// sent, its producer is told so, and the first one finds its own result.
func TestAProducerIsToldOfAConflict(t *testing.T) {
	login := guardedServer(t)
	cfg := queue.DefaultConfig()
	cfg.URL = login("orderpost")
	q := openQueue(t, cfg)
	says := func(want string, args ...string) {
		t.Helper()
		out, ok := example(t, login("producer"), args...)
		require.True(t, ok)
		require.Contains(t, out, want)
	}
	says("stored", "publish", "g-1", `{"order_no":"G","timeout":30,"amount":"1"}`)
	ends(order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200}, order.Facts{})(t, q, pull(t, q))
	gone(t, q, "G")
	says("stored", "publish", "g-2", `{"order_no":"G","timeout":30,"amount":"2"}`)
	d := pull(t, q)
	_, err := q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	d.Release()
	gone(t, q, "G")

	says(`settled: true, created: no, {"order_no":"G","outcome":"rejected","intent_id":"g-2"`, "await", "G", "g-2")
	says(`accepted with another body`, "await", "G", "g-2")
	says(`settled: true, created: yes, {"order_no":"G","outcome":"accepted","intent_id":"g-1"`, "await", "G", "g-1")
	says("settled before", "publish", "g-2", `{"order_no":"G","timeout":30,"amount":"2"}`)
}

// TestProducersMayNotWriteOutcomes, as deployments/nats/producers.conf sets its user up.
func TestProducersMayNotWriteOutcomes(t *testing.T) {
	login := guardedServer(t)
	cfg := queue.DefaultConfig()
	cfg.URL = login("orderpost")
	openQueue(t, cfg)
	trusted, err := nats.Connect(login("orderpost"), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(trusted.Close)
	for stream, subject := range map[string]string{"ORDERS_RESULTS": "orders.results.A", "ORDERS_DEAD": "orders.dead.A"} {
		refused := make(chan error, 1)
		nc, err := nats.Connect(login("producer"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }), nats.Timeout(time.Minute))
		require.NoError(t, err)
		require.NoError(t, nc.Publish(subject, []byte("{}")))
		require.ErrorIs(t, <-refused, nats.ErrPermissionViolation)
		nc.Close()
		require.Nil(t, lastMsg(t, trusted, stream, subject))
	}
}

// TestProducersReachNothingByReplies: an answer that a producer has sent
// elsewhere, and a header that JetStream acts on, change no stream.
func TestProducersReachNothingByReplies(t *testing.T) {
	login := guardedServer(t)
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Worker, cfg.Living = login("orderpost"), true, fleet.Living
	q := openQueue(t, cfg)
	trusted, err := nats.Connect(login("orderpost"), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(trusted.Close)
	nc, err := nats.Connect(login("producer"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	request(t, nc, &nats.Msg{Subject: "orders.new.BAIT", Data: []byte("{}")})
	for _, aim := range []string{"orders.results.A", "orders.dead.A", "$KV.ORDERPOST.fleet.hold", "$JS.API.STREAM.DELETE.ORDERS", "$JS.API.STREAM.PURGE.ORDERS",
		"$JS.API.STREAM.PURGE.ORDERS_RESULTS", "$JS.API.CONSUMER.DELETE.ORDERS.workers", "$JS.API.CONSUMER.PAUSE.ORDERS.workers"} {
		for subject, body := range map[string]string{"orders.new.A": "{}", "$JS.API.STREAM.MSG.GET.ORDERS": `{"seq":1}`, "$JS.API.STREAM.MSG.GET.ORDERS_RESULTS": `{"seq":1}`,
			"$JS.API.DIRECT.GET.ORDERS_RESULTS": `{"seq":1}`, "$JS.API.DIRECT.GET.ORDERS": `{"seq":1}`, "$JS.API.INFO": ""} {
			require.NoError(t, nc.PublishRequest(subject, aim, []byte(body)))
		}
	}
	require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: "orders.new.B", Header: nats.Header{"Nats-Rollup": {"all"}}, Data: []byte("{}")}))
	request(t, nc, &nats.Msg{Subject: "orders.new.LAST", Data: []byte("{}")})
	for stream, subject := range map[string]string{"ORDERS_RESULTS": "orders.results.A", "ORDERS_DEAD": "orders.dead.A", "KV_ORDERPOST": "$KV.ORDERPOST.fleet.hold"} {
		require.Nil(t, lastMsg(t, trusted, stream, subject))
	}
	require.Equal(t, uint64(3), count(t, q).Pending, "BAIT, A and LAST")
	require.Len(t, []*settle.Delivery{pull(t, q), pull(t, q), pull(t, q)}, 3, "the consumer works")
}

// TestFollowingResults as the document says: page by page, each result once.
func TestFollowingResults(t *testing.T) {
	login := guardedServer(t)
	cfg := queue.DefaultConfig()
	cfg.URL = login("orderpost")
	q := openQueue(t, cfg)
	nc, err := nats.Connect(login("producer"), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	var query struct{ Seq, Batch uint64 }
	for _, b := range blocks(t, "json") {
		if b.name == "follow" {
			require.NoError(t, json.Unmarshal([]byte(b.text), &query))
		}
	}
	require.EqualValues(t, 256, query.Batch)
	query.Batch = 2
	inbox, err := nc.SubscribeSync(nc.NewInbox())
	require.NoError(t, err)
	follow := func() (subjects []string) {
		t.Helper()
		ask := fmt.Sprintf(`{"seq":%d,"batch":%d}`, query.Seq, query.Batch)
		require.NoError(t, nc.PublishRequest("$JS.API.DIRECT.GET.ORDERS_RESULTS", inbox.Subject, []byte(ask)))
		for {
			msg, err := inbox.NextMsg(requestPatience)
			require.NoError(t, err)
			if status := msg.Header.Get("Status"); len(msg.Data) == 0 && status != "" {
				require.Contains(t, []string{"204", "404"}, status)
				return subjects
			}
			places := msg.Header["Nats-Sequence"]
			seq, err := strconv.ParseUint(places[len(places)-1], 10, 64)
			require.NoError(t, err)
			query.Seq = seq + 1
			subjects = append(subjects, msg.Header.Get("Nats-Subject"))
		}
	}
	require.Empty(t, follow())
	for _, no := range []string{"A", "B", "C"} {
		request(t, nc, &nats.Msg{Subject: "orders.new." + no, Data: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no)})
		ends(order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200}, order.Facts{})(t, q, pull(t, q))
	}
	require.Equal(t, []string{"orders.results.A", "orders.results.B"}, follow())
	require.Equal(t, []string{"orders.results.C"}, follow())
	require.Empty(t, follow())
}

// TestAProducerOnAnswersOfACluster plays what a broker with one replica never
// says: no answer at first, then a place that counts as taken although nothing
// is pending, then stored; and a stream that is full.
func TestAProducerOnAnswersOfACluster(t *testing.T) {
	s := startServer(t, &server.Options{})
	nc, err := nats.Connect(s.ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	text := make(map[string]string)
	for _, b := range blocks(t, "json") {
		text[b.name] = b.text
	}
	ids := make(chan string, 16)
	answers := make(chan string, 16)
	_, err = nc.Subscribe("orders.new.*", func(m *nats.Msg) {
		ids <- m.Header.Get("Nats-Msg-Id")
		reply := nats.NewMsg(m.Reply)
		if answer := <-answers; answer != "" {
			reply.Data = []byte(answer)
		} else {
			reply.Header.Set("Status", "503") // as a server says that nobody took it
		}
		_ = m.RespondMsg(reply) // the example waits for it
	})
	require.NoError(t, err)
	_, err = nc.Subscribe("$JS.API.STREAM.MSG.GET.ORDERS", func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"error":{"code":404,"err_code":10037,"description":"no message found"}}`))
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())

	for _, answer := range []string{"", text["pending"], text["stored"]} {
		answers <- answer
	}
	out, ok := example(t, s.ClientURL(), "publish", "the-id", `{"order_no":"A","timeout":30}`)
	require.True(t, ok)
	require.Equal(t, "stored", out)
	for range 3 {
		require.Equal(t, "the-id", <-ids, "each try carries the same id")
	}
	require.Empty(t, ids)

	answers <- text["full"]
	out, ok = example(t, s.ClientURL(), "publish", "the-id", `{"order_no":"A","timeout":30}`)
	require.True(t, ok)
	require.Equal(t, "full", out)
}
