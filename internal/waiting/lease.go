package waiting

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/books"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

const (
	// renewEvery is how often a feeder renews its lease.
	renewEvery = time.Second
	// margin is the part of the term that a feeder does not use: clocks run
	// differently, and a request may be on its way.
	margin = 1500 * time.Millisecond
)

// leaseHolder is one worker's part in deciding who feeds.
type leaseHolder struct {
	queue *queue.Queue
	mine  books.Lease

	revision uint64    // of our own entry; 0 = another worker feeds, or nobody
	until    time.Time // until then we may act; monotonic
	wall     time.Time // the same by the wall clock: a suspended machine stops the other one
	renewed  time.Time
	acquired bool // the last renewal took the lease over
	news     bool // mine has something to tell before the next renewal

	seen   uint64    // the other worker's last revision
	seenAt time.Time // since when
}

// held reports whether this worker may act now, by both clocks.
func (h *leaseHolder) held() bool {
	now := time.Now()
	return h.revision != 0 && now.Before(h.until) && now.Round(0).Before(h.wall)
}

// keep renews or acquires the lease. It returns whether this worker feeds.
func (h *leaseHolder) keep(ctx context.Context) (bool, error) {
	if h.held() && !h.news && time.Since(h.renewed) < renewEvery {
		return true, nil
	}
	h.acquired = false
	if h.revision == 0 {
		h.acquired = true
		now, err := books.ReadFeeding(ctx, h.queue, 0)
		if err != nil {
			return false, err
		}
		if now.Lease != nil && now.Lease.Owner != h.mine.Owner && !h.expired(now.LeaseRevision) {
			return false, nil
		}
		h.revision, h.mine.Since, h.mine.Holds, h.mine.Lanes, h.mine.Problem = now.LeaseRevision, time.Now().UTC(), 0, nil, ""
	}
	sent := time.Now()
	h.mine.Beat++
	revision, err := h.queue.Bucket().Swap(ctx, books.LeaseKey, h.mine, h.revision)
	if err != nil {
		if errors.Is(err, settle.ErrStale) { // another worker was first
			h.drop()
			return false, nil
		}
		if !h.held() {
			h.drop() // read again: the write may have happened
		}
		return h.held(), err
	}
	h.revision, h.renewed, h.news = revision, sent, false
	h.until, h.wall = sent.Add(books.FeederTerm-margin), sent.Round(0).Add(books.FeederTerm-margin)
	return true, nil
}

// expired reports whether another worker's lease was not renewed for one term,
// by this machine's clock alone. The first look begins the term.
func (h *leaseHolder) expired(revision uint64) bool {
	if revision != h.seen {
		h.seen, h.seenAt = revision, time.Now()
	}
	return time.Since(h.seenAt) > books.FeederTerm
}

func (h *leaseHolder) drop() { h.revision, h.until, h.wall = 0, time.Time{}, time.Time{} }

// leave lets another worker feed at once.
func (h *leaseHolder) leave() error {
	if h.revision == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	defer h.drop()
	err := h.queue.Bucket().Delete(ctx, books.LeaseKey, h.revision)
	if !errors.Is(err, settle.ErrStale) {
		return err
	}
	now, err := books.ReadFeeding(ctx, h.queue, 0) // our last renewal may have been stored, its answer lost
	if err != nil || now.Lease == nil || now.Lease.Owner != h.mine.Owner {
		return err
	}
	return h.queue.Bucket().Delete(ctx, books.LeaseKey, now.LeaseRevision)
}
