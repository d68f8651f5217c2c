package submit

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
)

// The first connection drops, and nothing is created. The answer to the second attempt
// has a status that concludes and a body that does not. Its order is not accepted, and
// the pool is held once with the answer and a rule for it.
func TestAStatusAloneConcludesNothing(t *testing.T) {
	for _, c := range []reply{
		{status: 409, body: `{"error":"insufficient_balance","message":"order was NOT created"}`},
		{body: `{"id":1}`}, {status: 201}, {body: `{"state":"declined"}`}, {body: `{"order_no":"n","reason":"the market is closed"}`},
		{status: 409, body: `{"order_no":"n","message":"an order with this order_no exists"}`},
		{status: 409, body: `{"order_no":"n","status":"rejected","created":false}`},
		{status: 409, body: "<html><center><h1>409 Conflict</h1></center><hr><center>nginx</center></html>"},
		{status: 409},
		{status: 412, body: `{"message":"the account is not verified"}`},
		{status: 208, body: `{"ok":true}`},
		{status: 302}, {status: 303, body: `{"order_no":"n","status":"created"}`}, {status: 424}, {status: 408}, {status: 499},
		{status: 422, body: `{"order_no":"n","status":"created"}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(call call) reply {
				if call.n == 1 {
					return reply{err: errReset}
				}
				return c
			}, func(cfg *Config) { cfg.RetrySubmissionAttempts, cfg.HoldRetry = 2, time.Hour })
			rep := r.one("n")
			require.Equal(t, []order.Verdict{order.Unsure, order.Unsure}, verdicts(rep), "%d %s", c.status, c.body)
			require.False(t, rep.Error != "" && strings.Contains(rep.Reason, rep.Error), "the same twice: %s", rep.Error)
			for _, proven := range []bool{true, false} {
				s := order.Decide(&rep, order.Facts{FirstProven: proven})
				require.Equal(t, order.Settlement{Action: order.ActDelay, Unsure: true}, s, "%d %s", c.status, c.body)
			}
			if c.status == 408 || c.status == 499 {
				require.True(t, r.Gate().Open(), "the line is to blame")
				return
			}
			state := r.Gate().State()
			require.Len(t, state.Blocks, 1, "%d %s", c.status, c.body)
			require.Equal(t, gate.BlockAnswer, state.Blocks[0].Name)
			require.Contains(t, state.Reasons[0], strings.Join(strings.Fields(c.body), " "))
			mustRules(t, "rules:\n"+state.Reasons[0][strings.Index(state.Reasons[0], "  - name"):])
			require.Equal(t, 1, strings.Count(r.log.String(), "gate closed"))
		})
	}
}

// A rule decides what evidence cannot.
func TestARuleConcludesWithoutEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(call) reply { return reply{status: 409} }, once)
		r.judge.Rules = mustRules(t, "rules:\n  - when: status == 409\n    verdict: duplicate\n")
		require.Equal(t, order.Duplicate, r.one("n").Verdict)
		require.True(t, r.Gate().Open())
	})
}

// A proxy that wants credentials never handed the order on: it is no order's fault, and
// no order's budget is spent.
func TestAProxyThatWantsCredentialsHoldsThePool(t *testing.T) {
	for _, status := range []int{407, 511} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			r := newRig(t, func(call) reply {
				if time.Since(began) < 24*time.Hour {
					return reply{status: status}
				}
				return reply{}
			}, func(c *Config) {
				c.RetryTotalAttempts, c.RetrySubmissionAttempts, c.GatePatience, c.RetrySubmissionTime = 3, 1e6, 1000*time.Hour, 1000*time.Hour
			})
			rep := r.one("n")
			require.Equal(t, order.Accepted, rep.Verdict, rep.Reason)
			require.Greater(t, rep.History.Attempts, 3)
			require.False(t, rep.Trail[0].Verdict == order.Unsure)
			require.Contains(t, r.log.String(), "a proxy on the way asks for credentials")
		})
	}
}

// The breaker says what is wrong with the API, how often, and how it answered.
func TestTheBreakerSaysWhy(t *testing.T) {
	dial := func(err error) reply { return reply{unread: true, err: &net.OpError{Op: "dial", Err: err}} }
	for name, c := range map[string]struct {
		answer reply
		want   string
	}{
		"refused":     {dial(syscall.ECONNREFUSED), "requests to the API keep failing: no connection: refused (10 times)"},
		"no route":    {dial(syscall.EHOSTUNREACH), "requests to the API keep failing: no connection: no route to the address (10 times)"},
		"descriptors": {dial(syscall.EMFILE), "requests to the API keep failing: no connection: no file descriptor left (10 times)"},
		"name":        {dial(&net.DNSError{Name: "api.test", IsNotFound: true}), "requests to the API keep failing: name not resolved: api.test (10 times)"},
		"timeout":     {reply{err: fmt.Errorf("read: %w", context.DeadlineExceeded)}, "requests to the API keep failing: no answer: timeout (10 times)"},
		"reset":       {reply{err: errReset}, "requests to the API keep failing: no answer: connection lost (10 times)"},
		"gateway": {reply{status: 502, header: map[string]string{"Server": "nginx/1.24.0"}, body: "<html>\n<h1>502 Bad Gateway " + keyA + "</h1>"},
			"requests to the API keep failing: status 502 by nginx/1.24.0 (10 times); the last answer begins: <html> <h1>502 Bad Gateway AK…0A</h1>"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(call) reply { return c.answer }, func(c *Config) { c.GatePatience, c.RetrySubmissionAttempts, c.Concurrency = time.Second, 1, 1 })
				r.many("n", 20)
				require.Equal(t, []string{c.want}, r.Gate().State().Reasons)
				require.Contains(t, r.log.String(), "gate closed")
			})
		})
	}
}

// The reason follows what the probes see.
func TestTheBreakerSaysWhatTheLastLookFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Bool
		api := &fakeAPI{
			handle: func(call) reply { return reply{err: errReset, unread: true} },
			account: func(call) reply {
				if !back.Load() {
					return reply{status: 502, header: map[string]string{"Server": "nginx"}, body: "Bad\nGateway"}
				}
				return reply{}
			},
		}
		r := newRigWith(t, api, StaticKeys{{Key: keyA, Signer: &stubSigner{"a"}}}, func(c *Config) { c.GatePatience, c.RetrySubmissionAttempts = time.Second, 1 })
		r.many("n", 20)
		time.Sleep(10 * time.Second)
		require.Regexp(t, `^requests to the API keep failing: no connection: connection lost \(\d+ times\)\. Since then the account was asked, and failed: `+
			`GET /v1/account answered 502 by nginx: Bad Gateway$`, r.Gate().State().Reasons[0])
		back.Store(true)
		time.Sleep(10 * time.Second)
		r.one("n")
		require.Regexp(t, `Since then one order was tried, and failed: no connection: connection lost$`, r.Gate().State().Reasons[0])
	})
}

// An API that is back is seen after four intervals, however long it was away.
func TestTheAPIsReturnIsSeenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(3*time.Minute + time.Second)
		answer := func(call) reply {
			if time.Now().Before(back) {
				return reply{err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, unread: true}
			}
			return reply{}
		}
		r := newRigWith(t, &fakeAPI{handle: answer, account: answer}, StaticKeys{{Key: keyA, Signer: &stubSigner{"a"}}}, func(c *Config) { c.GatePatience = time.Hour })
		r.many("n", 64)
		require.True(t, r.Gate().Open())
		took := time.Since(back)
		t.Logf("open %s after the API's return", took)
		require.Less(t, took, 5*r.cfg.BreakerOpen)
		_, gets := r.api.calls()
		require.LessOrEqual(t, gets, 12, "after 5 and 10 s, then one request each 20 s")
		require.Equal(t, 1, strings.Count(r.log.String(), "gate stays closed"), "told once, not with each probe")
	})
}
