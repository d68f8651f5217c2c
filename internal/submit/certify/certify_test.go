package certify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sandbox"
	"orderpost/internal/sign"
	"orderpost/internal/submit"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/certify"
)

const (
	key    = "AKcertifyKey-0123456789"
	secret = "SKcertifySecret-abcdefghijk"
	sample = `{"order_no":"x","timeout":30,"amount":12.50}`
)

func learn(t *testing.T, url string, change func(*certify.Config)) (*certify.Findings, error) {
	t.Helper()
	return learnIn(t.Context(), t, url, change)
}

func learnIn(ctx context.Context, t *testing.T, url string, change func(*certify.Config)) (*certify.Findings, error) {
	t.Helper()
	signer, err := sign.New(secret)
	require.NoError(t, err)
	cfg := certify.Config{Pair: submit.KeyPair{Key: key, Signer: signer}, Order: []byte(sample), OrderNo: "CERT-{n}"}
	require.NoError(t, env.ParseWithOptions(&cfg.API, env.Options{Prefix: "ORDERPOST_", Environment: map[string]string{"ORDERPOST_API_URL": url}}))
	cfg.Created = func(string, string) bool { return false }
	cfg.Tell = func(line string) { t.Log(line) }
	if change != nil {
		change(&cfg)
	}
	f, err := certify.Learn(ctx, cfg)
	if f != nil {
		t.Log(f.Report() + f.RulesFile() + f.Settings("rules.yaml"))
	}
	return f, err
}

func api(t *testing.T, settings map[string]string) (*sandbox.Server, string) {
	t.Helper()
	s, err := sandbox.New(sandbox.Config{Keys: map[string]string{key: secret}, Logger: zerolog.Nop()})
	require.NoError(t, err)
	url, err := s.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	require.NoError(t, s.Update(func(to *sandbox.Settings) {
		for name, value := range settings {
			require.NoError(t, to.Set(name, value))
		}
	}))
	return s, url
}

// judged is the verdict of the rules that were found on an answer.
func judged(t *testing.T, f *certify.Findings, status int, body string) (order.Verdict, answer.Checked) {
	t.Helper()
	var rules *answer.Rules
	if text := f.RulesFile(); text != "" {
		var err error
		rules, err = answer.ParseRules("rules.yaml", []byte(text))
		require.NoError(t, err, text)
	}
	c, err := answer.Check(rules, order.Resubmit, time.Minute, []byte(body), status, "A-1")
	require.NoError(t, err)
	return c.Verdict, c
}

// TestEachManner: whatever the manner, the rules judge what the sandbox says of other orders.
func TestEachManner(t *testing.T) {
	for manner, answers := range map[string]struct{ exists, seen, late, denied [2]any }{
		"status": {[2]any{409, `{"code":300301,"error":"duplicate","message":"an order with this order_no exists"}`},
			[2]any{401, `{"code":100103,"error":"replayed","message":"the signature was used before"}`},
			[2]any{401, `{"code":100101,"error":"expired","message":"the timestamp is outside the window: it is 9m0s old"}`},
			[2]any{401, `{"code":100104,"error":"bad-signature","message":"the signature does not match"}`}},
		"code": {[2]any{200, `{"code":300301,"message":"an order with this order_no exists","data":null}`},
			[2]any{200, `{"code":100103,"message":"the signature was used before","data":null}`},
			[2]any{200, `{"code":100101,"message":"the timestamp is outside the window: it is 9m0s old","data":null}`},
			[2]any{200, `{"code":100104,"message":"the signature does not match","data":null}`}},
		"errno": {[2]any{200, `{"errno":300301,"message":"an order with this order_no exists"}`},
			[2]any{200, `{"errno":100103,"message":"the signature was used before"}`},
			[2]any{200, `{"errno":100101,"message":"the timestamp is outside the window: it is 9m0s old"}`},
			[2]any{200, `{"errno":100104,"message":"the signature does not match"}`}},
		"fields": {[2]any{400, `{"order_no":["an order with this order_no exists"]}`},
			[2]any{400, `{"signature":["the signature was used before"]}`},
			[2]any{400, `{"timestamp":["the timestamp is outside the window: it is 9m0s old"]}`},
			[2]any{400, `{"signature":["the signature does not match"]}`}},
	} {
		t.Run(manner, func(t *testing.T) {
			s, url := api(t, map[string]string{"manner": manner})
			f, err := learn(t, url, func(c *certify.Config) { c.Idle = []time.Duration{10 * time.Millisecond} })
			require.NoError(t, err)
			require.True(t, f.Usable())
			require.Equal(t, "ORDERPOST_ON_UNSURE=resubmit", f.Policy())
			for _, c := range []struct {
				said [2]any
				want order.Verdict
			}{{answers.exists, order.Duplicate}, {answers.seen, order.Unsure}, {answers.late, order.Denied}, {answers.denied, order.Denied}} {
				got, checked := judged(t, f, c.said[0].(int), c.said[1].(string))
				require.Equal(t, c.want, got, c.said)
				require.Empty(t, checked.Hold, c.said)
				require.Equal(t, c.said == answers.late, checked.TimeError, c.said)
				require.False(t, checked.Final)
			}
			report := f.Report()
			require.Contains(t, report, "timestamps are taken from 1m0s behind to 1m0s ahead")
			require.Contains(t, report, "an order whose connection is cut is created all the same")
			require.Contains(t, f.Settings("r"), "ORDERPOST_IDLE_TIMEOUT=8ms")
			require.NotContains(t, f.RulesFile(), "final: true\n")
			created := 0
			for no, e := range s.Each {
				created += e.Created
				require.Contains(t, f.Orders, no)
			}
			require.LessOrEqual(t, created, 13)
		})
	}
}

