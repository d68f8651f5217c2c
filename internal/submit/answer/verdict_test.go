package answer

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// judged judges an answer without rules, and without another before it.
func judged(a *Answer) Judgement {
	var judge Judge
	return judge.Judgement(a, 1)
}

func TestBodiesOfA200(t *testing.T) {
	for body, want := range map[string]order.Verdict{
		`{}`:                                                  order.Unsure,
		`{"code":0}`:                                          order.Accepted,
		`{"code":200,"data":{"id":1}}`:                        order.Accepted,
		`{"code":"0"}`:                                        order.Accepted,
		`{"code":0.0}`:                                        order.Accepted,
		`{"errno":0,"message":"ok"}`:                          order.Accepted,
		`{"success":true,"error":null}`:                       order.Accepted,
		`{"data":{"code":7}}`:                                 order.Unsure,
		`{"code":0,"data":{"code":40012}}`:                    order.Unsure,
		`{"code":0,"data":[{"code":"40012"}]}`:                order.Unsure,
		`{"code":0,"cur":{"code":840}}`:                       order.Accepted, // a currency
		`{"code":0,"data":{"cur":{"code":7}}}`:                order.Accepted,
		`{"approved":false}`:                                  order.Unsure,
		`{"code":0,"data":{"approved":0}}`:                    order.Unsure,
		`{"code":0,"data":{"isValid":"no"}}`:                  order.Unsure,
		`{"declined":true}`:                                   order.Unsure,
		`{"code":0,"data":{"is_declined":true}}`:              order.Unsure,
		`{"code":0,"data":{"post_only":false}}`:               order.Accepted, // it says success otherwise
		`{"post_only":false}`:                                 order.Unsure,   // nothing speaks for it
		`{"cancelable":true,"id":7}`:                          order.Unsure,
		`{"code":0,"message":"ok"}`:                           order.Accepted,
		`{"code":0,"message":"Order created."}`:               order.Accepted,
		`{"code":0,"message":"no error"}`:                     order.Accepted,
		`{"code":0,"message":"Insufficient balance"}`:         order.Unsure,
		`{"code":0,"msg":"the order was NOT created"}`:        order.Unsure,
		`{"code":0,"message":"error"}`:                        order.Unsure,
		`{"code":0,"data":{"message":"order rejected"}}`:      order.Unsure,
		`{"code":0,"data":{"note":"do not ring"}}`:            order.Accepted, // the order's own
		`{"code":1}`:                                          order.Unsure,
		`{"Code":7}`:                                          order.Unsure,
		`{"error_code":7}`:                                    order.Unsure,
		`{"errorCode":"E7"}`:                                  order.Unsure,
		`{"status":"error"}`:                                  order.Unsure,
		`{"Status":"Request_Failed"}`:                         order.Unsure,
		`{"status":500}`:                                      order.Unsure,
		`{"status":false}`:                                    order.Unsure,
		`{"ok":false}`:                                        order.Unsure,
		`{"OK":"no"}`:                                         order.Unsure,
		`{"errors":[{"message":"x"}]}`:                        order.Unsure,
		`{"errors":{"a":["b"]}}`:                              order.Unsure,
		`{"failed":true}`:                                     order.Unsure,
		`{"result":{"success":false}}`:                        order.Unsure,
		`{"data":[{"ok":0}]}`:                                 order.Unsure,
		`{"data":{"error":"no funds"}}`:                       order.Unsure,
		`{"data":{"error_code":5}}`:                           order.Unsure,
		`{"data":{"status":"DECLINED"}}`:                      order.Unsure,
		`{"errmsg":"no funds"}`:                               order.Unsure,
		`{"errcode":0,"errmsg":"ok"}`:                         order.Accepted,
		`{"errcode":"0.0","errmsg":"No error"}`:               order.Accepted,
		`{"error_code":200}`:                                  order.Accepted,
		`{"error_code":1}`:                                    order.Unsure, // 1 is no success where errors are counted
		`{"error_code":-1}`:                                   order.Unsure,
		`{"code":0,"error_code":1}`:                           order.Unsure,
		`{"error_code":"-1"}`:                                 order.Unsure,
		`{"error_code":0.2}`:                                  order.Unsure,
		`{"error_code":1e999}`:                                order.Unsure,
		`{"error_code":true}`:                                 order.Unsure,
		`{"errcode":201}`:                                     order.Unsure,
		`{"errmsg":"pending"}`:                                order.Unsure,
		`{"success":-1}`:                                      order.Unsure,
		`{"ok":"-1"}`:                                         order.Unsure,
		`{"ret":0}`:                                           order.Accepted,
		`{"ret":-1}`:                                          order.Unsure,
		`{"rc":17}`:                                           order.Unsure,
		`{"data":{"rc":17}}`:                                  order.Unsure,
		`{"data":[{"sCode":"0"}]}`:                            order.Unsure,
		`{"data":[{"sCode":"51008"}]}`:                        order.Unsure,
		`{"accepted":false}`:                                  order.Unsure,
		`{"data":{"created":false}}`:                          order.Unsure,
		`{"created":"2026-11-23"}`:                            order.Unsure,
		`{"created":0}`:                                       order.Unsure,
		`{"ordStatus":"Rejected"}`:                            order.Unsure,
		`{"ordStatus":"New"}`:                                 order.Accepted,
		`{"reject_reason":"no money"}`:                        order.Unsure,
		`{"reject_reason":"","errorInfo":null,"failCount":0}`: order.Unsure,
		`{"errorInfo":{"m":"x"}}`:                             order.Unsure,
		`{"data":{"fail_url":"https://shop.example/failed"}}`: order.Unsure,
		`{"data":{"userErrors":[{"m":"x"}]}}`:                 order.Unsure,
		`{"data":{"userErrors":[]}}`:                          order.Unsure,
		`{"status":"NOT_ACCEPTED"}`:                           order.Unsure,
		`{"data":{"status":"SYSTEM_BUSY"}}`:                   order.Unsure,
		`{"status":-1}`:                                       order.Unsure,
		`{"status":{"code":0}}`:                               order.Accepted,
		`{"status":{"code":10001}}`:                           order.Unsure,
		`{"x_response":{"code":"40004"}}`:                     order.Unsure,
		`{"base_resp":{"status_code":2}}`:                     order.Unsure,
		`{"result":{"code":"ORD"}}`:                           order.Unsure, // the order's own
		`{"status":"we are sorry to say that, for reasons which we must not tell, your order was rejected"}`: order.Unsure,
		`{"ok":1.0}`:                  order.Accepted,
		`{"data":{"ok":-1}}`:          order.Unsure,
		`{"data":{"errno":-200}}`:     order.Unsure,
		`{"data":{"errno":"-0"}}`:     order.Unsure,
		`{"data":{"error":"-0.0"}}`:   order.Unsure,
		`{"status":"ok","errors":[]}`: order.Accepted,
		`{"data":{"error":null,"errors":{},"success":true,"status":"created"}}`: order.Accepted,
		`{"code":300301}`:             order.Unsure,
		`{"code":"00000"}`:            order.Unsure,
		`{"code":null}`:               order.Unsure,
		`{"code":{"n":0}}`:            order.Unsure,
		`{"code":[]}`:                 order.Unsure,
		`{"code":1e400}`:              order.Unsure,
		`{"errno":1}`:                 order.Unsure,
		`{"code":0,"errno":5}`:        order.Unsure,
		`{"success":false}`:           order.Unsure,
		`{"success":null}`:            order.Unsure,
		`{"success":"no"}`:            order.Unsure,
		`{"error":""}`:                order.Unsure,
		`{"error":{"code":5}}`:        order.Unsure,
		`{"code":0,"code":5}`:         order.Unsure, // which one?
		"{\"code\":0,\"m\":\"\xff\"}": order.Unsure,
		`{"code":0}x`:                 order.Unsure,
		`{"code":0`:                   order.Unsure,
		`[]`:                          order.Unsure,
		`"ok"`:                        order.Unsure,
		`null`:                        order.Unsure,
		`OK`:                          order.Unsure,
		`<html>we are down</html>`:    order.Unsure,
		` `:                           order.Unsure,
		``:                            order.Unsure,
		"\xef\xbb\xbf{\"code\":0}":    order.Unsure,
	} {
		j := judged(&Answer{Status: 200, Body: []byte(body), Complete: true})
		require.Equal(t, want, j.Verdict, "%s: %s", body, j.Reason)
		if strings.Contains(body, "NOT created") {
			require.Contains(t, j.Hold, `body.msg == "the order was NOT created"`)
		}
		require.Equal(t, want == order.Unsure, j.Hold != "", "an unreadable 2xx holds the pool: %s", body)
		if j.Hold != "" {
			require.NotRegexp(t, `verdict:\s*accepted`, j.Hold, "an unreadable answer is not proposed as an acceptance")
			require.Contains(t, j.Hold, "ORDERPOST_RULES")
			require.Contains(t, j.Hold, "when: 'status == 200")
		}
	}
	require.Equal(t, order.Unsure, judged(&Answer{Status: 201, Complete: true}).Verdict)
	require.Equal(t, order.Unsure, judged(&Answer{Status: 204, Complete: true}).Verdict)
}

