package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/gateway"
	"orderpost/internal/queue"
)

// TestEveryStatus by a request that has it, valid by the document. Those of bodies that do
// not arrive, of crowds and of a door that closes are tried beside the door
// (internal/gateway). No token is ever logged or answered.
func TestEveryStatus(t *testing.T) {
	path, tokens := clients(t, map[string][]gateway.Scope{"shop": {gateway.Submit, gateway.Read, gateway.Cancel}, "desk": {gateway.ReadAll}})
	r := newRig(t, func(g *gateway.Config, _ *queue.Config) { g.Clients = path })
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
	post(409, "pending", "order_no", body("A"), "Idempotency-Key", "k2")
	post(422, "key-reused", "header Idempotency-Key", `{"order_no":"A","timeout":31}`, "Idempotency-Key", "k1")
	post(422, "key-reused", "header Idempotency-Key", body("B"), "Idempotency-Key", "k1")
	post(422, "invalid-order", "timeout", `{"order_no":"B"}`)
	post(422, "invalid-order", "timeout", `{"order_no":"B","timeout":"30"}`)
	post(422, "invalid-order", "", `[]`)
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
	do(exchange{method: "PUT", path: "/v1/orders", status: 405, problem: "method-not-allowed", where: "method"})
	get(404, "not-found", "path", "/v2/orders")

	get(200, "", "", "/v1/orders/A?submission=k1")
	get(404, "unknown-order", "order_no", "/v1/orders/A?submission=k9")
	get(400, "bad-request", "parameter wait", "/v1/orders/A?wait=soon")
	r.settle(1)
	get(200, "", "", "/v1/orders/A?wait=30s", "Authorization", "Bearer "+tokens["desk"])
	do(exchange{method: "DELETE", path: "/v1/orders/A?submission=k1", status: 409, problem: "settled", where: "order_no"})
	do(exchange{method: "DELETE", path: "/v1/orders/A?submission=k9", status: 404, problem: "unknown-order", where: "parameter submission"})

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
	get(503, "unreachable", "", "/v1/orders/A")
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
					status := http.StatusCreated
					if media == "application/x-ndjson" {
						status = http.StatusOK
					}
					_, answer := r.do(t, exchange{method: method, path: path, body: text, header: map[string]string{"Content-Type": media}, status: status})
					for _, line := range strings.Split(strings.TrimSpace(answer), "\n") {
						r.is(t, "Receipt", line)
					}
					sent++
					t.Log(path, name)
				}
			}
		}
	}
	require.Equal(t, 2, sent)
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
