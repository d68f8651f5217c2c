package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/gateway"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// TestEveryStatus by a request that has it, valid by the document. A status in the document
// that no exchange here has, and no test that is named in beside, fails. No token is ever
// logged or answered.
func TestEveryStatus(t *testing.T) {
	seen := new(coverage)
	t.Run("each", func(t *testing.T) {
		for name, part := range map[string]func(*testing.T, *coverage){"clients": statusesOfClients, "faults": statusesOfFaults, "withdrawals": statusesOfWithdrawals, "imports": statusesOfImports} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				part(t, seen)
			})
		}
	})
	seen.whole(t, document(t))
}

// statusesOfFaults: the broker is away, the request is for another host, or the client has as much
// under way as it may.
func statusesOfFaults(t *testing.T, seen *coverage) {
	every := []exchange{
		{method: "POST", path: "/v1/orders", body: body("A")},
		{method: "GET", path: "/v1/orders?order_no=A"},
		{method: "DELETE", path: "/v1/orders?order_no=A"},
		{method: "GET", path: "/v1/outcomes"},
	}
	imports := []exchange{
		{method: "POST", path: "/v1/imports", body: body("A") + "\n"},
		{method: "GET", path: "/v1/imports/x"},
		{method: "DELETE", path: "/v1/imports/x"},
		{method: "GET", path: "/v1/imports/x/results"},
	}
	r := newRig(t, func(*gateway.Config, *queue.Config) {})
	r.seen = seen
	all := func(r *rig, every []exchange, status int, problem, where string, header map[string]string) {
		t.Helper()
		for _, e := range every {
			e.status, e.problem, e.where, e.header = status, problem, where, maps.Clone(header)
			if e.path == "/v1/imports" {
				if e.header == nil {
					e.header = make(map[string]string)
				}
				e.header["Content-Type"] = "application/x-ndjson"
			}
			r.do(t, e)
		}
	}
	all(r, slices.Concat(every, imports), http.StatusMisdirectedRequest, "misdirected", "header Host", map[string]string{"Host": "evil.example"})
	r.broker.Stop()
	r.do(t, exchange{method: "DELETE", path: "/v1/orders?order_no=A", status: http.StatusServiceUnavailable, problem: "unreachable"})

	none := newRig(t, func(g *gateway.Config, _ *queue.Config) { g.ImportTotal = 0 })
	none.seen = seen
	all(none, imports, http.StatusNotImplemented, "no-imports", "", nil)

	path, tokens := clients(t, map[string][]gateway.Scope{"shop": gateway.Scopes()})
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "- name: shop", "- in_flight: 1\n  waiting: 1\n  name: shop")), 0o600))
	r = newRig(t, func(g *gateway.Config, _ *queue.Config) { g.Clients = path })
	r.seen = seen
	as := map[string]string{"Authorization": "Bearer " + tokens["shop"]}
	keep := func(method, path, header, value string, body io.Reader) { // it has begun, and keeps the only slot of its kind
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, r.door.URL()+path, body)
		require.NoError(t, err)
		req.Header.Set("Authorization", as["Authorization"])
		req.Header.Set(header, value)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	lines, end := io.Pipe()
	t.Cleanup(func() { _ = end.Close() })
	go func() { _, _ = io.WriteString(end, body("A")+"\n") }()
	keep("POST", "/v1/orders", "Content-Type", "application/x-ndjson", lines)
	keep("GET", "/v1/outcomes", "Accept", "text/event-stream", nil)
	all(r, slices.Concat(every, imports), http.StatusTooManyRequests, "too-many-requests", "client shop", as)
}

