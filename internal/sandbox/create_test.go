package sandbox

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAccountNeedsTheKeyAlone(t *testing.T) {
	a := start(t, func(c *Config) { c.Account = "acme" })
	get := func(key string) answered {
		r, err := http.NewRequest(http.MethodGet, a.url+accountPath, nil)
		require.NoError(t, err)
		if key != "" {
			r.Header.Set("X-API-Key", key)
		}
		got, err := a.do(r)
		require.NoError(t, err)
		return got
	}
	ok := get(testKey)
	require.Equal(t, http.StatusOK, ok.status)
	require.JSONEq(t, `{"code":0,"message":"ok","data":{"account":"acme"}}`, ok.body)
	require.Equal(t, "application/json", ok.header.Get("Content-Type"))
	require.Equal(t, 401, get("").status)
	require.Equal(t, 401, get("other").status)

	l := a.server.Ledger()
	require.Equal(t, []int64{1, 1, 1}, []int64{l.Answers["account"], l.Answers["no-key"], l.Answers["unknown-key"]})
	require.Equal(t, []KeyUse{{"****", 1, 0}}, l.Keys)
}

func TestCreate(t *testing.T) {
	a := start(t, nil)
	got := a.post("A-1")
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, `"order_no":"A-1"`)
	require.Equal(t, 1, a.server.Created("A-1"))
	require.Zero(t, a.server.Created("A-2"))
	e, ok := a.server.Lookup("A-1")
	require.True(t, ok)
	require.Equal(t, testTime.UTC(), e.FirstAt)
	// sha256 of {"order_no":"A-1","timeout":60,"amount":"12.50"}
	require.Equal(t, "cb03f57152b4a39512bf8951104384e037606c1e55d873f518b07c5a8cabeea9", e.BodyHash.String())
}

// TestBadRequests sends a good request with one thing wrong.
func TestBadRequests(t *testing.T) {
	resign := func(r *http.Request, body, text string) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("X-Signature", hexMAC(testSecret, text))
	}
	raw := func(body string) func(*http.Request) {
		return func(r *http.Request) { resign(r, body, "") }
	}
	for _, c := range []struct {
		name   string
		answer Answer
		status int
		spoil  func(*http.Request)
	}{
		{"no content type", AnswerMediaType, 415, func(r *http.Request) { r.Header.Del("Content-Type") }},
		{"content type with charset", AnswerMediaType, 415, func(r *http.Request) {
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
		}},
		{"no key", AnswerNoKey, 401, func(r *http.Request) { r.Header.Del("X-API-Key") }},
		{"two keys", AnswerNoKey, 401, func(r *http.Request) { r.Header.Add("X-API-Key", testKey) }},
		{"unknown key", AnswerUnknownKey, 401, func(r *http.Request) { r.Header.Set("X-API-Key", "nobody") }},
		{"no signature", AnswerNoSignature, 401, func(r *http.Request) { r.Header.Del("X-Signature") }},
		{"short signature", AnswerBadSignature, 401, func(r *http.Request) { r.Header.Set("X-Signature", "00") }},
		{"signature that is no hex", AnswerBadSignature, 401, func(r *http.Request) {
			r.Header.Set("X-Signature", strings.Repeat("zz", 32))
		}},
		{"another secret", AnswerBadSignature, 401, func(r *http.Request) {
			r.Header.Set("X-Signature", order{"A-1", "12.50", testTime.UnixMilli() + 1}.signature("other"))
		}},
		{"another amount than signed", AnswerBadSignature, 401, func(r *http.Request) {
			body := order{"A-1", "12.51", testTime.UnixMilli() + 1}.body()
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		}},
		{"not JSON", AnswerMalformed, 400, raw("order_no=1")},
		{"an array", AnswerMalformed, 400, raw("[]")},
		{"empty", AnswerMalformed, 400, raw("")},
		{"no timestamp", AnswerIncomplete, 400, raw(`{"order_no":"A-1","timeout":60}`)},
		{"timestamp as text", AnswerIncomplete, 400, raw(`{"order_no":"A-1","timestamp":"1750000000000"}`)},
		{"timestamp with a fraction", AnswerIncomplete, 400, raw(`{"order_no":"A-1","timestamp":1750000000000.5}`)},
		{"no order_no", AnswerIncomplete, 400, func(r *http.Request) {
			resign(r, `{"timeout":60,"timestamp":1750000000000}`, "timeout=60&timestamp=1750000000000")
		}},
		{"order_no is a number", AnswerIncomplete, 400, func(r *http.Request) {
			resign(r, `{"order_no":1,"timeout":60,"timestamp":1750000000000}`, "order_no=1&timeout=60&timestamp=1750000000000")
		}},
		{"order_no is empty", AnswerIncomplete, 400, func(r *http.Request) {
			resign(r, `{"order_no":"","timeout":60,"timestamp":1750000000000}`, "order_no=&timeout=60&timestamp=1750000000000")
		}},
		{"no timeout", AnswerIncomplete, 400, func(r *http.Request) {
			resign(r, `{"order_no":"A-1","timestamp":1750000000000}`, "order_no=A-1&timestamp=1750000000000")
		}},
		{"timeout as text", AnswerIncomplete, 400, func(r *http.Request) {
			resign(r, `{"order_no":"A-1","timeout":"60","timestamp":1750000000000}`,
				"order_no=A-1&timeout=60&timestamp=1750000000000")
		}},
		{"too large", AnswerTooLarge, 413, raw(strings.Repeat(" ", 1001))},
		{"too large, length not announced", AnswerTooLarge, 413, func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, 1001))), -1
		}},
		{"another path", AnswerNotFound, 404, func(r *http.Request) { r.URL.Path = "/v1/order" }},
		{"another method", AnswerBadMethod, 405, func(r *http.Request) { r.Method = http.MethodPut }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := start(t, func(c *Config) { c.MaxBody = 1000 })
			r := a.request(a.order("A-1"))
			c.spoil(r)
			got, err := a.do(r)
			require.NoError(t, err)
			require.Equal(t, c.status, got.status, got.body)
			require.Equal(t, answerSpecs[c.answer].code, got.code(), got.body)

			l := a.server.Ledger()
			require.EqualValues(t, 1, l.Answers[c.answer.String()])
			require.EqualValues(t, 1, l.Requests)
			require.Zero(t, l.OrdersSeen, "a bad request leaves no trace of its order")
			wantBad := c.answer == AnswerBadSignature || c.answer == AnswerNoSignature
			require.Equal(t, wantBad, l.SignatureFailures == 1)
		})
	}
}

