package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/testing/queuetest"
)

func (a answer) outcome(t testing.TB) (o outcome) {
	t.Helper()
	require.Equal(t, mediaJSON, a.header.Get("Content-Type"), a.text)
	require.NoError(t, json.Unmarshal([]byte(a.text), &o), a.text)
	return o
}

// TestAnOrderAndItsOutcome: in by a POST, repeated, waited for, and settled.
func TestAnOrderAndItsOutcome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.do("POST", "/v1/orders", body("A/1 é"), "Idempotency-Key", `"k1"`)
	require.Equal(t, http.StatusCreated, a.status, a.text)
	require.Equal(t, "/v1/orders?order_no=A%2F1%20%C3%A9&submission=local%3Ak1", a.header.Get("Location"))
	require.Equal(t, 1, r.stored(), "2xx only after the broker confirmed")
	again := r.do("POST", "/v1/orders", body("A/1 é"), "Idempotency-Key", "k1")
	require.Equal(t, http.StatusOK, again.status, again.text)

	where := a.header.Get("Location")
	require.Equal(t, "pending", r.do("GET", where, "").outcome(t).State)
	require.Equal(t, "pending", r.do("GET", where+"&wait=1ms", "").outcome(t).State)
	waited := make(chan answer, 1)
	go func() {
		a, err := r.try("GET", where+"&wait=1m", nil)
		if err != nil {
			a.text = err.Error()
		}
		waited <- a
	}()
	r.settle(1)
	o := (<-waited).outcome(t)
	require.Equal(t, outcome{OrderNo: "A/1 é", Submission: "local:k1", State: "settled", Outcome: "accepted", Created: "yes", Reason: o.Reason, Attempts: 1,
		Status: 200, Response: `{"id":"77"}`, EnqueuedAt: o.EnqueuedAt, SettledAt: o.SettledAt, Source: "local", Position: o.Position}, o)
	require.NotZero(t, o.Position)
	for _, way := range []string{"&submission=k1", "&submission=local:k1", ""} { // the key, the id, the last word
		require.Equal(t, o, r.do("GET", "/v1/orders?order_no=A%2F1%20%C3%A9"+way, "").outcome(t), way)
	}
	same := r.do("POST", "/v1/orders", body("A/1 é"), "Idempotency-Key", "k1")
	require.Equal(t, http.StatusOK, same.status, "it is known after its outcome, too")
}

// TestAClientThatLeaves its wait or its feed gives the slot back, long before the wait is over.
func TestAClientThatLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("A")).status)
	for request, route := range map[string]string{
		"GET /v1/orders?order_no=A&wait=5m HTTP/1.1\nHost: localhost\n\n":           "order",
		"GET /v1/outcomes?wait=5m HTTP/1.1\nHost: localhost\n\n":                    "outcomes",
		"GET /v1/outcomes HTTP/1.1\nHost: localhost\nAccept: text/event-stream\n\n": "outcomes",
	} {
		c := r.dial().send("%s", strings.ReplaceAll(request, "\n", "\r\n"))
		require.Eventually(t, func() bool { return r.open(route) == 1 }, patience, time.Millisecond, request)
		require.NoError(t, c.Close())
		require.Eventually(t, func() bool { return r.open(route) == 0 }, patience, time.Millisecond, request)
	}
}

