package submit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/platform/secret"
	"orderpost/internal/sandbox"
	"orderpost/internal/sign"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
	"orderpost/internal/testing/patient"
)

const (
	testKey    = "AKsandboxKey-0123456789"
	testSecret = "SKsandboxSecret-abcdefghijk"
)

// bench is a Submitter with the real signer against the sandbox.
type bench struct {
	*submit.Submitter
	t    testing.TB
	api  *sandbox.Server
	log  *patient.Buffer
	seen *patient.Buffer // what an observer is shown
}

// Attempted implements submit.Observer.
func (b *bench) Attempted(a submit.AttemptEvent) { fmt.Fprintf(b.seen, "%+v\n", a) }

// GateChanged implements submit.Observer.
func (b *bench) GateChanged(s gate.State) { fmt.Fprintf(b.seen, "%+v\n", s) }

// Retrying implements submit.Observer.
func (b *bench) Retrying(wait time.Duration, queued bool) { fmt.Fprintln(b.seen, wait, queued) }

// LookedUp implements submit.Observer.
func (b *bench) LookedUp(found order.Found) { fmt.Fprintln(b.seen, found) }

type benchConfig struct {
	key, secret string
	settings    map[string]string // of the sandbox
	path        string            // behind the sandbox's base URL
	change      func(*submit.Config)
	signer      submit.Signer
}

func newBench(t testing.TB, c benchConfig) *bench {
	t.Helper()
	api, err := sandbox.New(sandbox.Config{Keys: map[string]string{testKey: testSecret}, Logger: zerolog.Nop()})
	require.NoError(t, err)
	base, err := api.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { api.Close() })
	b := &bench{t: t, api: api, log: &patient.Buffer{}, seen: &patient.Buffer{}}
	b.set(c.settings)

	cfg := submit.DefaultConfig(base + c.path)
	cfg.RetryBase, cfg.RetryMax = time.Millisecond, 5*time.Millisecond
	cfg.RetryDelayBase, cfg.RetryDelayMax = 5*time.Millisecond, 5*time.Millisecond
	cfg.BreakerOpen, cfg.HoldRetry, cfg.ProbeDelay = 2*time.Millisecond, 2*time.Millisecond, 2*time.Millisecond
	cfg.RefusalQuiet, cfg.GatePatience = 20*time.Millisecond, 100*time.Millisecond
	if c.change != nil {
		c.change(&cfg)
	}
	if c.key == "" {
		c.key = testKey
	}
	if c.secret == "" {
		c.secret = testSecret
	}
	keys, err := submit.NewFileKeys(submit.KeyConfig{Key: secret.Text(c.key), Secret: secret.Text(c.secret)},
		func(secret string) (submit.Signer, error) {
			if c.signer != nil {
				return c.signer, nil
			}
			return sign.New(secret)
		})
	require.NoError(t, err)
	b.Submitter, err = submit.New(cfg, submit.Deps{Keys: keys, Log: zerolog.New(b.log).Level(zerolog.DebugLevel), Watch: b})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

func (b *bench) set(settings map[string]string) {
	b.t.Helper()
	require.NoError(b.t, b.api.Update(func(s *sandbox.Settings) {
		for name, text := range settings {
			require.NoError(b.t, s.Set(name, text))
		}
	}))
}

