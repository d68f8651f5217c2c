package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/order"
)

// attackers are the roles outside of the streams' account. A worker is inside
// and trusted with the streams, as docs/security.md says.
var attackers = []string{"publisher", "producer", "gateway", "notify", "operator", "viewer"}

var shippedStreams = []string{"ORDERS", "ORDERS_RESULTS", "ORDERS_DEAD", "ORDERS_WAITING", "ORDERS_JOURNAL", "KV_ORDERPOST"}

// baits are bodies of orders that say something else where an answer carries
// them on: an empty request, a purge, a result, a hold.
var baits = map[string]string{
	"EMPTY": "", "BRACES": "{}", "PURGE": `{"filter":">"}`, "DELETE": `{"seq":1}`, "PAUSE": `{"pause_until":"2099-01-01T00:00:00Z"}`,
	"RESULT": `{"order_no":"FORGED","outcome":"accepted","verdict":"accepted","status":200,"attempts":1,"unsure":false,"intent_id":"i","write_id":"w","settled":1}`,
	"HOLD":   `{"by":"mallory","reason":"because","since":"2026-01-01T00:00:00Z"}`,
}

// besieged is the shipped server with a settled order, a letter, a held fleet,
// the baits as pending orders, and what all streams hold.
type besieged struct {
	*secured
	admin  jetstream.JetStream
	before map[string]string
}

func besiege(t *testing.T) *besieged {
	t.Helper()
	s := startSecured(t)
	settings, url := api(t)
	settings["ORDERPOST_REFUSAL_RUN"] = "0"
	w := startWorker(t, s.as("worker", settings))
	code, _, errOut := importFile(t, s.as("producer", nil), writeFile(t, "order_no,timeout\nSETTLED,60\n"), "--wait")
	require.Equal(t, cli.ExitDone, code, errOut)
	change(t, url, `{"fault-refuse":1}`)
	code, _, errOut = importFile(t, s.as("producer", nil), writeFile(t, "order_no,timeout\nREFUSED,60\n"), "--wait")
	require.Equal(t, cli.ExitPartial, code, errOut)
	require.Equal(t, cli.ExitDone, w.end())

	js, err := jetstream.New(s.connect(t, "admin"))
	require.NoError(t, err)
	b := &besieged{secured: s, admin: js}
	for no, body := range baits {
		_, err := js.Publish(t.Context(), "orders.new.BAIT-"+no, []byte(body))
		require.NoError(t, err)
	}
	// Nobody feeds it, because no worker runs. An empty stream would tell nobody's reads apart.
	_, err = js.Publish(t.Context(), "orders.waiting.bulk.WAITS", []byte(`{"order_no":"WAITS","timeout":60}`))
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "$KV.ORDERPOST.fleet.hold", []byte(`{"by":"anna","reason":"stocktaking","since":"2026-01-01T00:00:00Z"}`))
	require.NoError(t, err)
	b.before = b.holdings(t)
	require.Greater(t, len(b.before), 12)
	return b
}

// holdings is everything that the streams hold: configurations, messages and
// the pool's consumer. It is read behind whatever was sent before: the server
// works requests off in their order, and each stream its messages.
func (b *besieged) holdings(t *testing.T) map[string]string {
	t.Helper()
	for range 8 { // as many as the server works on at a time
		_, err := b.admin.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BARRIER", Subjects: []string{"barrier"}})
		require.NoError(t, err)
		require.NoError(t, b.admin.DeleteStream(t.Context(), "BARRIER"))
	}
	out := make(map[string]string)
	names := b.admin.StreamNames(t.Context())
	for name := range names.Name() {
		out["stream "+name] = "is there"
	}
	require.NoError(t, names.Err())
	for _, name := range shippedStreams {
		stream, err := b.admin.Stream(t.Context(), name)
		require.NoError(t, err, "the stream was deleted")
		_, err = b.admin.Publish(t.Context(), strings.NewReplacer("*", "BARRIER", ">", "BARRIER").Replace(stream.CachedInfo().Config.Subjects[0]), nil, jetstream.WithExpectStream("NONE"))
		require.ErrorContains(t, err, "expected stream does not match")
		info, err := stream.Info(t.Context())
		require.NoError(t, err)
		out["configuration of "+name] = fmt.Sprintf("%+v, made %s", info.Config, info.Created)
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
			if msg, err := stream.GetMsg(t.Context(), seq); err == nil {
				out[msg.Subject] = fmt.Sprintf("%d: %s %s", seq, msg.Header, msg.Data)
			}
		}
	}
	c, err := b.admin.Consumer(t.Context(), "ORDERS", "workers")
	require.NoError(t, err, "the consumer was deleted")
	info := c.CachedInfo()
	out["consumer"] = fmt.Sprintf("%+v, paused %t, at %d, %d unacknowledged", info.Config, info.Paused, info.Delivered.Stream, info.NumAckPending)
	return out
}

