package answer

import (
	"fmt"
	"net/http"
	"strconv"

	"orderpost/internal/order"
)

// judgeStatus returns the built-in judgement of an answer that no rule matched. It
// reads the body of a 2xx. What other bodies say is weighed later: a duplicate needs
// evidence, and a refusal must not say that the order exists (evidence.go).
//
// The table in docs/rules.md gives the reason for each status. A test compares it.
func judgeStatus(a *Answer) Judgement {
	by := func(v order.Verdict) Judgement {
		return Judgement{Verdict: v, Reason: fmt.Sprintf("%s by status %d", pastTense(v), a.Status)}
	}
	// held is for an answer that does not tell, and that later orders will get, too.
	held := func(what string) Judgement {
		j := by(order.Unsure)
		j.Detail, j.Hold = what, a.holdReason(j.Reason, what, "status == "+strconv.Itoa(a.Status), "")
		return j
	}
	switch s := a.Status; {
	case s == http.StatusOK, s == http.StatusCreated, s == http.StatusAccepted, s == http.StatusNoContent:
		return judgeSuccess(a)
	case s == http.StatusAlreadyReported, s == http.StatusConflict, s == http.StatusPreconditionFailed:
		return by(order.Duplicate)
	case s >= 200 && s < 300:
		return held("this status does not say that the order was created")
	case s >= 300 && s < 400:
		to := ""
		if l := a.Header.Get("Location"); l != "" {
			to = " to " + a.Excerpt([]byte(l), 200)
		}
		return held("it is a redirect" + to + ", which orderpost does not follow, because a signed order is not handed to another address: is ORDERPOST_API_URL right")
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return by(order.Denied)
	case s == http.StatusNotFound, s == http.StatusMethodNotAllowed, s == http.StatusGone, s == http.StatusMisdirectedRequest, s == http.StatusUpgradeRequired:
		j := by(order.Rejected)
		j.Misplaced = true
		return j
	case s == http.StatusProxyAuthRequired, s == http.StatusNetworkAuthenticationRequired:
		j := by(order.Retry)
		j.AtProxy, j.Excused = true, true
		j.Hold = fmt.Sprintf("a proxy on the way asks for credentials (%d), so no order reaches the API", s)
		return j
	case s == http.StatusTooEarly:
		return by(order.Retry)
	case s == http.StatusTooManyRequests:
		j := by(order.Retry)
		j.Throttle = true
		return j
	case s == http.StatusRequestTimeout, s == statusClientGoneALB, s == statusClientGone:
		j := by(order.Unsure)
		j.Failed, j.Detail = true, "proxies answer so for requests that the API carried out"
		return j
	case refuses(s):
		return by(order.Rejected)
	case s >= 400 && s < 500:
		return held("this status does not say that the order was not created")
	default: // 5xx, a final 1xx, and invalid statuses
		j := by(order.Unsure)
		j.Failed = true
		return j
	}
}

// What two kinds of proxy say if their client went away before the answer.
const (
	statusClientGoneALB = 460
	statusClientGone    = 499
)

// refuses reports whether a status means that the server did not do what was asked.
func refuses(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusLengthRequired, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusUnsupportedMediaType, http.StatusExpectationFailed, http.StatusTeapot, http.StatusUnprocessableEntity, http.StatusLocked,
		http.StatusPreconditionRequired, http.StatusRequestHeaderFieldsTooLarge, http.StatusUnavailableForLegalReasons,
		http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return true
	default:
		return false
	}
}

func pastTense(v order.Verdict) string {
	switch v {
	case order.Retry:
		return "put off"
	case order.Unsure:
		return "left open"
	case order.Rejected:
		return "refused"
	default:
		return v.String()
	}
}
