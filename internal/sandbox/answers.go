package sandbox

import (
	"net/http"
	"strconv"
)

// Answer is the kind of answer to a request.
type Answer uint8

// The kinds of answer.
const (
	// AnswerAccount: the account was shown.
	AnswerAccount Answer = iota
	// AnswerCreated: the order was created, and the answer says so.
	AnswerCreated
	// AnswerOriginal: the order existed and was returned.
	AnswerOriginal
	// AnswerDuplicate: the order existed and the request was refused.
	AnswerDuplicate
	// AnswerRefused: the order was refused for good.
	AnswerRefused
	// AnswerFound: the order that was asked for. AnswerUnknownOrder: there is none.
	AnswerFound
	AnswerUnknownOrder
	// AnswerUnavailable: 503, by an injected fault.
	AnswerUnavailable
	// AnswerTooMany: 429, by an injected fault.
	AnswerTooMany
	// AnswerDropped: none; the connection was closed, by an injected fault.
	AnswerDropped
	// AnswerGarbage: 200 and an unreadable body, by an injected fault.
	AnswerGarbage
	// AnswerOther: 200 and the success of another order, by an injected fault.
	AnswerOther
	// AnswerTold: what the settings dictate, by an injected fault.
	AnswerTold
	// AnswerDown: none; the API was down.
	AnswerDown
	// AnswerRateLimited: 429, by the rate limit.
	AnswerRateLimited
	// The rest are bad requests.
	AnswerNoKey
	AnswerUnknownKey
	AnswerNoSignature
	AnswerBadSignature
	AnswerExpired
	AnswerReplayed
	AnswerMalformed
	AnswerIncomplete
	AnswerMediaType
	AnswerTooLarge
	AnswerNotFound
	AnswerBadMethod
	answerCount
)

// answerSpec is the content of an answer. The numbers are taken from real APIs of
// this kind where possible.
type answerSpec struct {
	word    string
	status  int
	code    int
	message string
	field   string // the field at fault, for MannerFields
}

var answerSpecs = [answerCount]answerSpec{
	AnswerAccount:      {"account", 200, 0, "ok", ""},
	AnswerCreated:      {"created", 200, 0, "ok", ""},
	AnswerOriginal:     {"original", 200, 0, "ok", ""},
	AnswerDuplicate:    {"duplicate", 409, 300301, "an order with this order_no exists", "order_no"},
	AnswerRefused:      {"refused", 422, 300302, "the order is refused", "order_no"},
	AnswerFound:        {"found", 200, 0, "ok", ""},
	AnswerUnknownOrder: {"unknown-order", 404, 300404, "there is no order with this order_no", ""},
	AnswerUnavailable:  {"unavailable", 503, 100503, "the service is unavailable", ""},
	AnswerTooMany:      {"too-many", 429, 100429, "too many requests", ""},
	AnswerDropped:      {"dropped", 0, 0, "", ""},
	AnswerGarbage:      {"garbage", 200, 0, "", ""},
	AnswerOther:        {"other", 200, 0, "", ""},
	AnswerTold:         {"told", 0, 0, "", ""},
	AnswerDown:         {"down", 0, 0, "", ""},
	AnswerRateLimited:  {"rate-limited", 429, 100429, "too many requests", ""},
	AnswerNoKey:        {"no-key", 401, 100102, "X-API-Key is missing", ""},
	AnswerUnknownKey:   {"unknown-key", 401, 100105, "the API key is not known", ""},
	AnswerNoSignature:  {"no-signature", 401, 100106, "X-Signature is missing", "signature"},
	AnswerBadSignature: {"bad-signature", 401, 100104, "the signature does not match", "signature"},
	AnswerExpired:      {"expired", 401, 100101, "the timestamp is outside the window", "timestamp"},
	AnswerReplayed:     {"replayed", 401, 100103, "the signature was used before", "signature"},
	AnswerMalformed:    {"malformed", 400, 100400, "the body cannot be read", "body"},
	AnswerIncomplete:   {"incomplete", 400, 100422, "a field is missing or of the wrong type", "body"},
	AnswerMediaType:    {"media-type", 415, 100415, "Content-Type must be application/json", "content_type"},
	AnswerTooLarge:     {"too-large", 413, 100413, "the body is too large", "body"},
	AnswerNotFound:     {"not-found", 404, 100404, "there is nothing here", ""},
	AnswerBadMethod:    {"bad-method", 405, 100405, "the method is not allowed here", ""},
}

func (a Answer) String() string { return answerSpecs[a].word }

// answer returns the answer to an attempt that meets the fault.
func (f Fault) answer() Answer {
	switch f {
	case FaultUnavailable, FaultUnavailableAfter:
		return AnswerUnavailable
	case FaultTooMany:
		return AnswerTooMany
	case FaultGarbage:
		return AnswerGarbage
	case FaultOther:
		return AnswerOther
	case FaultTold, FaultToldAfter:
		return AnswerTold
	default:
		return AnswerDropped
	}
}

// refusal is an answer other than success. detail and field add to the answer's spec.
type refusal struct {
	answer Answer
	detail string
	field  string
}

func (r *refusal) message() string {
	if r.detail == "" {
		return answerSpecs[r.answer].message
	}
	return answerSpecs[r.answer].message + ": " + r.detail
}

// status returns the HTTP status of the refusal in a manner.
func (r *refusal) status(m Manner) int {
	spec := answerSpecs[r.answer]
	switch {
	case m == MannerCode || m == MannerErrno:
		return http.StatusOK
	case m == MannerFields && spec.field != "":
		return http.StatusBadRequest
	}
	return spec.status
}

// appendBody appends the refusal's JSON.
func (r *refusal) appendBody(out []byte, m Manner) []byte {
	spec := answerSpecs[r.answer]
	if m == MannerFields {
		field := spec.field
		if r.field != "" {
			field = r.field
		}
		if field == "" {
			out = append(out, `{"detail":`...)
			return append(appendQuoted(out, r.message()), '}')
		}
		out = append(appendQuoted(append(out, '{'), field), ":["...)
		return append(appendQuoted(out, r.message()), "]}"...)
	}
	out = appendCode(out, m, spec.code)
	if m == MannerStatus {
		out = appendQuoted(append(out, `,"error":`...), spec.word)
	}
	out = appendQuoted(append(out, `,"message":`...), r.message())
	if m == MannerCode {
		out = append(out, `,"data":null`...)
	}
	return append(out, '}')
}

func appendCode(out []byte, m Manner, code int) []byte {
	if m == MannerErrno {
		out = append(out, `{"errno":`...)
	} else {
		out = append(out, `{"code":`...)
	}
	return strconv.AppendInt(out, int64(code), 10)
}

// appendSuccess appends the JSON of a success. data holds the members of its object.
func appendSuccess(out []byte, m Manner, data []byte) []byte {
	if m == MannerFields {
		out = append(append(out, '{'), data...)
		return append(out, '}')
	}
	out = appendCode(out, m, 0)
	out = append(append(out, `,"message":"ok","data":{`...), data...)
	return append(out, "}}"...)
}

// appendQuoted appends a valid text as a JSON string.
func appendQuoted(out []byte, text string) []byte {
	d := document{out: append(out, '"')}
	for _, r := range text {
		d.appendRune(r)
	}
	return append(d.out, '"')
}

// Answers lists every kind of answer.
func Answers() []Answer {
	all := make([]Answer, answerCount)
	for i := range all {
		all[i] = Answer(i)
	}
	return all
}
