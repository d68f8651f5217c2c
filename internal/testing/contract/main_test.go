package contract

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	schemas "orderpost/docs/schema"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

// root leads to the module's root.
const root = "../../../"

// requestPatience bounds the wait for one answer.
const requestPatience = 10 * time.Second

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(root + path))
	require.NoError(t, err)
	return string(text)
}

// loaded reads a document the way the validator wants it.
func loaded(t *testing.T, text string) any {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, text)
	return doc
}

// schema compiles one of docs/schema. Formats are checked, not only noted.
func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.AssertContent()
	for _, each := range schemas.Names() {
		text, err := schemas.Text(each)
		require.NoError(t, err)
		require.NoError(t, c.AddResource("urn:orderpost:"+each, loaded(t, text)))
	}
	s, err := c.Compile("urn:orderpost:" + name)
	require.NoError(t, err)
	return s
}

// startBroker runs a throw-away broker with orderpost's streams.
func startBroker(t *testing.T, change func(*queue.Config)) (*queue.Queue, *nats.Conn) {
	t.Helper()
	s := queuetest.Start(t)
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token = s.URL, s.Token
	change(&cfg)
	return openQueue(t, cfg), s.JetStream(t).Conn()
}

func openQueue(t *testing.T, cfg queue.Config) *queue.Queue {
	t.Helper()
	cfg.Name, cfg.Worker, cfg.Living = "w1", true, fleet.Living
	return queuetest.Connect(t, cfg)
}

// pull takes one order that is to be worked on, as a worker does. An order
// that comes before its time goes back.
func pull(t *testing.T, q *queue.Queue) *settle.Delivery {
	t.Helper()
	for start := time.Now(); time.Since(start) < 20*time.Second; {
		var got []*settle.Delivery
		require.NoError(t, q.Pull(t.Context(), 1, time.Second, func(ds []*settle.Delivery) { got = append(got, ds...) }))
		switch {
		case len(got) == 0:
		case got[0].Work == settle.WorkNotYet:
			require.NoError(t, q.Worker.HandBack(t.Context(), got[0], time.Until(got[0].Last.Record.NotBefore)))
			got[0].Release()
		default:
			return got[0]
		}
	}
	t.Fatal("no order came")
	return nil
}

// settle ends a visit as a worker does.
func settleAs(t *testing.T, q *queue.Queue, d *settle.Delivery, r order.Report, f order.Facts) {
	t.Helper()
	_, err := q.Worker.Settle(t.Context(), d, &r, order.Decide(&r, f))
	require.NoError(t, err)
	d.Release()
}

// gone waits until a settled order's message has left the queue: its
// acknowledgement is on its way when Settle returns.
func gone(t *testing.T, q *queue.Queue, orderNo string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_ = q.Trimmer.Trim(t.Context())
		stored, err := q.Store().Intent(t.Context(), orderNo)
		return err == nil && stored == nil
	}, 20*time.Second, time.Millisecond)
}

// request sends a request and returns the answer's body.
func request(t *testing.T, nc *nats.Conn, msg *nats.Msg) string {
	t.Helper()
	reply, err := nc.RequestMsg(msg, requestPatience)
	require.NoError(t, err)
	return string(reply.Data)
}

// lastMsg reads what lies in a stream under a subject; nil where nothing does.
func lastMsg(t *testing.T, nc *nats.Conn, stream, subject string) *nats.Msg {
	t.Helper()
	query, err := json.Marshal(map[string]string{"last_by_subj": subject})
	require.NoError(t, err)
	var answer struct {
		Error   *struct{ Description string }
		Message *struct{ Hdrs, Data []byte }
	}
	reply := request(t, nc, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: query})
	require.NoError(t, json.Unmarshal([]byte(reply), &answer))
	if answer.Error != nil {
		require.Equal(t, "no message found", answer.Error.Description)
		return nil
	}
	msg := &nats.Msg{Subject: subject, Data: answer.Message.Data}
	if len(answer.Message.Hdrs) > 0 {
		msg.Header, err = nats.DecodeHeadersMsg(answer.Message.Hdrs)
		require.NoError(t, err)
	}
	return msg
}
