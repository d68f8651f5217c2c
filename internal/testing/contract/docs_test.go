package contract

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const producersDoc = "docs/producers.md"

// block is a fenced piece of docs/producers.md, with what the comment before
// it says it is.
type block struct{ kind, name, text string }

var fenced = regexp.MustCompile("(?m)^(?:<!-- (\\w+): ([\\w-]+) -->\n)?```(\\w+)\n((?s:.*?))^```$")

func blocks(t *testing.T, language string) []block {
	t.Helper()
	var out []block
	for _, m := range fenced.FindAllStringSubmatch(read(t, producersDoc), -1) {
		if m[3] == language {
			out = append(out, block{m[1], m[2], m[4]})
		}
	}
	require.NotEmpty(t, out)
	return out
}

// TestJSONOfTheDocument: every block of JSON says what it is, and is that.
func TestJSONOfTheDocument(t *testing.T) {
	seen := make(map[string]int)
	for _, b := range blocks(t, "json") {
		seen[b.kind+" "+b.name]++
		switch b.kind {
		case "schema":
			require.NoError(t, schema(t, b.name).Validate(loaded(t, b.text)), b.text)
		case "answer", "query": // TestAnswersOfTheDocument
		default:
			t.Errorf("say in a comment what this is: %s", b.text)
		}
		if b.kind == "schema" && b.name == "intent" {
			_, err := order.Parse([]byte(b.text))
			require.NoError(t, err)
		}
	}
	require.Equal(t, map[string]int{"schema intent": 1, "schema result": 2, "schema dead-letter": 1, "answer stored": 1, "answer duplicate": 1,
		"answer pending": 1, "answer full": 1, "query subject": 1,
		"query sequence": 1, "query follow": 1}, seen)
}

// TestAnswersOfTheDocument: a broker answers so, byte for byte but for spaces.
func TestAnswersOfTheDocument(t *testing.T) {
	q, nc := startBroker(t, func(cfg *queue.Config) { cfg.MaxIntents = 1 })
	text := make(map[string]string)
	for _, b := range blocks(t, "json") {
		text[b.kind+" "+b.name] = b.text
	}
	publish := func(subject, id string) string {
		return request(t, nc, &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Msg-Id": {id}}, Data: []byte(`{"order_no":"A-1001","timeout":30}`)})
	}
	require.JSONEq(t, text["answer stored"], publish("orders.new.A-1001", "1"))
	require.JSONEq(t, text["answer duplicate"], publish("orders.new.A-1001", "1"))
	require.JSONEq(t, text["answer duplicate"], publish("orders.new.B", "1"), "an id of another order swallows this one, as the document says")
	require.JSONEq(t, text["answer pending"], publish("orders.new.A-1001", "2"))
	require.JSONEq(t, text["answer full"], publish("orders.new.B", "2"))
	_, err := nc.RequestMsg(&nats.Msg{Subject: "orders.new.a.b"}, requestPatience)
	require.ErrorIs(t, err, nats.ErrNoResponders, "a dot that is not encoded")

	look := func(stream, query string) (found bool, answer string) {
		answer = request(t, nc, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: []byte(query)})
		var a struct {
			Message *struct{ Data []byte }
			Error   *struct {
				Code int `json:"err_code"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(answer), &a))
		if a.Error != nil {
			require.Equal(t, 10037, a.Error.Code)
		}
		return a.Message != nil, answer
	}
	found, answer := look("ORDERS", text["query sequence"])
	require.True(t, found, answer)
	found, answer = look("ORDERS_RESULTS", text["query subject"])
	require.False(t, found, answer)
	ends(order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200}, order.Facts{})(t, q, pull(t, q))
	found, answer = look("ORDERS_RESULTS", text["query subject"])
	require.True(t, found, answer)
}

// TestSubscriptionSeesRefusedWrites is why the document warns of one.
func TestSubscriptionSeesRefusedWrites(t *testing.T) {
	_, nc := startBroker(t, func(*queue.Config) {})
	sub, err := nc.SubscribeSync("orders.results.>")
	require.NoError(t, err)
	answer := request(t, nc, &nats.Msg{Subject: "orders.results.A", Data: []byte("{}"),
		Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {"7"}}})
	require.Contains(t, answer, "10071")
	_, err = sub.NextMsg(requestPatience)
	require.NoError(t, err)
	require.Nil(t, lastMsg(t, nc, "ORDERS_RESULTS", "orders.results.A"))
}

var subjectRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `(orders\\.new\\.[^`<]+)` \\|$")

func TestSubjectsOfTheDocument(t *testing.T) {
	rows := subjectRow.FindAllStringSubmatch(read(t, producersDoc), -1)
	require.Len(t, rows, 5)
	for _, row := range rows {
		require.Equal(t, row[2], newPrefix+order.Token(row[1]))
	}
}

// TestWordsOfTheDocument: the outcomes stand in the line that says whether the
// order was created, and every header of an intent is named.
func TestWordsOfTheDocument(t *testing.T) {
	text := read(t, producersDoc)
	for _, o := range order.Outcomes() {
		row := regexp.MustCompile("(?m)^\\|[^|]*`" + o.String() + "`[^|]*\\| (\\w+)").FindStringSubmatch(text)
		require.NotNil(t, row, "%s", o)
		want := o.Created()
		if o == order.OutcomeUnknown {
			want = "nobody"
		}
		require.Equal(t, want, row[1], "%s", o)
	}
	for _, header := range []string{settle.HeaderIntentID, settle.HeaderBatch, settle.HeaderSource, settle.HeaderDeadline, settle.HeaderTraceparent, "Order-Letter"} {
		require.Contains(t, text, "`"+header+"`")
	}
	for _, setting := range regexp.MustCompile(`ORDERPOST_[A-Z_]+`).FindAllString(text, -1) {
		require.True(t, strings.Contains(read(t, "docs/configuration.md"), "| `"+setting+"` |") || setting == "ORDERPOST_PASSWORD", setting)
	}
}
