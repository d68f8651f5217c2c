package submit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
)

// does is what the API did with an order when it got the attempt.
type does uint8

const (
	doesCreate does = iota // it created the order
	doesKnow               // an earlier attempt had created it
	doesRefuse             // it refused it, and it does not exist
	doesNotSee             // it never saw the attempt
	doesKinds
)

// says is what the body of an answer says to everybody, in the words of docs/rules.md.
type says uint8

const (
	saysNothing says = iota // or something in words that orderpost does not know
	saysFailure             // something was refused, in known words, or it is about another order
	saysMuddled             // success, by a code alone, with a message in unknown words
	saysCode                // success, by a code alone
	saysCreated             // the order was created
	saysExists              // the order exists
)

// told is one generated answer.
type told struct {
	reply
	says says
	cut  bool
}

// grammar writes answers as APIs and proxies do.
type grammar struct {
	*rand.Rand
	orderNo string
}

func (g *grammar) among(list ...string) string { return list[g.IntN(len(list))] }
func (g *grammar) chance(percent int) bool     { return g.IntN(100) < percent }

// answer returns an answer to an attempt with which the API did this.
func (g *grammar) answer(d does) told {
	t := told{reply: reply{status: g.status(d), header: map[string]string{}}}
	if g.chance(3) { // an API that says one thing and does another
		d = does(g.IntN(int(doesKinds)))
	}
	switch {
	case g.chance(12):
		t.body, t.says = g.page(), saysNothing
	case g.chance(6):
		t.body, t.says = "", saysNothing
	case g.chance(4):
		t.body, t.says = g.mute(), saysNothing
	case d == doesCreate:
		t.body, t.says = g.success()
	case d == doesKnow && g.chance(25):
		t.body, t.says = g.success()
	case d == doesKnow && g.chance(80):
		t.body, t.says = g.exists()
	case d == doesNotSee && g.chance(50):
		t.body, t.says = g.page(), saysNothing
	default:
		t.body, t.says = g.failure()
	}
	if g.chance(3) { // another order's answer
		if strings.Contains(t.body, `"order_no":"OURS"`) || strings.Contains(t.body, `"orderNo":"OURS"`) {
			t.says = saysFailure
		}
		t.body = strings.ReplaceAll(t.body, "OURS", fmt.Sprintf("B-%06d", g.IntN(1e6)))
	}
	t.body = strings.ReplaceAll(t.body, "OURS", g.orderNo)
	if g.chance(4) && len(t.body) > 1 {
		t.body, t.cut, t.says = t.body[:g.IntN(len(t.body))*g.IntN(2)], g.chance(70), saysNothing
		if t.cut {
			t.reply.cut = errReset
		}
	}
	g.headers(&t)
	return t
}

// status returns a status that fits what the API did, or any.
func (g *grammar) status(d does) int {
	pick := func(list ...int) int { return list[g.IntN(len(list))] }
	if g.chance(30) {
		return 100 + g.IntN(500)
	}
	switch d {
	case doesCreate:
		return pick(200, 200, 200, 201, 202, 204, 207, 303, 408, 424, 499, 500, 502, 504, 406, 409, 422)
	case doesKnow:
		return pick(409, 409, 409, 412, 208, 200, 400, 422, 303, 500, 408)
	case doesRefuse:
		return pick(409, 409, 412, 400, 422, 200, 200, 200, 201, 202, 402, 403, 424, 451, 500, 208)
	default:
		return pick(302, 307, 401, 403, 404, 405, 407, 408, 413, 425, 429, 502, 503, 504, 511, 421, 405)
	}
}

func (g *grammar) headers(t *told) {
	if g.chance(80) {
		t.header["Content-Type"] = g.among("application/json", "application/json; charset=utf-8", "text/html", "text/plain", "application/problem+json")
	}
	if g.chance(30) {
		t.header["Server"] = g.among("nginx", "cloudflare", "envoy", "openresty/1.2")
	}
	if t.status == http.StatusTooManyRequests && g.chance(60) || g.chance(3) {
		t.header["Retry-After"] = g.among("1", "3", "x", "-1")
	}
	if t.status/100 == 3 {
		t.header["Location"] = g.among("/login", "https://sso.example/?next=/v1/order/create", "/v1/orders/OURS", "")
	}
}

