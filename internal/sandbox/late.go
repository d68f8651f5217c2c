package sandbox

import (
	"bytes"
	"time"
)

// createLate carries a request out after the settings' delay, if its timestamp is inside the window then.
// A server that is closed by then does not.
func (s *Server) createLate(x *exchange, a attempt) {
	signed, _ := signedTimestamp(&x.doc) // it was verified
	w := x.witnessed()
	a.orderNo = bytes.Clone(a.orderNo) // the exchange is used again
	time.AfterFunc(a.settings.Faults.LateDelay, func() {
		select {
		case <-s.closed:
			return
		default:
		}
		a.now = s.config.Now().Add(a.settings.Skew)
		if age := a.now.Sub(signed); age > a.settings.Window || age < -a.settings.Window {
			return
		}
		if s.book.late(a) && s.config.Witness != nil {
			w.At, w.Answer, w.Created = s.config.Now(), AnswerDropped.String(), true
			s.config.Witness(w)
		}
	})
}
