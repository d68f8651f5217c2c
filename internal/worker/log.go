package worker

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/order"
)

// logWindow is the time over which lines about accepted orders are counted.
const logWindow = time.Second

// orderLog writes one line for each settled order. Under load it leaves out
// lines about orders that were accepted, and those alone, and says how many:
// the results stream has them all.
type orderLog struct {
	log zerolog.Logger
	// most is the number of accepted orders that get a line within one window;
	// 0 = all. response is how much of an answer's body a line shows, in bytes.
	most, response int

	mu      sync.Mutex
	began   time.Time // of the window
	written int       // lines in it
	left    int       // accepted orders without a line since it was last told
	due     *time.Timer
}

// wants says whether an accepted order gets a line.
func (l *orderLog) wants(now time.Time) bool {
	if l.most <= 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.began) >= logWindow {
		l.began, l.written = now, 0
	}
	if l.written < l.most {
		l.written++
		return true
	}
	if l.left++; l.due == nil {
		l.due = time.AfterFunc(l.began.Add(logWindow).Sub(now), l.flush)
	}
	return false
}

// flush tells how many lines were left out, if any.
func (l *orderLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.due == nil {
		return
	}
	l.due.Stop()
	l.log.Info().Int("orders", l.left).Str("outcome", order.OutcomeAccepted.String()).
		Msg("more orders settled, without a line each (ORDERPOST_LOG_SAMPLE)")
	l.left, l.due = 0, nil
}

// settled writes the one wide line about an order. trace may be empty.
func (l *orderLog) settled(rec *order.Record, delivered uint64, trace string) {
	if rec.Outcome() == order.OutcomeAccepted && !l.wants(time.Now()) {
		return
	}
	e := l.log.WithLevel(levelOf(rec)).Str("order_no", rec.OrderNo).Str("outcome", rec.Word).Stringer("verdict", rec.Verdict).
		Int("status", rec.Status).Int("attempts", rec.Attempts).Bool("unsure", rec.Unsure).
		Dur("took_ms", rec.SettledAt.Sub(rec.EnqueuedAt)).Str("batch", rec.Batch).Str("reason", rec.Reason).
		Str("error", rec.Error).Uint64("delivered", delivered)
	if trace != "" {
		e.Str("trace_id", trace)
	}
	if l.response > 0 && rec.Response != "" {
		e.Str("response", order.Truncate(rec.Response, l.response))
	}
	e.Msg("order settled")
}

// levelOf is an error for an order that took workers down, and a warning for one
// whose fate nobody knows: both wait for a person.
func levelOf(rec *order.Record) zerolog.Level {
	switch o := rec.Outcome(); {
	case o == order.OutcomePoison, rec.Reason == order.EndPoison.String():
		return zerolog.ErrorLevel
	case o == order.OutcomeUnknown:
		return zerolog.WarnLevel
	default:
		return zerolog.InfoLevel
	}
}
