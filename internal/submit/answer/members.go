package answer

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// member is the class of a member, by its name. Names are compared without case,
// `_`, `-`, `.` and spaces: order_no, orderNo and Order-No are the same.
type member uint8

const (
	memberNone      member = iota
	memberOrderNo          // order_no
	memberCode             // code, …: 0 and 200 mean success
	memberErrno            // errno, …: the same, also below the top level
	memberEnvelope         // code in status, result, data, …: a number other than 0 and 200 means failure
	memberErrorCode        // error_code, …: 0, 200 and empty mean success
	memberSuccess          // success, ok, …: true means success
	memberError            // error, …: must be null
	memberErrors           // errors, …: must be empty
	memberFailed           // failed, …: must be false
	memberDone             // created, …: must not be false
	memberYes              // approved, …: must not be false or 0
	memberNo               // declined, …: must not be true
	memberState            // status, result, …: a word
	memberMessage          // message, …: a text that must not tell of a failure
	memberRemark           // detail, …: a text that may be the order's own
	memberField            // field, …: what a message is about
)

// normal writes a name or a word to buf in lower case and without separators. It
// stops when buf is full.
func normal(buf []byte, text []byte) []byte {
	n := 0
	for _, c := range text {
		switch {
		case c == '_', c == '-', c == ' ', c == '.':
			continue
		case n == len(buf):
			return buf
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		}
		buf[n] = c
		n++
	}
	return buf[:n]
}

func memberOf(name []byte) member {
	var buf [24]byte
	word := normal(buf[:], name)
	switch string(word) {
	case "orderno":
		return memberOrderNo
	case "code", "resultcode", "respcode", "responsecode", "statuscode", "ret", "rc", "rtncode":
		return memberCode
	case "errno", "retcode", "returncode", "scode":
		return memberErrno
	case "errorcode", "errcode", "failcode", "failurecode", "errorno", "errornumber", "errormessage", "errormsg", "errmsg":
		return memberErrorCode
	case "success", "ok", "succeeded", "successful", "issuccess", "isok":
		return memberSuccess
	case "error", "err", "exception", "fault":
		return memberError
	case "errors", "errs", "faults", "exceptions", "violations", "fielderrors", "validationerrors", "errordetails":
		return memberErrors
	case "failed", "failure", "fail", "rejected", "refused", "denied", "haserror", "haserrors", "iserror", "failures":
		return memberFailed
	case "status", "state", "result", "outcome", "orderstatus", "resultstatus", "orderstate", "ordstatus", "ordstate", "tradestatus", "tradestate":
		return memberState
	case "accepted", "created", "placed":
		return memberDone
	case "message", "msg", "reason", "retmsg", "resultmsg", "respmsg", "statusmessage", "statustext":
		return memberMessage
	case "detail", "details", "description", "desc", "title", "cause", "explanation", "hint", "info":
		return memberRemark
	case "field", "fieldname", "param", "parameter", "property", "attribute":
		return memberField
	}
	switch state := withoutIs(word); {
	case slices.Contains(yesNames, string(state)):
		return memberYes
	case slices.Contains(noNames, string(state)):
		return memberNo
	case tellsWhy(word) && !bytes.HasSuffix(word, []byte("count")):
		return memberErrorCode
	case tellsWhy(word), bytes.HasSuffix(word, []byte("errors")): // failCount, userErrors
		return memberErrors
	default:
		return memberNone
	}
}

// What an API says of an order that it took or did not take. New orders are
// truthfully not filled, settled or paid: such names are not among them.
var (
	yesNames = []string{"approved", "authorized", "authorised", "valid", "validated", "passed", "allowed", "permitted", "granted", "confirmed",
		"acknowledged", "registered", "stored", "saved", "submitted", "received", "booked"}
	noNames = []string{"declined", "cancelled", "canceled", "expired", "blocked", "invalid", "aborted", "void", "voided", "suspended", "reject", "decline",
		"unauthorized", "forbidden", "notcreated", "unsuccessful", "timedout", "duplicate", "duplicated"}
)

// withoutIs cuts "is" or "was" off a member's name.
func withoutIs(word []byte) []byte {
	if rest, ok := bytes.CutPrefix(word, []byte("is")); ok {
		return rest
	}
	rest, _ := bytes.CutPrefix(word, []byte("was"))
	return rest
}