// Our order_no shows that the API took the order, unless a text or a state beside it may mean
// anything. A text never helps.
func TestAnswersThatRepeatOurOrderNo(t *testing.T) {
	for members, want := range map[string]order.Verdict{
		``:                                  order.Accepted,
		`,"id":7,"timeout":30`:              order.Accepted,
		`,"message":"Order created."`:       order.Accepted,
		`,"code":0,"message":"操作成功"`:        order.Accepted,
		`,"data":{"status":"filed"}`:        order.Accepted,
		`,"message":"the market is closed"`: order.Unsure,
		`,"message":"操作成功"`:                 order.Unsure,
		`,"reason":"closed"`:                order.Unsure,
		`,"state":"shelved"`:                order.Unsure,
		`,"state":"declined"`:               order.Unsure,
		`,"code":0,"state":"declined"`:      order.Unsure,
		`,"parent":{"order_no":"B-17"}`:     order.Unsure,
	} {
		a := Answer{Status: 200, Body: []byte(`{"order_no":"ORDER-2026-1"` + members + `}`), Complete: true}
		a.Examine("ORDER-2026-1")
		j := judged(&a)
		require.Equal(t, want, j.Verdict, "%s: %s", members, j.Reason)
		require.Equal(t, want == order.Unsure, j.Hold != "", members)
	}
}