// TestOtherSpellingsOfTheSameBody: what counts is what JSON.parse makes of a
// body, not its bytes.
func TestOtherSpellingsOfTheSameBody(t *testing.T) {
	for name, body := range map[string]string{
		"blanks":          ` { "order_no" : "A-1" , "timeout" : 60 , "amount":"12.50","timestamp":1750000000001 } `,
		"another order":   `{"timestamp":1750000000001,"amount":"12.50","timeout":60,"order_no":"A-1"}`,
		"escapes":         `{"order_no":"\u0041-1","timeout":60,"\u0061mount":"12.50","timestamp":1750000000001}`,
		"number spelling": `{"order_no":"A-1","timeout":6.0e1,"amount":"12.50","timestamp":1.750000000001e12}`,
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t, nil)
			r := a.request(a.order("A-1")) // with the signature of the usual spelling
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
			got, err := a.do(r)
			require.NoError(t, err)
			require.Equal(t, 200, got.status, got.body)
			require.Equal(t, 1, a.server.Created("A-1"))
		})
	}
}

func TestUpperCaseHexIsHexadecimal(t *testing.T) {
	a := start(t, nil)
	r := a.request(a.order("A-1"))
	r.Header.Set("X-Signature", strings.ToUpper(r.Header.Get("X-Signature")))
	got, err := a.do(r)
	require.NoError(t, err)
	require.Equal(t, 200, got.status, got.body)
}

func TestWindow(t *testing.T) {
	for _, c := range []struct {
		age, skew time.Duration
		status    int
	}{
		{0, 0, 200},
		{10 * time.Second, 0, 200},
		{-10 * time.Second, 0, 200},
		{10*time.Second + time.Millisecond, 0, 401},
		{-10*time.Second - time.Millisecond, 0, 401},
		{0, 11 * time.Second, 401},
		{-11 * time.Second, 11 * time.Second, 200},
	} {
		a := start(t, func(cfg *Config) { cfg.Window, cfg.Skew = 10*time.Second, c.skew })
		o := a.order("A-1")
		o.timestamp = testTime.Add(-c.age).UnixMilli()
		got, err := a.do(a.request(o))
		require.NoError(t, err)
		require.Equal(t, c.status, got.status, "age %s, skew %s: %s", c.age, c.skew, got.body)
		if c.status == 401 {
			require.Equal(t, 100101, got.code())
		}
		if c.skew != 0 {
			require.Equal(t, testTime.Add(c.skew).UTC().Format(http.TimeFormat), got.header.Get("Date"))
		}
	}
}