// TestTheLocationOfEveryOrderNumber: the door finds the order there, also behind a proxy that
// decodes and shortens paths, for every order_no that it takes.
func TestTheLocationOfEveryOrderNumber(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	behind, err := url.Parse(r.URL())
	require.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(behind)
		p.Out.URL.Path, p.Out.URL.RawPath = path.Clean(p.Out.URL.Path), ""
	}})
	t.Cleanup(proxy.Close)
	for i, no := range []string{"A-1", "/", "//", ".", "..", "...", "a/b", "a//b", "a/../b", "a/", "/a", "%2F", "%252F", "%", "%zz", "a?b", "?wait=1m", "a&b", "&order_no=x", "a=b", "a;b", "a#b", "a+b", "a b",
		`a\b`, `"`, "ä€😀", "outcomes", strings.Repeat("/", 255)} {
		key := fmt.Sprint("k", i)
		text, err := json.Marshal(map[string]any{"order_no": no, "timeout": 30})
		require.NoError(t, err)
		a := r.do("POST", "/v1/orders", string(text), headerKey, key)
		require.Equal(t, http.StatusCreated, a.status, "%s: %s", no, a.text)
		for _, base := range []string{r.URL(), proxy.URL} {
			resp, err := http.Get(base + a.header.Get("Location")) //nolint:noctx // the test's own door
			require.NoError(t, err)
			var o outcome
			require.NoError(t, json.NewDecoder(resp.Body).Decode(&o))
			require.NoError(t, resp.Body.Close())
			require.Equal(t, []string{no, "local:" + key}, []string{o.OrderNo, o.Submission}, a.header.Get("Location"))
		}
	}
}

// TestTheBodyNamesASubmissionWithoutAKey, whatever its timestamp and its spaces.
func TestTheBodyNamesASubmissionWithoutAKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, text := range []string{`{"order_no":"A","timeout":30,"timestamp":1}`, `{"order_no":"A","timeout":30,"timestamp":2}`, `{ "order_no" : "A", "timeout":30 }`} {
		want := http.StatusCreated
		if i > 0 {
			want = http.StatusOK
		}
		a := r.do("POST", "/v1/orders", text)
		require.Equal(t, want, a.status, a.text)
	}
	require.Equal(t, 1, r.stored())
}

// TestARepeatedPOSTBehindAnotherKey is the same submission still: the order exists.
func TestARepeatedPOSTBehindAnotherKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, key := range []string{"1", "2", "1"} {
		want := http.StatusCreated
		if i == 2 {
			want = http.StatusOK
		}
		a := r.do("POST", "/v1/orders", body("A"), headerKey, key)
		require.Equal(t, want, a.status, a.text)
		there := a.header.Get("Location")
		if want == http.StatusCreated {
			r.settle(1)
			queuetest.Drained(t, r.worker)
		}
		require.Equal(t, "accepted", r.do("GET", there, "").outcome(t).Outcome, there)
	}
}

// TestAClientSeesItsOwnOrders, and learns nothing of others.
func TestAClientSeesItsOwnOrders(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options, _ *queue.Config) {
		o.Clients = clientsFile(t, map[string][]Scope{"shop": {Submit, Read, Cancel}, "rival": {Submit, Read, Cancel}, "desk": {ReadAll, Cancel}, "mute": {Submit}})
	})
	as := func(name, method, path, body string) answer {
		return r.do(method, path, body, "Authorization", bearer(name), "Idempotency-Key", "1", "Order-Source", "rival")
	}
	require.Equal(t, http.StatusCreated, as("shop", "POST", "/v1/orders", body("A")).status)
	require.Equal(t, http.StatusCreated, as("rival", "POST", "/v1/orders", body("B")).status, "two clients may use one key")
	require.Equal(t, "pending", as("rival", "POST", "/v1/orders", body("A")).problem(t).name())
	require.Equal(t, "shop", as("shop", "GET", "/v1/orders?order_no=A", "").outcome(t).Source, "whatever a header says")

	hidden := func() {
		t.Helper()
		for _, method := range []string{"GET", "DELETE"} {
			for _, query := range []string{"", "&submission=shop:1", "&submission=1"} {
				a, none := as("rival", method, "/v1/orders?order_no=A"+query, ""), as("rival", method, "/v1/orders?order_no=no-such-order"+query, "")
				require.Equal(t, http.StatusNotFound, a.status, a.text)
				require.Equal(t, none.text, a.text, "%s %s: it tells that there is an order", method, query)
			}
		}
	}
	hidden()
	require.Equal(t, "pending", as("desk", "GET", "/v1/orders?order_no=A&submission=shop:1", "").outcome(t).State)
	require.NotContains(t, as("shop", "GET", "/v1/orders?order_no=A&submission=2", "").text, "last word", "there is no result yet")
	require.Equal(t, "forbidden", as("mute", "GET", "/v1/orders?order_no=A", "").problem(t).name())
	r.settle(2)
	hidden()
	require.Contains(t, as("shop", "GET", "/v1/orders?order_no=A&submission=2", "").problem(t).Detail, `the last word on the order_no is about another one, and is "accepted"`)
	for name, sees := range map[string]int{"shop": 1, "rival": 1, "desk": 2} {
		lines := outcomes(t, as(name, "GET", "/v1/outcomes?wait=5s", "").text)
		require.Len(t, lines.got, sees, name)
		require.EqualValues(t, 2, lines.next, "%s goes on behind what it does not see", name)
	}
}