// requireUnharmed compares with what was there; may is what the role may write
// itself, by the beginning of its subject.
func (b *besieged) requireUnharmed(t *testing.T, role string, may ...string) {
	t.Helper()
	after := b.holdings(t)
	for _, m := range []map[string]string{b.before, after} {
		for what := range m {
			if !slices.ContainsFunc(may, func(prefix string) bool { return strings.HasPrefix(what, prefix) }) {
				require.Equal(t, b.before[what], after[what], "%s was changed by the %s", what, role)
			}
		}
	}
	b.before = after
}

// writes are the subjects of streams that a role may write to.
var writes = map[string][]string{
	"publisher": {"orders.new.", "orders.waiting."},
	"producer":  {"orders.new.", "orders.waiting.", "orders.journal.import.", "$KV.ORDERPOST.import.", "$KV.ORDERPOST.door.watch."},
	"gateway":   {"orders.new.", "orders.waiting.", "orders.journal.cancel.", "orders.journal.import.", "$KV.ORDERPOST.import.", "$KV.ORDERPOST.waiting.holds", "$KV.ORDERPOST.fleet.cancelled", "$KV.ORDERPOST.door.gateway."},
	"notify":    {"$KV.ORDERPOST.notify.", "$KV.ORDERPOST.door.notify."},
	"operator":  {"orders.new.", "orders.results.", "orders.dead.", "orders.journal.", "$KV.ORDERPOST."},
}

func mayWrite(role, subject string) bool {
	return slices.ContainsFunc(writes[role], func(prefix string) bool { return strings.HasPrefix(subject, prefix) })
}

// target is a subject that the role may write to: one key, or one of those that begin so.
func target(prefix, name string) string {
	if strings.HasSuffix(prefix, ".") {
		return prefix + name
	}
	return prefix
}

// requests are what a role may ask, for answers that say something elsewhere.
func requests(role string) (out []*nats.Msg) {
	for _, prefix := range writes[role] {
		out = append(out, &nats.Msg{Subject: target(prefix, "ATTACK"), Data: []byte("{}")})
	}
	ask := func(subject, body string) { out = append(out, &nats.Msg{Subject: subject, Data: []byte(body)}) }
	for bait := range baits { // for a publisher these are refused
		for _, get := range []string{"$JS.API.DIRECT.GET.ORDERS", "$JS.API.STREAM.MSG.GET.ORDERS"} {
			ask(get, `{"last_by_subj":"orders.new.BAIT-`+bait+`"}`)
		}
	}
	for _, stream := range shippedStreams {
		ask("$JS.API.STREAM.INFO."+stream, "")
		ask("$JS.API.DIRECT.GET."+stream, `{"seq":1}`)
		ask("$JS.API.DIRECT.GET."+stream, `{"seq":1,"batch":100}`)
		ask("$JS.API.DIRECT.GET."+stream, `{"multi_last":["no.such"]}`)
	}
	ask("$JS.API.DIRECT.GET.KV_ORDERPOST.$KV.ORDERPOST.import.ATTACK", "")
	ask("$JS.API.DIRECT.GET.KV_ORDERPOST.$KV.ORDERPOST.fleet.cancelled", "")
	ask("$JS.API.DIRECT.GET.KV_ORDERPOST.$KV.ORDERPOST.notify.ATTACK", "")
	ask("$JS.API.CONSUMER.INFO.ORDERS.workers", "")
	ask("$JS.API.INFO", "")
	return out
}

