package sandbox

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func (a *api) admin(method, path, body string) answered {
	a.t.Helper()
	r, err := http.NewRequest(method, a.url+adminPrefix+path, strings.NewReader(body))
	require.NoError(a.t, err)
	got, err := a.do(r)
	require.NoError(a.t, err)
	return got
}

func TestConfigChangesWhileRunning(t *testing.T) {
	a := start(t, nil)
	require.Equal(t, 200, a.post("A-1").status)
	got := a.admin("PUT", "config", `{"fault-503":1,"latency":"1ms","manner":"code","seed":18446744073709551615}`)
	require.Equal(t, 200, got.status, got.body)
	var now map[string]string
	require.NoError(t, json.Unmarshal([]byte(a.admin("GET", "config", "").body), &now))
	require.Equal(t, "1", now["fault-503"])
	require.Equal(t, "1ms", now["latency"])
	require.Equal(t, "18446744073709551615", now["seed"])
	require.Len(t, now, len(knobs))
	require.Equal(t, 100503, a.post("A-2").code())
}

func TestBadConfigChangesNothing(t *testing.T) {
	a := start(t, nil)
	before := a.server.Settings()
	for body, want := range map[string][]string{
		`{"fault-503":2,"jitter":"-1s"}`:                               {"fault-503: 2 is not a rate", "jitter: -1s is negative"},
		`{"fault-503":0.5,"jitter":"-1s","latency":"soon","nope":"1"}`: {"jitter: -1s is negative", `latency: "soon" is not a duration`, "nope: there is no such setting"},
		`{"manner":"odd"}`:                                             {`"odd" is none of status, code, errno, fields`},
		`{"down":true}`:                                                {"down: the value must be a string or a number"},
		`{"fault-503":"NaN"}`:                                          {"fault-503: NaN is not a rate"},
		`{"rate":"inf"}`:                                               {"rate: +Inf is not a number of requests"},
		`[]`:                                                           {"not the JSON that is expected"},
	} {
		got := a.admin("PUT", "config", body)
		require.Equal(t, 400, got.status, got.body)
		for _, w := range want {
			var errs struct{ Errors []string }
			require.NoError(t, json.Unmarshal([]byte(got.body), &errs))
			require.Contains(t, strings.Join(errs.Errors, "\n"), w)
		}
	}
	got := a.admin("PUT", "config", `{"down":"refuse"}`)
	require.Equal(t, 409, got.status, got.body)
	require.Equal(t, before, a.server.Settings())
}

func TestKeysOverHTTP(t *testing.T) {
	a := start(t, nil)
	require.Equal(t, 204, a.admin("PUT", "keys/new-key-12345", `{"secret":"s3cret-of-it"}`).status)
	require.Equal(t, 400, a.admin("PUT", "keys/empty", `{"secret":""}`).status)
	require.Equal(t, 400, a.admin("PUT", "keys/odd", `{"sekret":"x"}`).status)
	require.Equal(t, 204, a.admin("DELETE", "keys/"+testKey, "").status)
	require.Equal(t, 404, a.admin("DELETE", "keys/"+testKey, "").status)
	require.Equal(t, 100105, a.post("A-1").code())
	ledger := a.admin("GET", "ledger", "").body
	require.Contains(t, ledger, `"key":"new-****"`)
	require.NotContains(t, ledger, "s3cret-of-it")
	for i := range MaxKeys - 1 {
		require.Equal(t, 204, a.admin("PUT", "keys/k"+string(rune('0'+i)), `{"secret":"s"}`).status)
	}
	require.Equal(t, 409, a.admin("PUT", "keys/eleventh", `{"secret":"s"}`).status)
}

func TestLedgerAndOrdersOverHTTP(t *testing.T) {
	a := start(t, nil)
	a.post("A/1")
	a.post("A/1")
	a.post("A 2")
	var l Ledger
	require.NoError(t, json.Unmarshal([]byte(a.admin("GET", "ledger", "").body), &l))
	require.EqualValues(t, 3, l.Requests, "requests for the ledger itself do not count")
	require.EqualValues(t, 2, l.OrdersCreated)
	require.EqualValues(t, 1, l.Answers["duplicate"])

	got := map[string]Entry{}
	for lines := json.NewDecoder(strings.NewReader(a.admin("GET", "orders", "").body)); lines.More(); {
		var o OrderLine
		require.NoError(t, lines.Decode(&o))
		got[o.OrderNo] = o.Entry
	}
	want := map[string]Entry{}
	for no, e := range a.server.Each {
		want[no] = e
	}
	require.Equal(t, want, got, "what is written can be read again, whole")
	require.Equal(t, 2, got["A/1"].Attempts)
	require.Equal(t, testTime.UTC(), got["A 2"].FirstAt)
	require.NotZero(t, got["A 2"].BodyHash)
	require.Contains(t, a.admin("GET", "orders/A%2F1", "").body, `"attempts":2`)
	require.Equal(t, 404, a.admin("GET", "orders/A-3", "").status)
	require.Equal(t, 404, a.admin("GET", "requests", "").status, "no trail is kept unless asked for")
	require.Equal(t, 405, a.admin("POST", "ledger", "").status)
}

func TestTrailKeepsTheLastRequests(t *testing.T) {
	a := start(t, func(c *Config) { c.Trail = 3; c.Faults.UnavailableAfter = 1 })
	for _, no := range []string{"A-1", "A-2", "A-3"} {
		a.post(no)
	}
	r, err := http.NewRequest(http.MethodGet, a.url+accountPath, nil)
	require.NoError(t, err)
	_, err = a.do(r)
	require.NoError(t, err)

	var steps []Step
	for dec := json.NewDecoder(strings.NewReader(a.admin("GET", "requests", "").body)); dec.More(); {
		var s Step
		require.NoError(t, dec.Decode(&s))
		steps = append(steps, s)
	}
	require.Len(t, steps, 3)
	require.Equal(t, "A-2", steps[0].OrderNo)
	require.Equal(t, "503-after", steps[1].Fault)
	require.Equal(t, 503, steps[1].Status)
	require.Contains(t, steps[1].Body, `"order_no":"A-3"`)
	require.Equal(t, Step{At: testTime.UTC(), Method: "GET", Path: accountPath, Answer: "no-key", Status: 401}, steps[2])
}