// TestTwoClientsBringTheSameOrder: it is accepted, and the second learns so of its own submission.
func TestTwoClientsBringTheSameOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options, _ *queue.Config) {
		o.Clients = clientsFile(t, map[string][]Scope{"shop": {Submit, Read}, "rival": {Submit, Read}})
	})
	as := func(name, method, path, body string) answer {
		return r.do(method, path, body, "Authorization", bearer(name), "Idempotency-Key", "1", "Order-Batch", "april")
	}
	receipts := map[string]string{}
	for _, name := range []string{"shop", "rival"} {
		a := as(name, "POST", "/v1/orders", body("A"))
		require.Equal(t, http.StatusCreated, a.status, a.text)
		receipts[name] = a.header.Get("Location")
		r.settle(1)
		require.Eventually(t, func() bool { return r.worker.Trimmer.Trim(t.Context()) == nil && r.stored() == 0 }, patience, 5*time.Millisecond)
		o := as(name, "GET", receipts[name], "").outcome(t)
		require.Equal(t, []string{name + ":1", "accepted", "yes"}, []string{o.Submission, o.Outcome, o.Created})
		feed := as(name, "GET", "/v1/outcomes", "").text
		require.Len(t, outcomes(t, feed).got, 1, name)
		if name == "rival" {
			require.Empty(t, o.Batch+o.Source, "they are shop's")
			require.NotContains(t, feed, "shop")
		} else {
			require.Equal(t, []string{"april", "shop"}, []string{o.Batch, o.Source})
		}
	}
	require.Contains(t, as("shop", "GET", receipts["shop"], "").problem(t).Detail, `the last word on the order_no is about another one, and is "accepted"`)
	require.Equal(t, "accepted", as("shop", "GET", "/v1/orders?order_no=A", "").outcome(t).Outcome)
}

// TestAKeyThatLooksLikeAReceipt is found by itself.
func TestAKeyThatLooksLikeAReceipt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("A"), "Idempotency-Key", "local:1").status)
	for _, id := range []string{"local:1", "local:local:1"} {
		require.Equal(t, "local:local:1", r.do("GET", "/v1/orders?order_no=A&submission="+id, "").outcome(t).Submission)
	}
}