// aims are reply subjects at which an answer would do harm.
func aims() (out []string) {
	out = []string{"$KV.ORDERPOST.fleet.hold", "$KV.ORDERPOST.fleet.limit", "$KV.ORDERPOST.api", "$KV.ORDERPOST.presence.mallory",
		"orders.results.SETTLED", "orders.results.FORGED", "orders.dead.FORGED", "orders.dead.REFUSED", "orders.waiting.bulk.WAITS", "orders.journal.hold.all.-.x.intention",
		"$JS.API.CONSUMER.DELETE.ORDERS.workers", "$JS.API.CONSUMER.PAUSE.ORDERS.workers", "$JS.API.CONSUMER.MSG.NEXT.ORDERS.workers",
		"$JS.API.CONSUMER.CREATE.ORDERS.workers", "$JS.API.STREAM.CREATE.MALLORY", "$JS.ACK.ORDERS.workers.1.1.1.1.1", "_INBOX_worker.X"}
	for _, stream := range shippedStreams {
		for _, verb := range []string{"DELETE", "PURGE", "MSG.DELETE", "UPDATE", "SNAPSHOT", "LEADER.STEPDOWN"} {
			out = append(out, "$JS.API.STREAM."+verb+"."+stream)
		}
	}
	return out
}

// TestRepliesReachNoStream: JetStream answers to the reply subject that a
// request names, and the server does not check it. No role reaches by it what
// its permissions deny.
func TestRepliesReachNoStream(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	spied, err := b.connect(t, "worker").SubscribeSync("_INBOX_worker.>")
	require.NoError(t, err)
	for _, role := range attackers {
		nc := b.connect(t, role)
		for _, aim := range aims() {
			for _, request := range requests(role) {
				require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: request.Subject, Reply: aim, Data: request.Data}))
			}
		}
		require.NoError(t, nc.Flush())
		nc.Close()
		b.requireUnharmed(t, role, writes[role]...)
	}
	_, err = spied.NextMsg(10 * time.Millisecond)
	require.ErrorIs(t, err, nats.ErrTimeout, "an answer reached the workers' inboxes")
}