// statusesOfWithdrawals: withdrawn, noted, or settled otherwise.
func statusesOfWithdrawals(t *testing.T, seen *coverage) {
	r := newRig(t, func(*gateway.Config, *queue.Config) {})
	r.seen = seen
	withdraw := func(no string, status int, problem, where string) {
		t.Helper()
		r.do(t, exchange{method: "DELETE", path: "/v1/orders?order_no=" + no + "&submission=" + no, status: status, problem: problem, where: where})
	}
	for _, no := range []string{"A", "B"} {
		r.do(t, exchange{method: "POST", path: "/v1/orders", body: body(no), header: map[string]string{"Idempotency-Key": no}, status: http.StatusCreated})
		if no == "A" {
			withdraw(no, http.StatusAccepted, "", "") // no worker comes to it
			r.settleAs(1, order.Report{End: order.EndCancelled})
			withdraw(no, http.StatusOK, "", "")
		} else {
			r.settle(1)
			withdraw(no, http.StatusConflict, "settled", "order_no")
		}
	}
}

// statusesOfImports: files that are taken, refused and withdrawn.
func statusesOfImports(t *testing.T, seen *coverage) {
	path, tokens := clients(t, map[string][]gateway.Scope{"shop": {gateway.Submit, gateway.Read, gateway.Cancel}, "mute": {gateway.Submit}, "desk": {gateway.ReadAll}})
	r := newRig(t, func(g *gateway.Config, _ *queue.Config) { g.Clients, g.ImportTotal = path, 1 })
	r.seen = seen
	do := func(e exchange, header ...string) string {
		t.Helper()
		e.header = map[string]string{"Authorization": "Bearer " + tokens["shop"]}
		if e.method == "POST" {
			e.header["Content-Type"] = "text/csv"
		}
		for i := 0; i < len(header); i += 2 {
			e.header[header[i]] = header[i+1]
		}
		_, text := r.do(t, e)
		return text
	}
	const table = "order_no,timeout,price\n"
	post := func(body, query string, status int, problem, where string, header ...string) (id string) {
		t.Helper()
		text := do(exchange{method: "POST", path: "/v1/imports" + query, body: body, status: status, problem: problem, where: where, wrong: status == 400 || status == 415}, header...)
		var is struct{ Import string }
		require.NoError(t, json.Unmarshal([]byte(text), &is), text)
		return is.Import
	}
	becomes := func(id, state string) {
		t.Helper()
		require.Eventually(t, func() bool {
			return strings.Contains(do(exchange{method: "GET", path: "/v1/imports/" + id, status: 200}), `"state":"`+state+`"`)
		}, patience, pause)
	}
	good := post(table+"I-1,30,1\n", "?type=price=number&rate=5&lane=bulk&allow-past=true", 202, "", "")
	becomes(good, "stored")
	bad := post(table+"I-2,30,\"1,50\"\nI-3,soon,2\n", "?type=price=number", 202, "", "")
	becomes(bad, "refused")
	post("nr\n1\n", "", 422, "invalid-import", "column order_no")
	post(table, "?rate=0", 400, "bad-request", "parameter rate")
	post(table, "", 415, "media-type", "header Content-Type", "Content-Type", "application/pdf")
	post(table, "", 401, "unauthorized", "header Authorization", "Authorization", "")
	post(table, "", 403, "forbidden", "client desk", "Authorization", "Bearer "+tokens["desk"])
	post(table+strings.Repeat("x", 1<<20), "", 413, "too-large", "body")
	var noise strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&noise, "%d,30,%x\n", i, sha256.Sum256(fmt.Append(nil, i)))
	}
	for range 2 {
		post(table+noise.String(), "", 202, "", "")
	}
	post(table+noise.String(), "", 507, "no-room", "client shop")

	do(exchange{method: "GET", path: "/v1/imports/" + good + "/results", status: 200})
	do(exchange{method: "GET", path: "/v1/imports/" + bad + "/results", status: 409, problem: "not-ready", where: "import"})
	do(exchange{method: "PUT", path: "/v1/imports", status: 405, problem: "method-not-allowed", where: "method"})
	every := []exchange{{method: "GET", path: "/v1/imports/x"}, {method: "DELETE", path: "/v1/imports/x"}, {method: "GET", path: "/v1/imports/x/results"}}
	for _, e := range every {
		e.status, e.problem, e.where = 404, "unknown-import", "import"
		do(e)
		e.status, e.problem, e.where = 401, "unauthorized", "header Authorization"
		do(e, "Authorization", "")
		e.status, e.problem, e.where = 403, "forbidden", "client mute"
		do(e, "Authorization", "Bearer "+tokens["mute"])
		bad := e
		bad.path, bad.status, bad.problem, bad.where = e.path+"?a=%zz", 400, "bad-request", "parameters"
		do(bad)
		other := e
		other.method, other.status, other.problem, other.where = "PUT", 405, "method-not-allowed", "method"
		do(other)
	}
	do(exchange{method: "DELETE", path: "/v1/imports/" + bad, status: 200})
	do(exchange{method: "DELETE", path: "/v1/imports/" + good, status: 202})
	r.broker.Stop()
	require.Eventually(t, func() bool { // the last count is good for a moment
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.door.URL()+"/v1/imports/"+good, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+tokens["shop"])
		resp, err := http.DefaultClient.Do(req)
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == 503
	}, patience, pause)
	do(exchange{method: "GET", path: "/v1/imports/" + good, status: 503, problem: "unreachable"})
	do(exchange{method: "GET", path: "/v1/imports/" + good + "/results", status: 503, problem: "unreachable"})
	do(exchange{method: "DELETE", path: "/v1/imports/" + good, status: 503, problem: "unreachable"})
	require.NoError(t, os.RemoveAll(filepath.Join(r.dir, "imports")))
	post(table, "", 500, "internal", "", "Authorization", "Bearer "+tokens["mute"])
}