func newOrder(t testing.TB, no string) *order.Order {
	t.Helper()
	o, err := order.Parse(fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"amount":"12.50","note":"ä & <b>"}`, no))
	require.NoError(t, err)
	return o
}

func (b *bench) submit(no string, h order.History) order.Report {
	return *b.Submit(context.Background(), &order.Submission{Order: newOrder(b.t, no), History: h})
}

// The examples, each against the sandbox in that manner.
func TestExampleRules(t *testing.T) {
	for _, manner := range []string{"status", "code", "errno", "fields"} {
		t.Run(manner, func(t *testing.T) {
			rules := func(c *submit.Config) {
				c.Rules = "../../examples/rules/" + manner + ".yaml"
				c.RetrySubmissionAttempts, c.GatePatience, c.RetryDelayMax = 1, time.Millisecond, time.Second // the longest wait of a rule
			}
			start := func(t *testing.T, c benchConfig) *bench {
				t.Helper()
				if c.settings == nil {
					c.settings = map[string]string{}
				}
				c.settings["manner"] = manner
				if c.change == nil {
					c.change = rules
				}
				return newBench(t, c)
			}
			verdict := func(t *testing.T, want order.Verdict, r order.Report) {
				t.Helper()
				require.Equal(t, want, r.Verdict, "%s: %s %s", r.Reason, r.Error, r.Response)
			}
			t.Run("orders", func(t *testing.T) {
				b := start(t, benchConfig{})
				r := b.submit("one", order.History{})
				verdict(t, order.Accepted, r)
				verdict(t, order.Duplicate, b.submit("one", r.History))
				b.set(map[string]string{"fault-refuse": "1"})
				r = b.submit("two", order.History{})
				verdict(t, order.Rejected, r)
				require.Equal(t, order.EndAnswer, r.End)
				require.Equal(t, 1, b.api.Created("one"))
				require.True(t, b.Gate().State().Open, "%v", b.Gate().State())
			})
			t.Run("bad key", func(t *testing.T) {
				r := start(t, benchConfig{key: "AKother-0123456789"}).submit("one", order.History{})
				verdict(t, order.Denied, r)
				require.Equal(t, order.EndHandBack, r.End)
			})
			t.Run("bad secret", func(t *testing.T) {
				r := start(t, benchConfig{secret: "other"}).submit("one", order.History{})
				verdict(t, order.Denied, r)
				require.Equal(t, order.EndHandBack, r.End)
			})
			t.Run("clock", func(t *testing.T) {
				ahead := map[string]string{"skew": "10m"}
				b := start(t, benchConfig{settings: ahead})
				r := b.submit("one", order.History{})
				verdict(t, order.Denied, r)
				require.Len(t, r.Trail, 1, "the next timestamp would be as wrong")
				require.Equal(t, order.EndHandBack, r.End)
				require.Regexp(t, "this machine's clock is (10m0|9m59|10m1)s behind the API's: set it, or ORDERPOST_CLOCK=server", r.Error)
				b = start(t, benchConfig{settings: ahead, change: func(c *submit.Config) { rules(c); c.Clock = submit.ClockServer }})
				verdict(t, order.Accepted, b.submit("one", order.History{}))
				require.InDelta(t, 600, b.Clock().Offset.Seconds(), 2)
			})
			t.Run("too many", func(t *testing.T) {
				b := start(t, benchConfig{settings: map[string]string{"fault-429": "1", "retry-after": "1s"}})
				r := b.submit("one", order.History{})
				verdict(t, order.Retry, r)
				require.Contains(t, b.log.String(), "slower")
			})
			t.Run("unavailable", func(t *testing.T) {
				r := start(t, benchConfig{settings: map[string]string{"fault-503-after": "1"}}).submit("one", order.History{})
				verdict(t, order.Unsure, r)
				require.True(t, r.History.Unsure)
			})
			t.Run("replayed", func(t *testing.T) {
				s, err := sign.New(testSecret)
				require.NoError(t, err)
				b := start(t, benchConfig{signer: stuckSigner{s, time.Now().UnixMilli()}})
				verdict(t, order.Accepted, b.submit("one", order.History{}))
				verdict(t, order.Unsure, b.submit("one", order.History{}))
			})
			t.Run("nothing there", func(t *testing.T) {
				b := start(t, benchConfig{path: "/elsewhere"})
				r := b.submit("one", order.History{})
				require.NotEqual(t, order.EndAnswer, r.End, "a wrong URL settles nothing")
				require.False(t, b.Gate().State().Open)
			})
		})
	}
}

// stuckSigner signs everything with one timestamp, as something on the way
// that sends a request twice would.
type stuckSigner struct {
	*sign.Signer
	at int64
}

func (s stuckSigner) Sign(dst []byte, o *order.Order, _ int64) ([]byte, string, error) {
	return s.Signer.Sign(dst, o, s.at)
}

// 30 % faults of every kind: every order ends as the ledger says, and neither
// key nor secret stands in anything that was put out.
func TestBooksBalanceUnderFaults(t *testing.T) {
	const orders = 200
	faults := map[string]string{"fault-503": "0.3", "fault-503-after": "0.3", "fault-429": "0.3", "fault-drop-before": "0.3", "fault-drop-after": "0.3",
		"fault-garbage": "0.3", "fault-other": "0.3", "fault-slow": "0.3", "slow-delay": "5ms", "fault-refuse": "0.3", "seed": "7"}
	for _, policy := range []order.Policy{order.Resubmit, order.Park} {
		for _, duplicates := range []string{"refuse", "return"} {
			t.Run(policy.String()+"/"+duplicates, func(t *testing.T) {
				t.Parallel()
				settings := map[string]string{"duplicates": duplicates}
				for k, v := range faults {
					settings[k] = v
				}
				b := newBench(t, benchConfig{settings: settings, change: func(c *submit.Config) {
					c.OnUnsure, c.RetryTotalAttempts = policy, 200
					// With 100 ms, 200 orders leave the gate and come back 2,000 times a
					// second: a busy machine then does nothing else.
					c.GatePatience = time.Second
				}})
				outcomes := map[order.Outcome]int{}
				var mu sync.Mutex
				var wg sync.WaitGroup
				for i := range orders {
					wg.Go(func() {
						no := fmt.Sprintf("B-%d", i)
						s, dump := b.settle(no, policy)
						e, _ := b.api.Lookup(no)
						checkBooks(t, no, s, e)
						mu.Lock()
						defer mu.Unlock()
						outcomes[s.Outcome]++
						fmt.Fprintln(b.seen, dump)
					})
				}
				wg.Wait()
				t.Log(outcomes)
				require.Zero(t, b.api.Ledger().CreatedTwice)
				require.Positive(t, outcomes[order.OutcomeAccepted])
				require.Positive(t, outcomes[order.OutcomeUnknown])
				if policy == order.Resubmit {
					require.Greater(t, outcomes[order.OutcomeAccepted], orders/2, "doubt was settled by asking again")
				}
				for _, text := range []string{b.log.String(), b.seen.String()} {
					require.NotEmpty(t, text)
					require.NotContains(t, text, testKey)
					require.NotContains(t, text, testSecret)
				}
			})
		}
	}
}

// Answers that say one thing by their status and another, or nothing, by their body, of
// orders that were created and of those that were not. Once they stop, each order is
// asked for again and settled as the ledger says.
func TestBooksBalanceUnderAnswersThatTellNothing(t *testing.T) {
	for _, told := range []string{`409 {"error":"insufficient_balance","message":"order was NOT created"}`, `409 {"order_no":{order_no},"status":"rejected","created":false}`, "409 <html>nginx</html>",
		"302", `303 {"order_no":{order_no},"status":"created"}`, "408 <html>timeout</html>", "424", "499", "412 {}", `208 {"id":1}`, `200 {"approved":false}`, `200 {"code":0,"data":{"code":40012}}`} {
		t.Run(told, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, benchConfig{settings: map[string]string{"told": told, "fault-told": "0.4", "fault-told-after": "0.4", "fault-drop-before": "0.4", "max-faults-per-order": "4"},
				change: func(c *submit.Config) { c.RetryTotalAttempts, c.BreakerRatio = 1000, 0 }})
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					no := fmt.Sprintf("T-%d", i)
					s, dump := b.settle(no, order.Resubmit)
					e, _ := b.api.Lookup(no)
					require.Equal(t, order.OutcomeAccepted, s.Outcome, dump)
					require.Equal(t, 1, e.Created, dump)
				})
			}
			wg.Wait()
			require.Contains(t, b.seen.String(), "Verdict:unsure")
			require.Positive(t, b.api.Ledger().Answers["told"])
		})
	}
}

// settle submits until the order is settled, as queue and worker would.
func (b *bench) settle(no string, policy order.Policy) (order.Settlement, string) {
	var h order.History
	var dump strings.Builder
	for {
		before := h.Attempts
		r := b.submit(no, h)
		h = r.History
		text, err := json.Marshal(r)
		require.NoError(b.t, err)
		dump.Write(text)
		s := order.Decide(&r, order.Facts{Policy: policy, FirstProven: before == 0 && r.History.Attempts == 1})
		if s.Action == order.ActSettle {
			return s, dump.String()
		}
		select {
		case <-time.After(min(r.Delay, 5*time.Millisecond)):
		case <-b.t.Context().Done():
			return s, ""
		}
	}
}

func checkBooks(t *testing.T, no string, s order.Settlement, e sandbox.Entry) {
	switch s.Outcome {
	case order.OutcomeAccepted:
		require.Equal(t, 1, e.Created, "%s is accepted", no)
	case order.OutcomeRejected, order.OutcomeExhausted:
		require.Zero(t, e.Created, "%s is %s", no, s.Outcome)
	case order.OutcomeUnknown:
		require.LessOrEqual(t, e.Created, 1)
	default:
		t.Errorf("%s ended %s", no, s.Outcome)
	}
}

// An outage, a revoked key and its return: everything is settled in the end.
func TestOutageAndRevokedKey(t *testing.T) {
	b := newBench(t, benchConfig{change: func(c *submit.Config) { c.RetryTotalAttempts = 1000 }})
	const orders = 400
	var wg sync.WaitGroup
	for i := range orders {
		wg.Go(func() {
			s, _ := b.settle(fmt.Sprintf("O-%d", i), order.Resubmit)
			require.Equal(t, order.OutcomeAccepted, s.Outcome)
		})
		switch i {
		case 100:
			b.set(map[string]string{"down": "refuse"})
		case 150:
			<-time.After(30 * time.Millisecond)
			b.set(map[string]string{"down": "up"})
		case 200:
			b.api.RevokeKey(testKey)
		case 250:
			<-time.After(30 * time.Millisecond)
			require.NoError(t, b.api.AddKey(testKey, testSecret))
		}
	}
	wg.Wait()
	require.EqualValues(t, orders, b.api.Ledger().OrdersCreated)
	require.Zero(t, b.api.Ledger().CreatedTwice)
	require.Zero(t, b.Gate().State().InFlight)
}
