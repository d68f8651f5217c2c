package sandbox

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	accountPath = "/v1/account"
	createPath  = "/v1/order/create"
	orderPrefix = "/v1/order/"
	adminPrefix = "/_sandbox/"
)

// serve routes by hand because the path of an order must be fast.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, adminPrefix) {
		s.admin.ServeHTTP(w, r)
		return
	}
	settings := s.settings.Load()
	arrived := s.config.Now()
	s.tallies.seconds.count(arrived, r.URL.Path == createPath)
	if settings.Down != Up {
		s.tallies.answers[AnswerDown].Add(1)
		panic(http.ErrAbortHandler)
	}
	x := exchanges.Get().(*exchange)
	defer x.release()
	x.w, x.r, x.settings, x.now = w, r, settings, arrived.Add(settings.Skew)
	// The rate limit comes before authentication, as at a gateway.
	if l := s.limiter.Load(); l != nil && !l.AllowN(arrived, 1) {
		s.refuse(x, &refusal{answer: AnswerRateLimited})
		return
	}
	s.answer(x)
}

// exchange is one request and its answer. Exchanges are pooled.
type exchange struct {
	call
	w        http.ResponseWriter
	r        *http.Request
	settings *Settings
	now      time.Time // by the server's clock
	orderNo  []byte    // nil until it is known
	decision decision
	data     []byte // the members of the answer's data
	reply    []byte // the answer's body
}

var exchanges = sync.Pool{New: func() any { return &exchange{call: newCall()} }}

// release returns the exchange to the pool unless its buffers are very large.
func (x *exchange) release() {
	x.w, x.r, x.settings, x.orderNo, x.decision = nil, nil, nil, nil, decision{}
	x.raw = x.raw[:0]
	if cap(x.raw)+cap(x.doc.out) < 256<<10 {
		exchanges.Put(x)
	}
}

// answer calls the endpoint.
func (s *Server) answer(x *exchange) {
	if no, ok := strings.CutPrefix(x.r.URL.Path, orderPrefix); ok && x.r.Method == http.MethodGet && no != "" {
		s.found(x, no)
		return
	}
	path, method := accountPath, http.MethodGet
	if x.r.URL.Path != accountPath {
		path, method = createPath, http.MethodPost
	}
	switch {
	case x.r.URL.Path != path:
		s.refuse(x, &refusal{answer: AnswerNotFound})
	case x.r.Method != method:
		x.w.Header().Set("Allow", method)
		s.refuse(x, &refusal{answer: AnswerBadMethod})
	case path == accountPath:
		s.account(x)
	default:
		s.create(x)
	}
}

func (s *Server) account(x *exchange) {
	if _, bad := s.authenticate(x.r.Header); bad != nil {
		s.refuse(x, bad)
		return
	}
	x.data = append(x.data[:0], `"account":`...)
	x.data = appendQuoted(x.data, s.config.Account)
	s.succeed(x, AnswerAccount)
}

// found answers a GET of an order, which the contract does not show: whether an API has one, and what it says, differs.
func (s *Server) found(x *exchange, orderNo string) {
	if _, bad := s.authenticate(x.r.Header); bad != nil {
		s.refuse(x, bad)
		return
	}
	e, _ := s.book.lookup(orderNo)
	state := "created"
	switch {
	case e.Created > 0 && x.now.Sub(e.FirstAt) >= x.settings.LookupLag:
	case e.Refused && e.Created == 0:
		state = "declined"
	default:
		s.refuse(x, &refusal{answer: AnswerUnknownOrder})
		return
	}
	x.data = appendQuoted(append(x.data[:0], `"order_no":`...), orderNo)
	x.data = append(append(append(x.data, `,"status":"`...), state...), '"')
	s.succeed(x, AnswerFound)
}

func (s *Server) create(x *exchange) {
	if bad := s.admit(x); bad != nil {
		s.refuse(x, bad)
		return
	}
	a := attempt{
		orderNo:  x.orderNo,
		hash:     hashOrderNo(x.orderNo),
		body:     x.bodyHash(),
		now:      x.now,
		settings: x.settings,
	}
	x.decision = s.book.attempt(a)
	d := &x.decision
	if d.fault == FaultLate {
		s.createLate(x, a)
	}
	if s.config.Witness != nil {
		s.config.Witness(x.witnessed())
	}
	if d.fault != NoFault {
		s.tallies.faults[d.fault].Add(1)
	}
	if d.slow {
		s.tallies.faults[FaultSlow].Add(1)
	}
	switch d.answer {
	case AnswerCreated, AnswerOriginal:
		x.data = x.appendOrder(x.data[:0])
		s.succeed(x, d.answer)
	case AnswerDropped:
		s.drop(x)
	case AnswerGarbage:
		s.garbage(x)
	case AnswerTold:
		s.told(x)
	case AnswerOther:
		x.data = append(x.data[:0], `"order_no":"SB-OTHER-1","order_id":"sb-other","status":"created"`...)
		s.succeed(x, d.answer)
	default:
		s.refuse(x, &refusal{answer: d.answer})
	}
}

// admit checks a request to create an order, as far as the checks do not depend on
// other orders. It checks credentials before the body, and cheap things first.
func (s *Server) admit(x *exchange) *refusal {
	if header(x.r.Header, "Content-Type") != "application/json" {
		return &refusal{answer: AnswerMediaType}
	}
	p, bad := s.authenticate(x.r.Header)
	if bad != nil {
		return bad
	}
	if bad := s.readBody(x); bad != nil {
		return bad
	}
	if err := x.doc.read(x.raw); err != nil {
		return &refusal{answer: AnswerMalformed, detail: err.Error()}
	}
	if bad := s.verify(&x.call, p, header(x.r.Header, "X-Signature"), x.now, x.settings.Window); bad != nil {
		if bad.answer == AnswerBadSignature || bad.answer == AnswerNoSignature {
			p.badSigns.Add(1)
			s.tallies.badSigns.Add(1)
		}
		return bad
	}
	x.orderNo, bad = orderNo(&x.doc)
	return bad
}

// readBody reads the body into a reused buffer. It uses Content-Length to size it.
func (s *Server) readBody(x *exchange) *refusal {
	limit := s.config.MaxBody
	if x.r.ContentLength > limit {
		return &refusal{answer: AnswerTooLarge}
	}
	if n := int(x.r.ContentLength); n >= 0 {
		if cap(x.raw) < n {
			x.raw = make([]byte, n)
		}
		x.raw = x.raw[:n]
		if _, err := io.ReadFull(x.r.Body, x.raw); err != nil {
			return &refusal{answer: AnswerMalformed, detail: "it ended early"}
		}
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(x.r.Body, limit+1))
	if err != nil {
		return &refusal{answer: AnswerMalformed, detail: "it ended early"}
	}
	if int64(len(body)) > limit {
		return &refusal{answer: AnswerTooLarge}
	}
	x.raw = body
	return nil
}

// appendOrder appends the members of the order's object in an answer.
func (x *exchange) appendOrder(out []byte) []byte {
	out = append(out, `"order_no":`...)
	out = append(out, x.doc.field("order_no")...)
	out = append(out, `,"order_id":"sb-`...)
	out = strconv.AppendUint(out, x.decision.id, 10)
	if x.decision.created > 1 && x.decision.answer == AnswerCreated {
		out = append(out, '-')
		out = strconv.AppendUint(out, uint64(x.decision.created), 10)
	}
	return append(out, `","status":"created"`...)
}
