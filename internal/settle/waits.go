package settle

import (
	"context"
	"maps"
	"slices"
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

// Overdue finds deliveries that nobody ended for longer than any delay lasts, and asks the
// broker for them again (R9). The broker judges ack waits and delays by the wall clock of the
// server that leads the consumer. If that clock is set back, what it gave a time before stays
// with it until the clock gets there.
type Overdue struct {
	ledger *Ledger
	claims *Claims

	looking sync.Mutex           // one look of this process at a time; it guards the rest
	over    link                 // the connection that the rest is about
	at      time.Time            // of the last look
	seen    map[uint64]delivered // by the sequence of the intent
}

// delivered is what the looks know of a stored intent that was delivered.
type delivered struct {
	record uint64 // the sequence of its order_no's record; 0 = there is none
	looks  uint   // how many have found it so since the first
}

// Look asks the broker for more time for each delivery that this process does not hold, and whose
// order_no has the record that it had at the last look: that many it returns. Then its time counts from now
// by whatever clock the broker has, and it comes back one ack wait later. If another worker holds
// it, that one's claim is extended, which does no harm. Between two looks passes what a delivery may
// take at the longest; a call in between does nothing. It asks after the first look that finds a delivery
// unchanged, the second, the fourth and so on, so that any number of processes may look: else they would put it
// off again and again. One of a fleet is enough.
func (ov *Overdue) Look(ctx context.Context) (asked int, err error) {
	if !ov.looking.TryLock() {
		return 0, nil
	}
	defer ov.looking.Unlock()
	now, over := ov.ledger.time.Now(), ov.ledger.link()
	if ov.over != over {
		ov.over, ov.at, ov.seen = over, time.Time{}, nil
	}
	if every := ov.ledger.cfg.LongestDelay + 2*ov.claims.AckWait(); !ov.at.IsZero() && now.Sub(ov.at) < every {
		return 0, nil
	}
	seen, err := ov.delivered(ctx, now)
	if err != nil || ov.ledger.link() != over {
		return 0, err
	}
	for _, seq := range slices.Sorted(maps.Keys(seen)) {
		was, known := ov.seen[seq]
		if !known || was.record != seen[seq].record {
			continue
		}
		was.looks++
		seen[seq] = was
		if was.looks&(was.looks-1) == 0 {
			if err = ov.ledger.store.ExtendIntent(seq); err != nil {
				return asked, err
			}
			asked++
		}
	}
	ov.at, ov.seen = now, seen
	return asked, nil
}

// delivered returns what was delivered, is stored, and this process neither holds nor
// acknowledged. Those whose producer's time has not come wait rightly.
func (ov *Overdue) delivered(ctx context.Context, now time.Time) (map[uint64]delivered, error) {
	seen := make(map[uint64]delivered)
	p, err := ov.ledger.store.Progress(ctx)
	if err != nil || p.NoneHeld {
		return seen, err
	}
	for next := p.Floor + 1; next <= p.Delivered; {
		page, err := ov.ledger.store.IntentsFrom(ctx, next, ov.ledger.cfg.ProveAtOnce)
		if err != nil || len(page) == 0 {
			return seen, err
		}
		next = page[len(page)-1].Seq + 1
		words, err := ov.ledger.wordsOf(ctx, page)
		if err != nil {
			return nil, err
		}
		for i, m := range page {
			if m.Seq <= p.Delivered && !ov.claims.holds(m.Seq) && !waitsForItsTime(m, now) {
				seen[m.Seq] = delivered{record: words[i].Seq}
			}
		}
	}
	return seen, nil
}

// waitsForItsTime reports whether the time before which an intent must not be sent has not come.
func waitsForItsTime(m *Message, now time.Time) bool {
	at, err := order.ParseNotBefore(m.Header.Get(HeaderNotBefore), now)
	return err == nil && at.After(now)
}