// statusesOfClients: what a client may do, and how a request is wrong.
func statusesOfClients(t *testing.T, seen *coverage) {
	path, tokens := clients(t, map[string][]gateway.Scope{"shop": {gateway.Submit, gateway.Read, gateway.Cancel}, "desk": {gateway.ReadAll}, "mute": {gateway.Submit}})
	r := newRig(t, func(g *gateway.Config, _ *queue.Config) { g.Clients = path })
	r.seen = seen
	do := func(e exchange, header ...string) string {
		t.Helper()
		e.header = map[string]string{"Authorization": "Bearer " + tokens["shop"]}
		for i := 0; i < len(header); i += 2 {
			e.header[header[i]] = header[i+1]
		}
		_, text := r.do(t, e)
		for _, token := range tokens {
			require.NotContains(t, text, token)
		}
		return text
	}
	post := func(status int, problem, where, body string, header ...string) {
		t.Helper()
		do(exchange{method: "POST", path: "/v1/orders", body: body, status: status, problem: problem, where: where, wrong: problem != "" && status < 500 && status != 409 && status != 401 && status != 403 && problem != "key-reused"}, header...)
	}
	get := func(status int, problem, where, path string, header ...string) string {
		t.Helper()
		return do(exchange{method: "GET", path: path, status: status, problem: problem, where: where, wrong: status == 400}, header...)
	}
	post(201, "", "", body("A"), "Idempotency-Key", "k1")
	post(200, "", "", body("A"), "Idempotency-Key", `"k1"`)
	for _, e := range []exchange{{method: "POST", path: "/v1/orders", body: body("A")}, {method: "GET", path: "/v1/orders?order_no=A"}, {method: "DELETE", path: "/v1/orders?order_no=A"}, {method: "GET", path: "/v1/outcomes"}} {
		path, query, _ := strings.Cut(e.path, "?")
		e.path, e.status, e.problem, e.where = path+"?"+query+"&wait=3s;x=1", 400, "bad-request", "parameters"
		do(e)
	}
	post(409, "pending", "order_no", body("A"), "Idempotency-Key", "k2")
	post(422, "key-reused", "header Idempotency-Key", `{"order_no":"A","timeout":31}`, "Idempotency-Key", "k1")
	post(422, "key-reused", "header Idempotency-Key", body("B"), "Idempotency-Key", "k1")
	post(422, "invalid-order", "timeout", `{"order_no":"B"}`)
	post(422, "invalid-order", "timeout", `{"order_no":"B","timeout":"30"}`)
	post(422, "invalid-order", "", `[]`)
	do(exchange{method: "POST", path: "/v1/orders", body: "{", status: 400, problem: "invalid-json", wrong: true})
	post(422, "invalid-order", "header Order-Lane", body("B"), "Order-Lane", "a lane")
	post(422, "invalid-order", "header Order-Batch", body("B"), "Order-Batch", strings.Repeat("x", 1025))
	post(422, "invalid-order", "header traceparent", body("B"), "traceparent", strings.Repeat("x", 1025))
	post(422, "invalid-order", "header Order-Deadline", body("B"), "Order-Deadline", "tomorrow")
	post(400, "bad-request", "header Idempotency-Key", body("B"), "Idempotency-Key", strings.Repeat("k", 300))
	post(400, "bad-request", "header Idempotency-Key", body("B"), "Idempotency-Key", "two words")
	post(415, "media-type", "header Content-Type", body("B"), "Content-Type", "application/x-www-form-urlencoded")
	post(401, "unauthorized", "header Authorization", body("B"), "Authorization", "")
	post(401, "unauthorized", "header Authorization", body("B"), "Authorization", "Bearer "+tokens["shop"]+"x")
	post(401, "unauthorized", "header Authorization", body("B"), "Authorization", "Basic "+tokens["shop"])
	post(403, "forbidden", "client desk", body("B"), "Authorization", "Bearer "+tokens["desk"])
	do(exchange{method: "POST", path: "/v1/orders", body: body("B" + strings.Repeat("x", 1<<20)), status: 413, problem: "too-large", where: "body", wrong: true})
	for _, path := range []string{"/v1/orders", "/v1/outcomes"} {
		do(exchange{method: "PUT", path: path, status: 405, problem: "method-not-allowed", where: "method"})
	}
	for _, e := range []exchange{{method: "GET", path: "/v1/orders?order_no=A"}, {method: "DELETE", path: "/v1/orders?order_no=A"}, {method: "GET", path: "/v1/outcomes"}} {
		e.status, e.problem, e.where = 401, "unauthorized", "header Authorization"
		do(e, "Authorization", "")
		e.status, e.problem, e.where = 403, "forbidden", "client mute"
		do(e, "Authorization", "Bearer "+tokens["mute"])
	}
	get(404, "not-found", "path", "/v2/orders")

	get(200, "", "", "/v1/orders?order_no=A&submission=k1")
	get(404, "unknown-order", "order_no", "/v1/orders?order_no=A&submission=k9")
	get(400, "bad-request", "parameter order_no", "/v1/orders")
	get(400, "bad-request", "parameter order_no", "/v1/orders?order_no=")
	get(400, "bad-request", "parameter wait", "/v1/orders?order_no=A&wait=soon")
	r.settle(1)
	get(200, "", "", "/v1/orders?order_no=A&wait=30s", "Authorization", "Bearer "+tokens["desk"])
	do(exchange{method: "DELETE", path: "/v1/orders?order_no=A&submission=k9", status: 404, problem: "unknown-order", where: "parameter submission"})

	lines := strings.Split(strings.TrimSpace(get(200, "", "", "/v1/outcomes?after=0&limit=1&wait=1s")), "\n")
	require.Len(t, lines, 2)
	r.is(t, "Outcome", lines[0])
	r.is(t, "Next", lines[1])
	get(410, "position-gone", "position", "/v1/outcomes?after=99")
	get(400, "bad-request", "parameter after", "/v1/outcomes?after=-1")
	get(400, "bad-request", "parameter limit", "/v1/outcomes?limit=0")
	get(400, "bad-request", "header Last-Event-ID", "/v1/outcomes", "Accept", "text/event-stream", "Last-Event-ID", "x")
	for _, path := range []string{"/openapi.yaml", "/livez", "/readyz"} {
		get(200, "", "", path, "Authorization", "")
	}

	r.broker.Stop()
	require.Eventually(t, func() bool {
		resp, err := http.Get(r.door.URL() + "/readyz") //nolint:noctx // the test's own door
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	}, patience, pause)
	get(503, "", "", "/readyz")
	post(503, "unavailable", "", body("C"))
	get(503, "unreachable", "", "/v1/orders?order_no=A")
	get(503, "unreachable", "", "/v1/outcomes")
	for _, token := range tokens {
		require.NotContains(t, r.log.String(), token)
	}
}

