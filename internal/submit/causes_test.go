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
)

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