func (g *grammar) page() string {
	return g.among("<html><body><h1>Welcome</h1></body></html>", "<!DOCTYPE html><title>Sign in</title><form>", "<html><center><h1>409 Conflict</h1></center><hr>nginx</html>",
		"upstream connect error or disconnect/reset before headers", "order already exists", "OK", "created", "Request blocked. ID: 77", "\x1f\x8b\x08\x00", " ", "<xml/>")
}

// mute is JSON that says nothing.
func (g *grammar) mute() string {
	return g.among("{}", "[]", "null", `"ok"`, "true", "0", `{"id":17}`, `{"request_id":"c7a1"}`, `{"data":null}`, `{"data":{}}`, `{"ts":1}`, `{"order_no":"OURS"}`)
}

// members joins members in a random order, in the manner of an API.
func (g *grammar) members(list ...string) string {
	if more := g.among(`"request_id":"c7a1"`, `"timestamp":1795000000000`, `"trace":null`, `"version":"v1"`, `"warnings":[]`, `"data":null`, `"errors":[]`); g.chance(40) && !strings.Contains(strings.Join(list, ","), more[:strings.Index(more, ":")]) {
		list = append(list, more)
	}
	g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return "{" + strings.Join(list, ",") + "}"
}

// order is the object of an order that exists.
func (g *grammar) order(state string) string {
	list := []string{fmt.Sprintf(`"id":%d`, g.IntN(1e6))}
	if g.chance(60) {
		list = append(list, `"`+g.among("order_no", "orderNo", "client_order_no", "out_order_no")+`":"OURS"`)
	}
	if state != "" {
		list = append(list, fmt.Sprintf(`"%s":"%s"`, g.among("status", "state", "order_status"), state))
	}
	if g.chance(30) {
		list = append(list, g.among(`"post_only":false`, `"filled":false`, `"note":"do not ring"`, `"amount":"1.5"`, `"currency":{"code":840}`, `"cancelable":true`))
	}
	return "{" + strings.Join(list, ",") + "}"
}

// success says that the order was created, or at least that the request succeeded.
func (g *grammar) success() (string, says) {
	state := g.among("created", "new", "open", "accepted", "PENDING", "Submitted")
	message := `"message":"` + g.among("ok", "success", "OK", "", "Order created", "order accepted") + `"`
	switch g.IntN(7) {
	case 0:
		return g.members(`"code":0`, message, `"data":`+g.order("")), saysCode
	case 1:
		return g.members(`"errno":0`, message), saysCode
	case 2:
		return g.members(`"success":true`, `"result":`+g.order(state)), saysCreated
	case 3:
		return g.order(state), saysCreated
	case 4:
		return g.members(`"created":true`, `"order_no":"OURS"`), saysCreated
	case 5:
		return g.members(`"status":"`+g.among("success", "ok", "accepted")+`"`, `"data":`+g.order(state)), saysCreated
	default:
		return g.members(`"code":200`, `"data":`+g.order(state)), saysCreated
	}
}

// exists says that the order exists.
func (g *grammar) exists() (string, says) {
	text := g.among("order already exists", "an order with this order_no exists", "Duplicate order_no", "Order OURS already exists.", "duplicate order", "The order was already created",
		"order_no has already been used")
	code := g.among("DUPLICATE_ORDER", "ORDER_EXISTS", "ALREADY_EXISTS", "duplicate", "OrderAlreadyExists")
	switch g.IntN(8) {
	case 0:
		return g.members(fmt.Sprintf(`"code":%d`, 300000+g.IntN(999)), `"message":"`+text+`"`), saysExists
	case 1:
		return g.members(`"code":"`+code+`"`, `"message":"`+text+`"`), saysExists
	case 2:
		return g.members(`"error":"` + code + `"`), saysExists
	case 3:
		return g.members(`"error":{"code":"` + code + `","message":"` + text + `"}`), saysExists
	case 4:
		return g.members(`"success":false`, `"reason":"`+text+`"`, `"order_no":"OURS"`), saysExists
	case 5:
		return g.members(`"order_no":["` + text + `"]`), saysExists
	case 6:
		return g.members(fmt.Sprintf(`"code":%d`, 300000+g.IntN(999)), `"message":"`+g.among("Auftrag existiert bereits", "订单号已存在", "code E17", "conflict")+`"`), saysNothing
	default:
		return g.members(`"title":"`+text+`"`, `"status":409`, `"detail":"`+text+`"`), saysExists
	}
}

