package sandbox

import (
	"bytes"
	"time"
)

// createLate carries a request out after the settings' delay, if its timestamp is inside the window then.
func (s *Server) createLate(x *exchange) {
	signed, _ := signedTimestamp(&x.doc) // it was verified
	w := x.witnessed()
	a := attempt{orderNo: bytes.Clone(x.orderNo), hash: hashOrderNo(x.orderNo), body: x.bodyHash(), settings: x.settings}
	time.AfterFunc(x.settings.Faults.LateDelay, func() {
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