// tellsWhy reports whether a member's name is that of the reason of a failure, such as
// reject_reason or errorInfo. fail_url is none.
func tellsWhy(word []byte) bool {
	for _, what := range []string{"error", "err", "failure", "failed", "fail", "rejection", "rejected", "reject", "refusal"} {
		if rest, is := bytes.CutPrefix(word, []byte(what)); is {
			switch string(rest) {
			case "reason", "info", "response", "detail", "details", "text", "desc", "description", "count", "msg", "message", "code", "type":
				return true
			}
		}
	}
	return false
}

// stance is what a member says about an acceptance.
type stance uint8

const (
	stanceNone    stance = iota
	stanceFor            // it says success
	stanceAgainst        // it contradicts an acceptance
	stanceUnknown        // an unknown word about the order's state
)

// stanceOf returns the stance of a member at a depth (1 = top level). At the top
// level, every value that does not mean success is against. Deeper levels may hold
// the order's own data, so only values that mean failure are against.
func stanceOf(m member, depth int, kind jsontext.Kind, empty bool, text []byte) stance {
	var buf [256]byte
	word := normal(buf[:], text)
	number, isNumber := numberOf(kind, text) // not by its word, which lacks the sign and the point
	if isNumber {
		word = text
	}
	top := depth <= 1
	scalar := kind != '{' && kind != '['
	zero := isNumber && number == 0
	nothing := kind == 'n' || empty || zero || string(word) == "false"
	switch m {
	case memberCode, memberErrno:
		if !top { // a code may be anything there, such as a currency
			return againstIf(m == memberErrno && !nothing && number != 200)
		}
		return codeStance(kind, text)
	case memberEnvelope:
		if !isNumber {
			return stanceNone
		}
		return codeStance(kind, text)
	case memberErrorCode:
		if isNumber && (zero || number == 200) {
			return stanceFor
		}
		return againstIf(!nothing && number != 200 && !(scalar && slices.Contains(noErrorWords, string(word))))
	case memberSuccess:
		yes := scalar && (string(word) == "true" || number == 1 || isSuccessWord(word) && word[0] > '9')
		no := string(word) == "false" || zero || number < 0 || string(word) == "no"
		if yes {
			return stanceFor
		}
		return againstIf(top || no)
	case memberError:
		return againstIf(top && kind != 'n' || !nothing)
	case memberErrors, memberFailed:
		return againstIf(!nothing)
	case memberDone, memberYes:
		if m == memberDone && string(word) == "true" {
			return stanceFor
		}
		return againstIf(string(word) == "false" || string(word) == "no" || m == memberYes && zero)
	case memberNo:
		return againstIf(kind == 't' || string(word) == "true" || string(word) == "yes")
	case memberState:
		if number < 0 {
			return stanceAgainst
		}
		if !scalar || kind == 'n' || empty {
			return stanceNone
		}
		return stateStance(word)
	default:
		return stanceNone
	}
}

