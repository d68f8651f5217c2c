package sandbox

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Told is an answer as a person writes it: a status and a body. In the body,
// {order_no} stands for the order's number as JSON.
type Told struct {
	Status int // 0 = none was given: 409
	Body   string
}

// defaultTold is a business refusal that has the status of a duplicate.
var defaultTold = Told{http.StatusConflict, `{"error":"insufficient_balance"}`}

// String implements value.
func (t *Told) String() string {
	if t.Status == 0 {
		return defaultTold.String()
	}
	return strings.TrimSpace(strconv.Itoa(t.Status) + " " + t.Body)
}

// Type implements value.
func (t *Told) Type() string { return "answer" }

// Set implements value.
func (t *Told) Set(text string) error {
	status, body, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, err := strconv.Atoi(status)
	if err != nil || n < 200 || n > 599 {
		return fmt.Errorf("%q does not begin with a status from 200 to 599, as in: 409 {\"error\":\"no funds\"}", text)
	}
	*t = Told{n, strings.TrimSpace(body)}
	return nil
}

// told gives the answer that the settings dictate.
func (s *Server) told(x *exchange) {
	t := x.settings.Faults.Told
	if t.Status == 0 {
		t = defaultTold
	}
	x.reply = append(x.reply[:0], strings.ReplaceAll(t.Body, "{order_no}", string(x.doc.field("order_no")))...)
	if t.Status/100 == 3 {
		x.w.Header().Set("Location", "/login")
	}
	if strings.HasPrefix(t.Body, "<") {
		x.w.Header()["Content-Type"] = []string{"text/html"}
		s.send(x, AnswerTold, t.Status, x.reply)
		return
	}
	s.reply(x, AnswerTold, t.Status)
}