// harmful are headers that JetStream acts on.
var harmful = map[string]nats.Header{
	"roll-up of all":      {"Nats-Rollup": {"all"}},
	"roll-up of one":      {"Nats-Rollup": {"sub"}},
	"schedule":            {"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {"orders.results.SETTLED"}},
	"schedule at once":    {"Nats-Schedule": {"@at 2020-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"$KV.ORDERPOST.fleet.hold"}},
	"counter":             {"Nats-Incr": {"+1"}},
	"trace":               {"Nats-Trace-Dest": {"orders.results.SETTLED"}},
	"trace of a hold":     {"Nats-Trace-Dest": {"$KV.ORDERPOST.fleet.hold"}, "Nats-Trace-Only": {"true"}},
	"somebody else":       {"Nats-Request-Info": {`{"acc":"ORDERPOST","svc":"ORDERPOST"}`}},
	"another's sequence":  {"Nats-Expected-Last-Sequence": {"0"}},
	"marker":              {"Nats-Marker-Reason": {"MaxAge"}, "KV-Operation": {"PURGE"}},
	"batch without end":   {"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}},
	"expires in a second": {"Nats-TTL": {"1s"}},
}

// TestHeadersReachNoOtherMessage: whatever JetStream reads in a header, no role
// reaches by it more than the subject that it publishes to.
func TestHeadersReachNoOtherMessage(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	for _, role := range attackers {
		nc := b.connect(t, role)
		var own []string
		for _, prefix := range writes[role] {
			own = append(own, target(prefix, "ATTACK"))
			for name, header := range harmful {
				if mayWrite(role, header.Get("Nats-Trace-Dest")) {
					continue // it could publish there as well
				}
				subject := target(prefix, "ATTACK-"+strings.ReplaceAll(name, " ", "-"))
				require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: subject, Header: header, Data: []byte("{}")}))
			}
		}
		require.NoError(t, nc.Flush())
		nc.Close()
		b.requireUnharmed(t, role, own...)
	}
}

// TestRolesReadNothingElse: what a role may not read it does not get, by any
// way of reading.
func TestRolesReadNothingElse(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	mayRead := map[string]string{ // the streams, by role
		"publisher": "", "producer": "ORDERS ORDERS_RESULTS ORDERS_WAITING KV_ORDERPOST",
		"gateway": "ORDERS ORDERS_RESULTS ORDERS_WAITING KV_ORDERPOST", "notify": "ORDERS_RESULTS KV_ORDERPOST", "operator": "ORDERS ORDERS_RESULTS ORDERS_DEAD ORDERS_WAITING ORDERS_JOURNAL KV_ORDERPOST",
		"viewer": "ORDERS ORDERS_RESULTS ORDERS_DEAD ORDERS_WAITING ORDERS_JOURNAL KV_ORDERPOST"}
	for _, role := range attackers {
		nc := b.connect(t, role)
		for _, stream := range shippedStreams {
			allowed := slices.Contains(strings.Fields(mayRead[role]), stream)
			reads := func() (got bool) {
				for _, get := range []string{"$JS.API.DIRECT.GET.", "$JS.API.STREAM.MSG.GET."} {
					answer, err := nc.Request(get+stream, []byte(`{"next_by_subj":">","seq":1}`), 100*time.Millisecond)
					got = got || err == nil && len(answer.Data) > 0 && !strings.Contains(string(answer.Data), `"error"`)
				}
				return got
			}
			if allowed {
				require.Eventually(t, reads, patience, pause, "%s cannot read %s", role, stream)
			} else {
				require.False(t, reads(), "%s reads %s", role, stream)
			}
		}
		nc.Close()
	}
}

// TestForgedAcceptancesAreNone: even the worker's own account holds a result
// only for what a worker wrote there. A forger who is inside sends himself an
// answer; the order stays without an acceptance.
func TestForgedAcceptancesAreNone(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	nc := b.connect(t, "worker")
	require.NoError(t, nc.PublishRequest("$JS.API.DIRECT.GET.ORDERS_RESULTS", "orders.results.FORGED", []byte(`{"last_by_subj":"orders.results.SETTLED"}`)))
	require.NoError(t, nc.Flush())
	q := b.queue(t, "producer")
	require.Eventually(t, func() bool {
		words, err := q.Ledger.LastWords(t.Context(), []string{"FORGED"})
		return err == nil && words[0].Unreadable != nil
	}, patience, pause)
	settled, err := q.Ledger.Lookup(t.Context(), "SETTLED")
	require.NoError(t, err)
	require.Equal(t, order.OutcomeAccepted, settled.Record.Outcome())
}

// TestOrdersOfOtherAccountsAreStoredAsSent: the server adds a header of its own
// on the way from account to account; it must not end up with the order.
func TestOrdersOfOtherAccountsAreStoredAsSent(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	nc := b.connect(t, "publisher")
	answer, err := nc.RequestMsg(&nats.Msg{Subject: "orders.new.X", Header: nats.Header{"Nats-Msg-Id": {"id-1"}}, Data: []byte(`{"order_no":"X","timeout":1}`)}, patience)
	require.NoError(t, err)
	require.Contains(t, string(answer.Data), `"stream":"ORDERS"`)
	stream, err := b.admin.Stream(t.Context(), "ORDERS")
	require.NoError(t, err)
	stored, err := stream.GetLastMsgForSubject(t.Context(), "orders.new.X")
	require.NoError(t, err)
	require.Equal(t, "id-1", stored.Header.Get("Nats-Msg-Id"))
	require.NotContains(t, stored.Header, "Nats-Request-Info")
}