// TestClientsThatEndTheirSide of the connection behind the request get their receipts.
func TestClientsThatEndTheirSide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 50 { // the door notices most of them before the order is stored
		text := body(fmt.Sprint("A-", i))
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintf(conn, "POST /v1/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
	require.Equal(t, 50, r.stored())
}

// TestParametersThatCannotBeRead are refused, on every address: a request without them is
// about something else. So are a wrong name and a name that comes twice, and nothing is
// withdrawn.
func TestParametersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, key := range []string{"1", "2"} {
		a := r.do("POST", "/v1/orders", body("A-"+key), "Idempotency-Key", key)
		require.Equal(t, http.StatusCreated, a.status, a.text)
	}
	for request, where := range map[string]string{
		"DELETE /v1/orders?order_no=A-2&submission=other;key":      "parameters",
		"DELETE /v1/orders?order_no=A-2&submission=other%zz":       "parameters",
		"DELETE /v1/orders?order_no=A-2&submision=other":           "parameter submision",
		"DELETE /v1/orders?order_no=A-2&submission=1&submission=2": "parameter submission",
		"DELETE /v1/orders?order_no=A-2&submission=2&wait=1s":      "parameter wait",
		"DELETE /v1/orders?order_no=A-2&submission=":               "parameter submission",
		"GET /v1/orders?order_no=A-2&submission":                   "parameter submission",
		"GET /v1/orders?order_no=A-2&submission=other;key":         "parameters",
		"GET /v1/orders?order_no=A-2&wait=3s;x=1":                  "parameters",
		"GET /v1/orders?order_no=A-2&wait=3s&wait=1s":              "parameter wait",
		"GET /v1/outcomes?after=0%zz":                              "parameters",
		"GET /v1/outcomes?afer=0":                                  "parameter afer",
		"GET /v1/outcomes?after=0&after=1":                         "parameter after",
		"POST /v1/orders?a;b":                                      "parameters",
		"POST /v1/imports?a;b":                                     "parameters",
		"GET /v1/imports/x?a;b":                                    "parameters",
		"DELETE /v1/imports/x?a;b":                                 "parameters",
		"GET /v1/imports/x/results?a;b":                            "parameters",
	} {
		method, path, _ := strings.Cut(request, " ")
		a := r.do(method, path, body("B"))
		require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", request, a.text)
		p := a.problem(t)
		require.Equal(t, []string{"bad-request", where}, []string{p.name(), p.Where}, request)
		require.NotEmpty(t, p.Seen, request)
		require.NotEmpty(t, p.Do, request)
	}
	require.Equal(t, "pending", r.do("GET", "/v1/orders?order_no=A-2&submission=2", "").outcome(t).State)
	require.Equal(t, 2, r.stored())
	r.settle(2)
	require.Equal(t, "accepted", r.do("GET", "/v1/orders?order_no=A-2&submission=2", "").outcome(t).Outcome, "it was withdrawn")
}

// TestAnOrderAmongTooManyThatWait is not said to be unknown: nobody looked for it.
func TestAnOrderAmongTooManyThatWait(t *testing.T) {
	t.Parallel()
	path := clientsFile(t, map[string][]Scope{"shop": {Submit, Read, Cancel}, "desk": {Submit, ReadAll}}, func(e *Entry) { e.Rate = 1_000_000 })
	r := newRig(t, func(o *Options, _ *queue.Config) { o.Clients = path })
	var lines strings.Builder
	for i := range 10_001 {
		lines.WriteString(body(fmt.Sprint("F-", i)) + "\n")
	}
	bring := func(name, text string, header ...string) {
		t.Helper()
		a := r.do("POST", "/v1/orders", text, append(header, "Authorization", bearer(name), "Order-Lane", "bulk")...)
		require.Less(t, a.status, 300, a.text)
	}
	require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("S"), "Authorization", bearer("desk")).status)
	r.settle(1)
	bring("shop", body("A"), "Idempotency-Key", "1")
	bring("desk", lines.String(), "Content-Type", mediaLines)
	for _, method := range []string{"GET", "DELETE"} {
		for _, no := range []string{"A", "F-1", "S", "none"} { // whosever it is
			a := r.do(method, "/v1/orders?order_no="+no, "", "Authorization", bearer("shop"))
			require.Equal(t, http.StatusServiceUnavailable, a.status, a.text)
			require.Equal(t, "not-searched", a.problem(t).name())
			require.NotEmpty(t, a.header.Get("Retry-After"))
		}
	}
	require.Equal(t, "pending", r.do("GET", "/v1/orders?order_no=A&submission=1", "", "Authorization", bearer("shop")).outcome(t).State)
}