// numberOf returns the value of a number, or of a string that holds one; otherwise zero.
func numberOf(kind jsontext.Kind, text []byte) (n float64, ok bool) {
	if kind != '0' && (kind != '"' || len(text) == 0 || len(bytes.Trim(text, "+-.0123456789")) > 0) {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(text), 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// isEnvelope reports whether a top-level member holds what the API says about the request
// or the order, so a number called code in it is one of the answer's.
func isEnvelope(name []byte) bool {
	var buf [64]byte
	switch word := normal(buf[:], name); string(word) {
	case "status", "result", "meta", "head", "header", "baseresp", "data", "body", "payload", "order":
		return true
	default:
		return bytes.HasSuffix(word, []byte("response"))
	}
}

// againstIf returns stanceAgainst or stanceNone.
func againstIf(yes bool) stance {
	if yes {
		return stanceAgainst
	}
	return stanceNone
}

func codeStance(kind jsontext.Kind, text []byte) stance {
	if kind != '0' && kind != '"' {
		return stanceAgainst
	}
	if s := string(text); s == "0" || s == "200" {
		return stanceFor
	}
	if n, err := strconv.ParseFloat(string(text), 64); kind == '0' && err == nil && (n == 0 || n == 200) {
		return stanceFor // 0.0
	}
	return stanceAgainst
}

var (
	successWords = []string{"0", "1", "200", "201", "202", "ok", "okay", "true", "yes", "success", "succeeded", "successful", "noerror", "noerrors", "none",
		"created", "accepted", "new", "open", "pending", "queued", "received", "submitted", "processing", "placed", "active", "done", "complete", "completed", "confirmed"}
	noErrorWords = []string{"ok", "okay", "success", "succeeded", "successful", "noerror", "noerrors", "none"}
	failureParts = [][]byte{[]byte("err"), []byte("fail"), []byte("reject"), []byte("refus"), []byte("denied"), []byte("declin"), []byte("invalid"),
		[]byte("exception"), []byte("unavail"), []byte("cancel"), []byte("abort"), []byte("forbid"), []byte("unauth"), []byte("timeout"), []byte("expired"),
		[]byte("insufficient"), []byte("blocked"), []byte("notfound"), []byte("notok"), []byte("unsuccess"), []byte("unknown"), []byte("notacc"), []byte("notcreat"),
		[]byte("notproc"), []byte("badreq"), []byte("busy"), []byte("illegal"), []byte("void"), []byte("maintenance")}
)

func isSuccessWord(word []byte) bool {
	return slices.ContainsFunc(successWords, func(w string) bool { return w == string(word) })
}

func stateStance(word []byte) stance {
	number := len(word) == 3 && len(bytes.Trim(word, "0123456789")) == 0
	switch {
	case string(word) == "0", string(word) == "1":
		return stanceUnknown // 1 is success at one API, and failure at another
	case isSuccessWord(word), number && word[0] == '2':
		return stanceFor
	case number && word[0] >= '3', string(word) == "false", string(word) == "no", string(word) == "ko", string(word) == "nok",
		slices.ContainsFunc(failureParts, func(p []byte) bool { return bytes.Contains(word, p) }):
		return stanceAgainst
	default:
		return stanceUnknown
	}
}

// duplicateCodes are the codes that say that an order with this order_no exists, as normal
// writes them. Codes of one API alone, such as 300301, need a rule.
var duplicateCodes = []string{"duplicate", "duplicated", "exists", "alreadyexists", "duplicateorder", "duplicatedorder", "orderduplicate", "orderduplicated",
	"orderexists", "orderalreadyexists", "duplicateorderno", "duplicateordernumber", "duplicateorderid", "duplicateclientorderid",
	"ordernoexists", "ordernoalreadyexists", "ordernoduplicate", "ordernoduplicated"}

func isDuplicateCode(text []byte) bool {
	var buf [32]byte
	return slices.Contains(duplicateCodes, string(normal(buf[:], text)))
}

// isFinalRefusal reports whether a word about an order's state says that the order does
// not stand, unlike the words error and failed, which APIs also use for a request that
// was refused because the order exists.
func isFinalRefusal(text []byte) bool {
	var buf [64]byte
	word := normal(buf[:], text)
	general := slices.ContainsFunc([]string{"err", "fail", "exception"}, func(p string) bool { return bytes.Contains(word, []byte(p)) }) ||
		slices.Contains([]string{"false", "no", "ko", "nok", "badrequest", "unsuccessful"}, string(word))
	return stateStance(word) == stanceAgainst && !general && len(bytes.Trim(word, "0123456789")) > 0
}

// isHarmless reports whether a text, or a code in words, says no more than that the request
// succeeded.
func isHarmless(text []byte) bool {
	var buf [32]byte
	word := normal(buf[:], text)
	return len(word) == 0 || slices.Contains(noErrorWords, string(word)) || isSuccessWord(bytes.TrimPrefix(word, []byte("order")))
}

// negations are the words of a text that say that something was not done.
var negations = strings.Fields("no not never nothing cannot cant wont without unable neither nor non nobody aint doesnt didnt dont wasnt isnt hasnt couldnt")

// denies reports whether a text has a word that tells of a failure, such as rejected, or of
// something that was not done. In order_no, no is none.
func denies(text []byte, orderNo string) bool {
	if len(orderNo) >= minEcho || strings.ContainsAny(orderNo, "0123456789") {
		text = bytes.ReplaceAll(text, []byte(orderNo), []byte(" "))
	}
	text = bytes.ReplaceAll(bytes.ToLower(text), []byte("'"), nil)
	last := ""
	for word := range bytes.FieldsFuncSeq(text, func(r rune) bool { return r < 'a' || r > 'z' }) {
		named := string(word) == "no" && strings.HasPrefix(last, "ord")
		if !named && slices.Contains(negations, string(word)) || slices.ContainsFunc(failureParts, func(p []byte) bool {
			innocent := string(p) == "err" || string(p) == "void" // as in preferred and avoid
			return !innocent && bytes.Contains(word, p)
		}) {
			return true
		}
		last = string(word)
	}
	return false
}

// has reports whether a text has one of the parts, whatever the case.
func has(text []byte, parts ...string) bool {
	text = bytes.ToLower(text)
	return slices.ContainsFunc(parts, func(part string) bool { return bytes.Contains(text, []byte(part)) })
}
