package sandbox

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// Header values that all answers share. net/http does not change them.
var jsonType = []string{"application/json"}

func (s *Server) succeed(x *exchange, a Answer) {
	x.reply = appendSuccess(x.reply[:0], x.settings.Manner, x.data)
	s.reply(x, a, http.StatusOK)
}

func (s *Server) refuse(x *exchange, bad *refusal) {
	if bad.answer == AnswerTooMany || bad.answer == AnswerRateLimited {
		s.retryAfter(x, bad.answer)
	}
	x.reply = bad.appendBody(x.reply[:0], x.settings.Manner)
	s.reply(x, bad.answer, bad.status(x.settings.Manner))
}

func (s *Server) reply(x *exchange, a Answer, status int) {
	x.w.Header()["Content-Type"] = jsonType
	s.send(x, a, status, x.reply)
}

// send writes an answer after its delay.
func (s *Server) send(x *exchange, a Answer, status int, body []byte) {
	s.counted(x, a, status)
	s.pause(x)
	if x.settings.Skew != 0 {
		x.w.Header().Set("Date", s.config.Now().Add(x.settings.Skew).UTC().Format(http.TimeFormat))
	}
	x.w.WriteHeader(status)
	x.w.Write(body) //nolint:errcheck // the client is gone
}

// drop closes the connection without an answer.
func (s *Server) drop(x *exchange) {
	s.counted(x, AnswerDropped, 0)
	s.pause(x)
	panic(http.ErrAbortHandler)
}

func (s *Server) counted(x *exchange, a Answer, status int) {
	s.tallies.answers[a].Add(1)
	s.trail.add(x, a, status)
	if e := s.log.Debug(); e.Enabled() {
		e.Stringer("answer", a).Int("status", status).Stringer("fault", x.decision.fault).
			Bool("slow", x.decision.slow).Bytes("order_no", x.orderNo).Msg("request")
	}
}

// pause waits for the delay of the answer. It returns early if the client is gone or
// the server closes.
func (s *Server) pause(x *exchange) {
	wait := x.settings.Latency
	if j := x.settings.Jitter; j > 0 {
		wait += time.Duration(x.decision.draws.unit(drawJitter) * float64(j))
	}
	if x.decision.slow {
		wait += x.settings.Faults.SlowDelay
	}
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.r.Context().Done():
	case <-s.closed:
	}
}

func (s *Server) retryAfter(x *exchange, a Answer) {
	wait := x.settings.Faults.RetryAfter
	if a == AnswerRateLimited {
		// The time after which the limiter has a token again.
		if r := x.settings.Rate; r > 0 { // 0 if the limit was just lifted
			wait = time.Duration(float64(time.Second) / r)
		}
	}
	seconds := max(1, int64(math.Ceil(wait.Seconds())))
	switch x.settings.Faults.RetryAfterForm {
	case RetryAfterSeconds:
		x.w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	case RetryAfterDate:
		at := x.now.Add(time.Duration(seconds) * time.Second)
		x.w.Header().Set("Retry-After", at.UTC().Format(http.TimeFormat))
	}
}
