package submit

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
)

func bodies(list ...string) func(c call) reply {
	return func(c call) reply {
		return reply{body: strings.ReplaceAll(list[min(c.n, len(list))-1], "OURS", c.orderNo)}
	}
}

// once lets an order try once.
func once(c *Config) { c.RetrySubmissionAttempts = 1 }

func TestAnswerAboutAnotherOrderSettlesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   order.Verdict
	}{
		"accepted":               {200, `{"code":0,"data":{"order_no":"OTHER"}}`, order.Unsure},
		"both":                   {200, `{"order_no":"OURS","parent":{"orderNo":"OTHER"}}`, order.Unsure},
		"refused":                {422, `{"order_no":"B-17"}`, order.Unsure},
		"conflict":               {409, `{"data":{"order_no":"B-17"}}`, order.Unsure},
		"collides":               {409, `{"order_no":"OURS","existing":{"order_no":"B-17"}}`, order.Unsure},
		"message":                {422, `{"order_no":["must have 1 to 255 bytes"]}`, order.Rejected},
		"message among errors":   {422, `{"errors":{"order_no":"E17"}}`, order.Rejected},
		"ours":                   {422, `{"order_no":"OURS"}`, order.Rejected},
		"unsure is unsure still": {500, `{"order_no":"B-17"}`, order.Unsure},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(call call) reply {
					return reply{status: c.status, body: strings.ReplaceAll(c.body, "OURS", call.orderNo)}
				}, func(c *Config) { once(c); c.RefusalRun = 0 })
				rep := r.one("A-1")
				require.Equal(t, c.want, rep.Verdict, rep.Reason)
				require.Equal(t, c.want == order.Unsure, rep.History.Unsure)
			})
		})
	}
}

// A rule does not make another order's acceptance ours, unless it says that the
// API has numbers of its own.
func TestRulesAndOtherOrderNumbers(t *testing.T) {
	for extra, want := range map[string]order.Verdict{"": order.Unsure, "    other_order_no: true\n": order.Accepted} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, bodies(`{"code":0,"order_no":"API-77"}`), once)
			r.judge.Rules = mustRules(t, "rules:\n  - when: status == 200 && body.code == 0\n    verdict: accepted\n"+extra)
			rep := r.one("A-1")
			require.Equal(t, want, rep.Verdict)
			if want == order.Unsure {
				require.Contains(t, r.Gate().State().Reasons[0], "other_order_no: true")
				require.Contains(t, r.Gate().State().Reasons[0], `"API-77"`)
			}
		})
	}
}

// Where the API repeats our order_no, one stray answer is a fault of the line.
func TestAStrayAnswerDoesNotHoldAPoolThatKnowsItsAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bodies(`{"code":0,"order_no":"OURS"}`, `{"code":0,"order_no":"OTHER"}`, `{"code":0,"order_no":"OURS"}`), nil)
		require.Equal(t, order.Accepted, r.one("A-1").Verdict)
		rep := r.one("A-2")
		require.Equal(t, []order.Verdict{order.Unsure, order.Accepted}, verdicts(rep))
		require.Contains(t, rep.Trail[0].Reason, "about another order")
		require.True(t, r.Gate().Open())
	})
}

// A rule that says which bodies are accepted vouches for no others, whatever their shape.
func TestARuleDoesNotVouchForWhatItDoesNotMatch(t *testing.T) {
	for name, c := range map[string]struct {
		bodies []string
		want   []order.Verdict
	}{
		"another value":          {[]string{`{"biz":"OK"}`, `{"biz":"NO_FUNDS","order_no":"OURS"}`}, []order.Verdict{order.Accepted, order.Unsure}},
		"at first":               {[]string{`{"biz":"NO_FUNDS","order_no":"OURS"}`}, []order.Verdict{order.Unsure}},
		"another one of success": {[]string{`{"biz":"OK"}`, `{"code":0}`}, []order.Verdict{order.Accepted, order.Accepted}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, bodies(c.bodies...), once)
				r.judge.Rules = mustRules(t, "rules:\n  - when: body.biz == 'OK'\n    verdict: accepted\n")
				for i, want := range c.want {
					rep := r.one(fmt.Sprint("A-", i))
					require.Equal(t, want, rep.Verdict, rep.Reason)
				}
				if c.want[len(c.want)-1] == order.Unsure {
					require.Contains(t, r.Gate().State().Reasons[0], "no rule accepts it")
				}
			})
		})
	}
}

func TestARuleThatWasStoppedHoldsThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bodies(`{"a":[`+strings.Repeat("1,", 99_999)+`1]}`), once)
		r.judge.Rules = mustRules(t, "rules:\n  - when: 'len(concat("+strings.Repeat("body.a, ", 10)+"body.a)) == 0'\n    verdict: rejected\n")
		rep := r.one("n")
		require.Equal(t, order.Unsure, rep.Verdict)
		require.Equal(t, "rule 1 takes too long", rep.Reason)
		require.Equal(t, gate.BlockAnswer, r.Gate().State().Blocks[0].Name)
	})
}

// TestKeptMembers: the members that the rules keep are in the report of an acceptance, whichever rule or none gave that
// verdict, and in no other.
func TestKeptMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, bodies(`{"code":0,"data":{"id":771,"key":"`+keyA+`"}}`, `{"code":7,"data":{"id":772}}`), once)
		r.judge.Rules = mustRules(t, "keep:\n  order_id: body.data.id\n  key: body.data.key\nrules:\n  - when: body.code == 7\n    verdict: rejected\n")
		rep := r.one("A-1")
		require.Equal(t, order.Accepted, rep.Verdict, rep.Reason)
		require.Equal(t, "771", rep.API["order_id"])
		require.NotContains(t, rep.API["key"], keyA, "no key is recorded")
		rep = r.one("A-2")
		require.Equal(t, order.Rejected, rep.Verdict, rep.Reason)
		require.Nil(t, rep.API)
	})
}