// failure says that the order was refused, in one of the ways that docs/rules.md lists,
// or in words that nobody but the API knows.
func (g *grammar) failure() (string, says) {
	list := []string{}
	if g.chance(40) {
		list = append(list, `"order_no":"OURS"`)
	}
	text := g.among("insufficient balance", "order was NOT created", "order rejected: the account is blocked", "invalid symbol", "cannot place the order", "risk check failed",
		"order already rejected", "no order exists", "the order does not exist", "position already closed, order rejected", "not enough margin, duplicate nonce")
	known := []string{
		fmt.Sprintf(`"code":%d`, 40000+g.IntN(99)), `"code":"E` + fmt.Sprint(g.IntN(99)) + `"`, fmt.Sprintf(`"errno":%d`, 1+g.IntN(9)), `"success":false`, `"ok":0`,
		`"error":"insufficient_balance"`, `"error":{"code":7,"message":"` + text + `"}`, `"errors":[{"field":"email","message":"already exists"}]`, `"errors":["` + text + `"]`,
		`"errors":[{"path":"email","message":"already exists"}]`, `"error":{"field":"email","message":"already exists"}`, `"message":"order already exists","created":false`, `"code":"DUPLICATE","reason":"` + text + `"`,
		`"created":false`, `"accepted":false`, `"approved":false`, `"valid":false`, `"declined":true`, `"rejected":true`, `"isCancelled":true`, `"status":"` + g.among("rejected", "DECLINED", "error", "failed", "NOT_CREATED") + `"`,
		`"data":{"code":40012}`, `"data":{"created":false}`, `"data":[{"sCode":"51008"}]`, `"result":{"success":false}`, `"message":"` + text + `"`, `"reason":"` + text + `"`, `"msg":"` + text + `"`,
		`"reject_reason":"` + text + `"`, `"base_resp":{"status_code":2}`,
	}
	unknown := []string{`"message":"the market is closed"`, `"info":"MARKET_CLOSED"`, `"biz":"NO_FUNDS"`, `"message":"余额不足"`, `"detail":"see the manual"`, `"reason":"position already closed"`,
		`"message":"duplicate nonce"`, `"message":"order limit already used"`, `"code_text":"E17"`, `"state":"shelved"`, `"go":false`, `"message":"ya existe"`, `"message":"duplicate key"`, `"code":"DUPLICATE_EMAIL"`, `"message":"too many orders already exist"`, `"message":"client id already exists"`,
		`"message":"duplicate request"`, `"message":"order B-17 already exists"`, `"message":"order 1234 already exists"`, `"field":"account"`, `"message":"already used"`, `"reason":"an account with this id exists"`}
	switch g.IntN(10) {
	case 0, 1:
		return g.members(append(list, unknown[g.IntN(len(unknown))])...), saysNothing
	case 2: // a code that means that the request was read
		text, means := unknown[g.IntN(len(unknown))], saysCode
		if strings.HasPrefix(text, `"message"`) || strings.HasPrefix(text, `"reason"`) || strings.HasPrefix(text, `"detail"`) {
			means = saysMuddled
		}
		return g.members(append(list, `"code":0`, text)...), means
	case 3, 4:
		return g.members(append(list, `"code":0`, `"message":"ok"`, g.among(`"data":{"code":40012}`, `"data":{"approved":false}`, `"data":{"status":"rejected"}`, `"data":{"declined":true}`, `"created":false`))...), saysFailure
	default:
		g.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
		list = append(list, known[0])
		if name, _, _ := strings.Cut(known[1], ":"); g.chance(30) && !strings.HasPrefix(known[0], name) {
			list = append(list, known[1])
		}
		return g.members(list...), saysFailure
	}
}
