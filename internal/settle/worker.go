package settle

import (
	"context"
	"sync/atomic"
	"time"
)

// Worker is the worker's side of the protocol, from the pull to the acknowledgement.
// [Handler] alone sets the order of its steps.
type Worker struct {
	ledger    *Ledger
	claims    *Claims
	acked     *acknowledged
	highWater *highWater
	waits     waits

	reconnected atomic.Pointer[time.Time] // time of the last reconnect; nil = never
}

// Disconnected ends every claim, because the broker may deliver the messages to
// other workers (R7).
func (wk *Worker) Disconnected() {
	wk.ledger.disconnects.Add(1)
	wk.claims.endAll()
}

// ForgetDeliveries is called when the broker's consumer is missing, or did not end a
// pull as it should: its server may have been killed while the connection, which leads
// to another server, holds. The consumer may then count deliveries from one again. As
// after a disconnect, the next pull reads the high-water marks again (highwater.go).
// Everything that was delivered before then counts as such. Deliveries that are on
// their way were judged by the former marks and lose their claims.
func (wk *Worker) ForgetDeliveries() { wk.ledger.disconnects.Add(1) }

// RereadHighWaterMarks makes the next pull read the high-water marks again, and leaves
// claims alone. It is for a connection that does not tell whether the consumer's server
// was killed since the pull before.
func (wk *Worker) RereadHighWaterMarks() { wk.highWater.reread() }

// Reconnected notes that the connection to the broker is back.
func (wk *Worker) Reconnected() {
	now := wk.ledger.time.Now()
	wk.reconnected.Store(&now)
}

// ReconnectedAt returns when the connection to the broker last came back; zero
// if it was never lost.
func (wk *Worker) ReconnectedAt() time.Time {
	if at := wk.reconnected.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// ReconnectGraceUntil returns the time until which no redelivered order may be
// posted after the last reconnect (R7); zero if there was none. A broker that
// was killed may deliver an order again before its former owner notices. That
// worker is frozen or cut off, and believes in its claim for at most one term.
// Its attempt ends with the claim, but the request may be on its way for one
// attempt timeout.
func (wk *Worker) ReconnectGraceUntil() time.Time {
	at := wk.ReconnectedAt()
	if at.IsZero() {
		return at
	}
	return at.Add(max(wk.ledger.cfg.AttemptTimeout, wk.claims.Term()))
}

// graceLeft returns how long redelivered orders still wait after a reconnect (R7).
func (wk *Worker) graceLeft(now time.Time) time.Duration {
	return wk.ReconnectGraceUntil().Sub(now)
}

// RestoreHighWaterMark writes this worker's delivered high-water mark into a
// bucket that was created again.
func (wk *Worker) RestoreHighWaterMark(ctx context.Context) error { return wk.highWater.restore(ctx) }