func TestReplayedSignatureIsRefused(t *testing.T) {
	a := start(t, func(c *Config) { c.Duplicates = ReturnOriginal; c.Faults.Unavailable = 1 })
	o := a.order("A-1")
	first, err := a.do(a.request(o))
	require.NoError(t, err)
	require.Equal(t, 503, first.status)
	a.set(func(s *Settings) { s.Faults.Unavailable = 0 })

	again, err := a.do(a.request(o))
	require.NoError(t, err)
	require.Equal(t, 401, again.status, "used up, whatever the first answer was")
	require.Equal(t, 100103, again.code())
	require.Zero(t, a.server.Created("A-1"))
	require.Equal(t, 200, a.post("A-1").status, "a new timestamp makes a new signature")
}

func TestReplayIsRefusedForAsLongAsTheWindow(t *testing.T) {
	a := start(t, func(c *Config) { c.Window = time.Minute })
	o := a.order("A-1")
	for seconds := range 61 {
		got, err := a.do(a.request(o))
		require.NoError(t, err)
		want := 100103
		if seconds == 0 {
			want = 0
		}
		require.Equal(t, want, got.code(), "after %d s", seconds)
		a.clock.Add(1000)
		for sh := range a.server.replays.shards { // as the next signature would
			a.server.replays.shards[sh].forget(time.UnixMilli(a.clock.Load()).Add(-time.Minute))
		}
	}
	got, err := a.do(a.request(o))
	require.NoError(t, err)
	require.Equal(t, 100101, got.code(), "then it is too old")
}

func TestReplayMemoryIsBoundedByTheWindow(t *testing.T) {
	a := start(t, func(c *Config) { c.Window = time.Minute })
	for i := range 40 { // one order every half minute, for 20 minutes
		a.clock.Add((30 * time.Second).Milliseconds())
		a.stamp.Store(a.clock.Load())
		require.Equal(t, 200, a.post("A-"+string(rune('0'+i))).status)
		// Every shard forgets when it next hears of a new span.
		for sh := range a.server.replays.shards {
			a.server.replays.shards[sh].forget(time.UnixMilli(a.clock.Load()).Add(-time.Minute))
		}
		require.LessOrEqual(t, a.server.replays.size(), 4)
	}
}

func TestDuplicates(t *testing.T) {
	for _, c := range []struct {
		policy    Duplicates
		amount    string
		status    int
		created   int
		sameOrder bool
	}{
		{RefuseDuplicates, "12.50", 409, 1, false},
		{RefuseDuplicates, "99.00", 409, 1, false},
		{ReturnOriginal, "12.50", 200, 1, true},
		{ReturnOriginal, "99.00", 409, 1, false},
		{CreateTwice, "12.50", 200, 2, false},
	} {
		t.Run(c.policy.String()+"/"+c.amount, func(t *testing.T) {
			a := start(t, func(cfg *Config) { cfg.Duplicates = c.policy })
			first := a.post("A-1")
			o := a.order("A-1")
			o.amount = c.amount
			second, err := a.do(a.request(o))
			require.NoError(t, err)
			require.Equal(t, c.status, second.status, second.body)
			require.Equal(t, c.created, a.server.Created("A-1"))
			require.Equal(t, c.sameOrder, first.body == second.body, "%s %s", first.body, second.body)
			l := a.server.Ledger()
			require.EqualValues(t, c.created, l.Creations)
			require.EqualValues(t, 1, l.OrdersCreated)
			require.EqualValues(t, c.created-1, l.CreatedTwice)
		})
	}
}

