package settle

import (
	"maps"
	"sync"
	"time"

	"orderpost/internal/order"
)

// waits bounds how long an order waits for a time in its record, which another clock wrote: until
// this process's clock says that it has come, and no longer than such a wait can last, by the
// monotonic clock, from when this process read the record first (R9).
type waits struct {
	mu    sync.Mutex
	first map[string]firstRead // by token
}

// firstRead is when a process read a wait first.
type firstRead struct {
	attempt, until time.Time // of the record, which name the wait
	at             time.Time
}

// mostWaits is how many waits a process remembers before it forgets those that are over.
const mostWaits = 10_000

// left returns how much is left of a wait that began with an attempt and lasts no longer than most.
func (w *waits) left(token string, attempt, until, now time.Time, most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := until.Sub(now)
	if left <= 0 {
		delete(w.first, token)
		return 0
	}
	is, known := w.first[token]
	if !known || !is.attempt.Equal(attempt) || !is.until.Equal(until) {
		if w.first == nil {
			w.first = make(map[string]firstRead)
		}
		if len(w.first) >= mostWaits {
			maps.DeleteFunc(w.first, func(_ string, r firstRead) bool { return now.Sub(r.at) > most })
		}
		is = firstRead{attempt, until, now}
		w.first[token] = is
	}
	return max(0, min(left, most-now.Sub(is.at)))
}

// waitLeft returns how long a delivery waits for its order's record to say that another attempt
// may begin: the end of the attempt of another worker that is open, or of a delay.
func (wk *Worker) waitLeft(d *Delivery, now time.Time) time.Duration {
	last, lg := d.Last.Record, wk.ledger
	until, most := last.NotBefore, lg.cfg.LongestDelay
	if last.Note == order.NoteAttempt {
		until, most = last.LastAttemptAt.Add(lg.cfg.AttemptTimeout), lg.cfg.AttemptTimeout
	}
	return wk.waits.left(d.token, last.LastAttemptAt, until, now, most)
}