// TestAFullQueue stores nothing, and says so.
func TestAFullQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *gateway.Config, q *queue.Config) { q.MaxIntents = 1 })
	r.do(t, exchange{method: "POST", path: "/v1/orders", body: body("A"), status: 201})
	header, _ := r.do(t, exchange{method: "POST", path: "/v1/orders", body: body("B"), status: 503, problem: "full"})
	require.NotEmpty(t, header.Get("Retry-After"))
	_, text := r.do(t, exchange{method: "POST", path: "/v1/orders", body: body("A") + "\n" + body("B") + "\n" + body("A") + "\n", header: map[string]string{"Content-Type": "application/x-ndjson"}, status: 200})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	r.is(t, "Receipt", lines[0])
	r.is(t, "Problem", lines[1])
}

// TestExamplesOfTheDocument are sent as they stand, and what the document shows as answers
// has their fields.
func TestExamplesOfTheDocument(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*gateway.Config, *queue.Config) {})
	sent := 0
	for path, item := range r.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.RequestBody == nil {
				continue
			}
			for media, content := range operation.RequestBody.Value.Content {
				for name, example := range content.Examples {
					text, plain := example.Value.Value.(string)
					if !plain {
						raw, err := json.Marshal(example.Value.Value)
						require.NoError(t, err)
						text = string(raw)
					}
					status, schema := http.StatusCreated, "Receipt"
					switch {
					case path == "/v1/imports":
						status, schema = http.StatusAccepted, "Import"
					case media == "application/x-ndjson":
						status = http.StatusOK
					}
					_, answer := r.do(t, exchange{method: method, path: path, body: text, header: map[string]string{"Content-Type": media}, status: status})
					for _, line := range strings.Split(strings.TrimSpace(answer), "\n") {
						r.is(t, schema, line)
					}
					sent++
					t.Log(path, name)
				}
			}
		}
	}
	require.Equal(t, 4, sent)
	shown := 0
	for _, item := range r.doc.Paths.Map() {
		for _, operation := range item.Operations() {
			for _, response := range operation.Responses.Map() {
				for media, content := range response.Value.Content {
					for _, example := range content.Examples {
						if text, ok := example.Value.Value.(string); ok {
							r.shown(t, media, text)
							shown++
						}
					}
				}
			}
		}
	}
	require.Equal(t, 3, shown)
}

// shown validates an example of lines or of events.
func (r *rig) shown(t testing.TB, media, text string) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if media == "text/event-stream" {
			data, is := strings.CutPrefix(line, "data: ")
			if !is {
				continue
			}
			line = data
		}
		name := "Outcome"
		if strings.Contains(line, `"line":`) {
			name = "Receipt"
		} else if strings.Contains(line, `"next":`) {
			name = "Next"
		}
		r.is(t, name, line)
	}
}

// TestTheDocumentNamesEveryProblem that the door has, and no other.
func TestTheDocumentNamesEveryProblem(t *testing.T) {
	t.Parallel()
	doc := document(t)
	var types []string
	for _, v := range doc.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum {
		types = append(types, fmt.Sprint(v))
	}
	require.ElementsMatch(t, gateway.ProblemTypes(), types)
}