func TestKeysComeAndGo(t *testing.T) {
	a := start(t, nil)
	require.NoError(t, a.server.AddKey("second", "second-secret"))
	o := a.order("A-1")
	r := a.request(o)
	r.Header.Set("X-API-Key", "second")
	got, err := a.do(r)
	require.NoError(t, err)
	require.Equal(t, 401, got.status, "signed with the secret of another pair")
	r = a.request(o)
	r.Header.Set("X-API-Key", "second")
	r.Header.Set("X-Signature", o.signature("second-secret"))
	got, err = a.do(r)
	require.NoError(t, err)
	require.Equal(t, 200, got.status, got.body)

	require.True(t, a.server.RevokeKey(testKey))
	require.False(t, a.server.RevokeKey(testKey))
	require.Equal(t, 100105, a.post("A-2").code())
	for _, key := range []string{"3", "4", "5", "6", "7", "8", "9", "10", "11"} {
		require.NoError(t, a.server.AddKey(key, "s"))
	}
	require.ErrorIs(t, a.server.AddKey("eleventh", "s"), errTooManyKeys)
	require.NoError(t, a.server.AddKey("second", "new secret"), "a new secret for a known key is no eleventh pair")
}

// idOf finds the order's id, which is the sandbox's own affair.
var idOf = regexp.MustCompile(`"sb-[0-9-]+"`)

func TestManners(t *testing.T) {
	for _, c := range []struct {
		manner                    Manner
		success, duplicate, wrong string
		duplicateAs, wrongAs      int
	}{
		{MannerStatus,
			`{"code":0,"message":"ok","data":{"order_no":"A-1","order_id":"ID","status":"created"}}`,
			`{"code":300301,"error":"duplicate","message":"an order with this order_no exists"}`,
			`{"code":100104,"error":"bad-signature","message":"the signature does not match"}`, 409, 401},
		{MannerCode,
			`{"code":0,"message":"ok","data":{"order_no":"A-1","order_id":"ID","status":"created"}}`,
			`{"code":300301,"message":"an order with this order_no exists","data":null}`,
			`{"code":100104,"message":"the signature does not match","data":null}`, 200, 200},
		{MannerErrno,
			`{"errno":0,"message":"ok","data":{"order_no":"A-1","order_id":"ID","status":"created"}}`,
			`{"errno":300301,"message":"an order with this order_no exists"}`,
			`{"errno":100104,"message":"the signature does not match"}`, 200, 200},
		{MannerFields,
			`{"order_no":"A-1","order_id":"ID","status":"created"}`,
			`{"order_no":["an order with this order_no exists"]}`,
			`{"signature":["the signature does not match"]}`, 400, 400},
	} {
		t.Run(c.manner.String(), func(t *testing.T) {
			a := start(t, func(cfg *Config) { cfg.Manner = c.manner })
			ok := a.post("A-1")
			require.Equal(t, 200, ok.status)
			require.JSONEq(t, c.success, idOf.ReplaceAllString(ok.body, `"ID"`))
			twice := a.post("A-1")
			require.Equal(t, c.duplicateAs, twice.status)
			require.JSONEq(t, c.duplicate, twice.body)
			r := a.request(a.order("A-2"))
			r.Header.Set("X-Signature", strings.Repeat("0", 64))
			wrong, err := a.do(r)
			require.NoError(t, err)
			require.Equal(t, c.wrongAs, wrong.status)
			require.JSONEq(t, c.wrong, wrong.body)
		})
	}
}

func TestRateLimit(t *testing.T) {
	a := start(t, func(c *Config) { c.Rate, c.Burst = 0.5, 2 })
	require.Equal(t, 200, a.post("A-1").status)
	require.Equal(t, 200, a.post("A-2").status)
	limited := a.post("A-3")
	require.Equal(t, 429, limited.status)
	require.Equal(t, "2", limited.header.Get("Retry-After"))
	require.Zero(t, a.server.Created("A-3"))
	a.set(func(s *Settings) { s.Seed = 9 })
	require.Equal(t, 429, a.post("A-3").status, "another setting gives no new tokens")
	a.clock.Add(2000)
	require.Equal(t, 200, a.post("A-3").status)

	l := a.server.Ledger()
	require.EqualValues(t, 2, l.Answers["rate-limited"])
	second := testTime.Unix()
	require.Equal(t, []Second{{second, 4, 4}, {second + 2, 1, 1}}, l.PerSecond)
	e, _ := a.server.Lookup("A-3")
	require.Equal(t, 1, e.Attempts, "a request beyond the limit is no attempt, or faults would depend on load")
}