// The rule that a hold proposes is valid in a rules file and matches the answer.
func TestProposedRuleWorks(t *testing.T) {
	for _, c := range []Answer{
		{Status: 302, Header: http.Header{"Location": {"https://it's.example/\x1b#a: b"}}},
		{Status: 206}, {Status: 406, Body: []byte("no: #1")},
	} {
		c.Complete = true
		j := judged(&c)
		_, proposed, _ := strings.Cut(j.Hold, "such as\n")
		rules, err := ParseRules("r.yaml", []byte("rules:\n"+proposed))
		require.NoError(t, err, proposed)
		require.Equal(t, j.Reason, rules.Judge(&c, 1).Reason)
	}
	for _, body := range []string{`{"code":40012}`, `{"code":"E1"}`, `{"code":"it's: #1 \"ü\""}`, `{"errno":1}`, `{"success":false}`, `{"error":"x"}`, ``, `{"code":1.5}`, `{"code":null}`, `{"error":{"m":1}}`,
		`{"data":{"success":false}}`, `{"a":[{},{"ok":false}]}`, `{"Error-Code":7}`, "<html>it's\n\"down\"</html>", "\x00\xff",
		`{"code":0,"message":"` + strings.Repeat("rejected ", 20) + `"}`} {
		a := Answer{Status: 200, Body: []byte(body), Complete: true}
		_, proposed, ok := strings.Cut(judged(&a).Hold, "such as\n")
		require.True(t, ok)
		rules, err := ParseRules("r.yaml", []byte("rules:\n"+proposed))
		require.NoError(t, err, proposed)
		j := rules.Judge(&a, 1)
		require.Equal(t, 1, j.Rule, "%s: %s", body, proposed)
		require.Equal(t, judged(&a).Reason, j.Reason, "the reason stays, so dead letters stay in one group")
		require.NotEmpty(t, j.Detail, "the name")
		proved := strings.Replace(strings.Replace(proposed, "# final", "final", 1), "verdict: unsure", "verdict: rejected", 1)
		rules, err = ParseRules("r.yaml", []byte("rules:\n"+proved))
		require.NoError(t, err, proved)
		require.True(t, rules.Judge(&a, 1).Final, proved)
		require.Equal(t, order.Unsure, j.Verdict, "a rule that is copied without thinking decides nothing")
		require.NotRegexp(t, `verdict:\s*accepted`, proposed)
	}
}
