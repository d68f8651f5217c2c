package sandbox

import (
	"strconv"
	"time"
)

// Witnessed is a properly signed request to create an order.
type Witnessed struct {
	// At is when it arrived, by this machine's clock.
	At      time.Time
	OrderNo string
	// Timestamp is the one that was signed, in milliseconds.
	Timestamp int64
	// Answer is the server's answer, as in the ledger.
	Answer string
	// Created says that this request created the order.
	Created bool
}

// witnessed describes the exchange, which is decided.
func (x *exchange) witnessed() Witnessed {
	stamp, _ := strconv.ParseInt(string(x.doc.field("timestamp")), 10, 64) // it was verified
	return Witnessed{At: x.now.Add(-x.settings.Skew), OrderNo: string(x.orderNo), Timestamp: stamp, Answer: x.decision.answer.String(), Created: x.decision.creates}
}