// TestRepeatedNumbers decides the policy.
func TestRepeatedNumbers(t *testing.T) {
	for duplicates, want := range map[string]string{"refuse": "resubmit", "return": "resubmit", "create-twice": "park"} {
		for _, manner := range []string{"status", "code", "errno", "fields"} {
			_, url := api(t, map[string]string{"manner": manner, "duplicates": duplicates})
			f, err := learn(t, url, nil)
			require.NoError(t, err)
			require.Equal(t, "ORDERPOST_ON_UNSURE="+want, f.Policy(), "%s %s", duplicates, manner)
			require.Contains(t, f.Settings(""), "ORDERPOST_ON_UNSURE="+want+"\n")
		}
	}
}

func TestBurst(t *testing.T) {
	for _, manner := range []string{"status", "code"} {
		_, url := api(t, map[string]string{"manner": manner, "rate": "20", "burst": "20"})
		f, err := learn(t, url, func(c *certify.Config) { c.Burst, c.Pause = 40, 100*time.Millisecond })
		require.NoError(t, err)
		require.Contains(t, f.Settings(""), "ORDERPOST_RATE_LIMIT=")
		status := map[string]int{"status": 429, "code": 200}[manner]
		got, checked := judged(t, f, status, `{"code":100429,"message":"too many requests","data":null}`)
		require.Equal(t, order.Retry, got)
		require.True(t, checked.Throttle)
	}
}

// TestRefusedSample: nothing can be learnt, and no rule says more than was shown.
func TestRefusedSample(t *testing.T) {
	_, url := api(t, map[string]string{"manner": "code", "fault-refuse": "1"})
	f, err := learn(t, url, nil)
	require.ErrorIs(t, err, certify.ErrNothingLearnt)
	require.Empty(t, f.RulesFile())
	require.Len(t, f.Orders, 1)
	require.Equal(t, "ORDERPOST_ON_UNSURE=park", f.Policy())
}

// TestCutShort: what was sent is named, and nothing is concluded.
func TestCutShort(t *testing.T) {
	s, url := api(t, nil)
	sent := 0
	f, err := learn(t, url, func(c *certify.Config) {
		c.Tell = func(string) {
			if sent++; sent == 5 {
				_ = s.Close()
			}
		}
	})
	require.NoError(t, err, "an API that goes away is an answer, too")
	require.False(t, f.Usable())
	require.Equal(t, "ORDERPOST_ON_UNSURE=park", f.Policy())

	_, url = api(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	f, err = learnIn(ctx, t, url, func(c *certify.Config) { c.Tell = func(string) { cancel() } })
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, f.Orders, 1)
	require.Empty(t, f.RulesFile())
}

// stranger is an API that nobody wrote for this program: 201 without a word of success, one code for every refusal, texts
// of its own, no window, and a repeated number that it takes as it likes.
type stranger struct {
	mu      sync.Mutex
	orders  map[string]int
	repeats string // refuse, return, twice, or quiet: it says the same whatever it does
}

