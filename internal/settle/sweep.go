package settle

import (
	"context"
	"errors"
	"sync"
	"time"
)

// SweepAll is how often all letters are looked at, and not only those that are new.
const SweepAll = 24 * time.Hour

// Sweeper removes dead letters that no record names: what a process left that ended between two writes,
// or a removal that failed (R4).
type Sweeper struct {
	ledger *Ledger

	sweeping sync.Mutex // it guards the rest
	next     uint64     // where the next sweep begins
	upTo     uint64     // where the letters ended at the time at
	at       time.Time  // zero = not known
	began    time.Time  // when the letters were looked at from the first one on
}

// Sweep removes what no record names of the letters that were stored Config.SweepAfter ago, by this process's
// monotonic clock, and returns how many it removed. One worker of a fleet calls it every minute or so.
func (sw *Sweeper) Sweep(ctx context.Context) (removed int, err error) {
	if !sw.sweeping.TryLock() {
		return 0, nil
	}
	defer sw.sweeping.Unlock()
	now := sw.ledger.time.Now()
	if !sw.at.IsZero() {
		if now.Sub(sw.at) < sw.ledger.cfg.SweepAfter {
			return 0, nil
		}
		if now.Sub(sw.began) >= SweepAll {
			sw.next, sw.began = 0, now
		}
		if removed, err = sw.sweep(ctx); err != nil {
			return removed, err
		}
	} else {
		sw.began = now
	}
	last, err := sw.ledger.store.LastLetter(ctx)
	if err != nil {
		return removed, err
	}
	sw.upTo, sw.at = last, now
	return removed, nil
}

// sweep looks at the letters up to upTo.
func (sw *Sweeper) sweep(ctx context.Context) (removed int, err error) {
	last, err := sw.ledger.store.LastLetter(ctx)
	if err != nil {
		return 0, err
	}
	if last < sw.upTo { // the stream was made again, and gives the sequences of the former one
		sw.next = 0
		return 0, nil
	}
	for sw.next <= sw.upTo {
		page, err := sw.ledger.store.LettersFrom(ctx, sw.next, ReadBatch)
		if err != nil {
			return removed, err
		}
		if len(page) == 0 {
			break
		}
		tokens := make([]string, len(page))
		for i, l := range page {
			tokens[i] = l.Token
		}
		words, err := sw.ledger.readLastWords(ctx, tokens)
		if err != nil {
			return removed, err
		}
		for i, l := range page {
			r := words[i].Record
			if l.Seq > sw.upTo || words[i].Unreadable != nil || r == nil || r.Names(l.Seq) { // without a record: results were lost, and nothing else holds this body
				continue
			}
			switch err := sw.ledger.store.DeleteLetter(ctx, l.Token, l.Seq); {
			case err == nil:
				removed++
			case !errors.Is(err, ErrRefused): // another sweep tries again
				return removed, err
			}
		}
		sw.next = min(page[len(page)-1].Seq, sw.upTo) + 1
	}
	sw.next = max(sw.next, sw.upTo+1)
	return removed, nil
}
