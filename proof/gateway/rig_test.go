package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/docs"
	"orderpost/internal/fleet"
	"orderpost/internal/gateway"
	"orderpost/internal/gateway/fileimport"
	"orderpost/internal/ops"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) {
	for _, text := range []string{"application/x-ndjson", "text/event-stream", "application/yaml", "text/csv"} {
		openapi3filter.RegisterBodyDecoder(text, openapi3filter.FileBodyDecoder) // a string
	}
	patient.Main(m)
}

// document loads docs/openapi.yaml and makes sure that it is valid, its examples included.
func document(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(context.Background()))
	return doc
}

// rig is a broker, an HTTP door, and a client that holds every exchange against the
// document.
type rig struct {
	t      testing.TB
	dir    string // the data folder
	broker *embedded.Server
	worker *queue.Queue
	door   *gateway.Server
	log    bytes.Buffer
	doc    *openapi3.T
	router routers.Router
	seen   *coverage // nil = nobody collects
}

func newRig(t testing.TB, change func(*gateway.Config, *queue.Config)) *rig {
	t.Helper()
	r := &rig{t: t, doc: document(t), dir: t.TempDir()}
	var err error
	r.broker, err = embedded.Start(embedded.Config{Dir: r.dir, Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { r.broker.Stop() })
	listen, cfg := gateway.Config{Listen: "127.0.0.1:0", KeepAlive: time.Minute, ImportTotal: 64}, queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Living, cfg.BrokerWait = r.broker.URL, r.broker.Token, "test", fleet.Living, time.Millisecond
	change(&listen, &cfg)
	open := func(worker bool) *queue.Queue {
		cfg.Worker = worker
		q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
		require.NoError(t, err)
		t.Cleanup(q.Close)
		return q
	}
	r.worker = open(true)
	q := open(false)
	r.door, err = gateway.Listen(t.Context(), gateway.Options{Config: listen, Files: fileimport.Open, DrainTimeout: time.Second,
		Queue: q, DataDir: r.dir,
		Metrics: ops.NewGateway(prometheus.NewRegistry(), gateway.MetricsOptions()), Log: zerolog.New(&r.log).Level(zerolog.DebugLevel)})
	require.NoError(t, err)
	t.Cleanup(r.door.Stop)
	r.doc.Servers = openapi3.Servers{{URL: r.door.URL()}}
	r.router, err = gorillamux.NewRouter(r.doc)
	require.NoError(t, err)
	return r
}

// exchange is a request, and what is expected of its answer.
type exchange struct {
	method, path, body string
	header             map[string]string
	status             int
	problem            string // the end of the problem's type; "" = it is none
	where              string // a problem's
	wrong              bool   // the request is one that the document does not allow
}

// do makes an exchange and validates it.
func (r *rig) do(t testing.TB, e exchange) (http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), e.method, r.door.URL()+e.path, strings.NewReader(e.body))
	require.NoError(t, err)
	if e.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range e.header {
		req.Header.Set(name, value)
	}
	req.Host = req.Header.Get("Host")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, e.status, resp.StatusCode, "%s", text)
	r.validate(t, req, e, resp, text)
	if e.problem != "" {
		var p struct{ Type, Where, Detail string }
		require.NoError(t, json.Unmarshal(text, &p), "%s", text)
		require.Equal(t, "urn:orderpost:problem:"+e.problem, p.Type, "%s", text)
		require.Equal(t, e.where, p.Where, "%s", text)
	}
	return resp.Header, string(text)
}

// validate holds an exchange against the document.
func (r *rig) validate(t testing.TB, req *http.Request, e exchange, resp *http.Response, answer []byte) {
	t.Helper()
	route, params, err := r.router.FindRoute(req)
	if err != nil { // a path or a method that is not there: the answer is a problem all the same
		require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, e.status)
		r.is(t, "Problem", string(answer))
		if e.status == http.StatusMethodNotAllowed {
			r.sawOtherMethod(t, req)
		}
		return
	}
	r.seen.see(fmt.Sprint(route.Operation.OperationID, " ", e.status))
	req.Body = io.NopCloser(strings.NewReader(e.body))
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
	if err := openapi3filter.ValidateRequest(t.Context(), in); e.wrong {
		require.Error(t, err, "the document allows what the door refuses")
	} else {
		require.NoError(t, err)
	}
	require.NoError(t, openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{RequestValidationInput: in,
		Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(answer)), Options: in.Options}), "%s", answer)
}

// sawOtherMethod notes that the operations of a path refuse another method.
func (r *rig) sawOtherMethod(t testing.TB, req *http.Request) {
	t.Helper()
	for _, method := range []string{"GET", "POST"} {
		other := req.Clone(t.Context())
		other.Method = method
		if route, _, err := r.router.FindRoute(other); err == nil {
			for _, operation := range route.PathItem.Operations() {
				r.seen.see(operation.OperationID + " 405")
			}
			return
		}
	}
	t.Fatalf("%s %s is none of the document", req.Method, req.URL)
}

// is makes sure that a text is JSON of one of the document's schemas.
func (r *rig) is(t testing.TB, name, text string) {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal([]byte(text), &value), text)
	require.NoError(t, r.doc.Components.Schemas[name].Value.VisitJSON(value, openapi3.EnableJSONSchema2020()), text)
}

// settle settles n deliveries as accepted.
func (r *rig) settle(n int) {
	r.t.Helper()
	r.settleAs(n, order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200, History: order.History{Attempts: 1}})
}

// settleAs settles n deliveries by what a worker reports of each.
func (r *rig) settleAs(n int, rep order.Report) {
	r.t.Helper()
	for done, began := 0, time.Now(); done < n; {
		require.Less(r.t, time.Since(began), time.Minute)
		require.NoError(r.t, r.worker.Pull(r.t.Context(), n-done, time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				_, err := r.worker.Worker.Settle(r.t.Context(), d, &rep, order.Decide(&rep, order.Facts{}))
				require.NoError(r.t, err)
				d.Release()
				done++
			}
		}))
	}
}

// clients writes a file of clients. Their tokens come back by name.
func clients(t testing.TB, scopes map[string][]gateway.Scope) (path string, tokens map[string]string) {
	t.Helper()
	text, tokens := "clients:\n", make(map[string]string)
	for name, may := range scopes {
		e, token, err := gateway.NewEntry(name, may)
		require.NoError(t, err)
		lines, err := e.YAML()
		require.NoError(t, err)
		text, tokens[name] = text+lines, token
	}
	path = filepath.Join(t.TempDir(), "clients.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path, tokens
}

func body(no string) string { return fmt.Sprintf(`{"order_no":%q,"timeout":30}`, no) }

// patience bounds a wait for a condition, pause the time between two looks at it.
const (
	patience = time.Minute
	pause    = 10 * time.Millisecond
)