func (s *stranger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	say := func(status int, format string, args ...any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, format, args...)
	}
	if r.Method == http.MethodGet {
		say(200, `{"balance":"10.00"}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	signer, _ := sign.New(secret)
	var o struct {
		OrderNo string `json:"order_no"`
		Timeout *int   `json:"timeout"`
	}
	_ = json.Unmarshal(body, &o)
	switch n := s.orders[o.OrderNo]; {
	case r.Header.Get("X-Api-Key") != key, signer.Verify(body, r.Header.Get("X-Signature")) != nil:
		say(400, `{"failure":{"kind":"E1","text":"Authentication did not succeed"}}`)
	case o.Timeout == nil:
		say(400, `{"failure":{"kind":"E1","text":"Field timeout must be given"}}`)
	case n > 0 && s.repeats == "refuse":
		say(400, `{"failure":{"kind":"E1","text":"Number %s is taken"}}`, o.OrderNo)
	case n > 0 && s.repeats == "return":
		say(201, `{"ref":"ref-%d"}`, n)
	case s.repeats == "quiet":
		s.orders[o.OrderNo]++
		say(201, `{"queued":1}`)
	default:
		s.orders[o.OrderNo] = len(s.orders) + 1 + 1000*n
		say(201, `{"ref":"ref-%d"}`, s.orders[o.OrderNo])
	}
}

func TestAnAPIThatWasNotWrittenForIt(t *testing.T) {
	for repeats, want := range map[string]string{"refuse": "resubmit", "return": "resubmit", "twice": "park", "quiet": "park"} {
		t.Run(repeats, func(t *testing.T) {
			server := httptest.NewServer(&stranger{orders: make(map[string]int), repeats: repeats})
			defer server.Close()
			f, err := learn(t, server.URL, nil)
			require.ErrorIs(t, err, certify.ErrNothingLearnt, "the answer says nothing, and nobody else does")
			require.Len(t, f.Orders, 1)

			server.Config.Handler = &stranger{orders: make(map[string]int), repeats: repeats}
			f, err = learn(t, server.URL, func(c *certify.Config) {
				c.Created = func(_, answer string) bool { return strings.HasPrefix(answer, "201 ") }
			})
			require.NoError(t, err)
			require.True(t, f.Usable())
			require.Equal(t, "ORDERPOST_ON_UNSURE="+want, f.Policy())
			for body, want := range map[string]order.Verdict{
				`{"failure":{"kind":"E1","text":"Authentication did not succeed"}}`: order.Denied,
				`{"failure":{"kind":"E1","text":"Field timeout must be given"}}`:    order.Rejected,
			} {
				got, _ := judged(t, f, 400, body)
				require.Equal(t, want, got, body)
			}
			if repeats == "refuse" {
				got, _ := judged(t, f, 400, `{"failure":{"kind":"E1","text":"Number A-77 is taken"}}`)
				require.Equal(t, order.Duplicate, got)
			}
			got, _ := judged(t, f, 201, map[bool]string{true: `{"queued":1}`, false: `{"ref":"ref-99"}`}[repeats == "quiet"])
			require.Equal(t, order.Accepted, got)
		})
	}
}

// TestALookup: the rules that were made find the orders that exist, whatever the manner; what would end a doubt by an
// absence is a comment, which is a whole section once its signs are removed.
func TestALookup(t *testing.T) {
	for _, manner := range []string{"status", "code", "errno", "fields"} {
		t.Run(manner, func(t *testing.T) {
			_, url := api(t, map[string]string{"manner": manner, "lookup-lag": "50ms"})
			const request = "GET /v1/order/{order_no}"
			lookup, err := certify.ParseLookup(request)
			require.NoError(t, err)
			var cfg submit.Config
			f, err := learn(t, url, func(c *certify.Config) { c.Lookup, c.LookupRequest, cfg = lookup, request, c.API })
			require.NoError(t, err)
			require.Contains(t, f.Report(), "an order that was created is found by a lookup within ")
			text := f.RulesFile()
			rules, err := answer.ParseRules("rules.yaml", []byte(text))
			require.NoError(t, err, text)
			require.Zero(t, rules.Lookup().AbsentFor, text)
			found := func(rules *answer.Rules, no string) order.Found {
				client, err := cfg.Client()
				require.NoError(t, err)
				defer client.Close()
				path, ok := rules.Lookup().Path(no)
				require.True(t, ok)
				x := client.Look(t.Context(), key, no, path)
				found, _ := rules.Lookup().Judge(&x.Answer)
				return found
			}
			require.Eventually(t, func() bool { return found(rules, f.Orders[0]) == order.FoundExists }, time.Minute, 10*time.Millisecond)
			require.Equal(t, order.FoundNothing, found(rules, "NONE"))
			whole := regexp.MustCompile(`(?m)^#(  )`).ReplaceAllString(text, "$1")
			rules, err = answer.ParseRules("rules.yaml", []byte(whole))
			require.NoError(t, err, whole)
			require.Equal(t, time.Minute, rules.Lookup().Window)
			require.Equal(t, 3*time.Minute+cfg.RequestTimeout, rules.Lookup().AbsentFor)
			require.Equal(t, order.FoundAbsent, found(rules, "NONE"))
			require.Equal(t, order.FoundExists, found(rules, f.Orders[0]))
		})
	}
	for wrong, says := range map[string]string{"POST /v1/order/{order_no}": "must be GET", "GET /v1/order": "must hold {order_no} once"} {
		_, err := certify.ParseLookup(wrong)
		require.ErrorContains(t, err, "--lookup: ")
		require.ErrorContains(t, err, says)
	}
}
