package worker

import (
	"math"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/order"
)

// logWindow is the period of the burst of lines about accepted orders.
const logWindow = time.Second

// orderLog logs one line for each settled order. Under load it skips lines about
// accepted orders and later logs how many it skipped. It skips no other outcome.
type orderLog struct {
	log zerolog.Logger
	// sampler decides which accepted orders get a line; nil = all.
	sampler zerolog.Sampler

	mu      sync.Mutex
	skipped int         // accepted orders without a line since the last flush
	due     *time.Timer // runs flush
}

// newOrderLog returns an orderLog that logs at most burst accepted orders within
// logWindow. With burst 0 it logs all.
func newOrderLog(log zerolog.Logger, burst int) *orderLog {
	l := &orderLog{log: log}
	if burst > 0 {
		l.sampler = &zerolog.BurstSampler{Burst: uint32(min(burst, math.MaxUint32)), Period: logWindow, NextSampler: skipCounter{l}}
	}
	return l
}

// skipCounter counts the lines that exceed the burst.
type skipCounter struct{ *orderLog }

// Sample implements zerolog.Sampler. It always returns false.
func (c skipCounter) Sample(zerolog.Level) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.skipped++; c.due == nil {
		c.due = time.AfterFunc(logWindow, c.flush)
	}
	return false
}

// flush logs how many lines were skipped, if any.
func (l *orderLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.due == nil {
		return
	}
	l.due.Stop()
	l.log.Info().Int("orders", l.skipped).Str("outcome", order.OutcomeAccepted.String()).
		Msg("more orders settled, without a line each (ORDERPOST_LOG_SAMPLE)")
	l.skipped, l.due = 0, nil
}

// settled logs the line about a settled order. trace may be empty.
func (l *orderLog) settled(rec *order.Record, delivered uint64, trace string) {
	if rec.Outcome() == order.OutcomeAccepted && l.sampler != nil && !l.sampler.Sample(zerolog.InfoLevel) {
		return
	}
	e := l.log.WithLevel(levelOf(rec)).Str("order_no", rec.OrderNo).Str("outcome", rec.Word).Stringer("verdict", rec.Verdict).
		Int("status", rec.Status).Int("attempts", rec.Attempts).Bool("unsure", rec.Unsure).
		Dur("took_ms", rec.SettledAt.Sub(rec.EnqueuedAt)).Str("reason", rec.Reason).Uint64("delivered", delivered)
	for _, f := range []struct{ name, value string }{{"batch", rec.Batch}, {"error", rec.Error}, {"trace_id", trace}} {
		if f.value != "" {
			e.Str(f.name, f.value)
		}
	}
	e.Msg("order settled")
}

// levelOf returns the level of an order's line: error if the order crashed its
// workers, warning if its outcome is unknown. Both need a person.
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
